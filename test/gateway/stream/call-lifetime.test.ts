import { expect, test } from "vitest";
import { Lifetime } from "../../../src/gateway/stream/call-lifetime.ts";
import { after } from "../../../src/gateway/timer.ts";

const ports = { now: () => Date.now(), after, log: () => undefined };

test("a client that leaves in the course of its call ends it", () => {
  const client = new AbortController();
  const lifetime = new Lifetime("cancel", true, client.signal, ports);
  client.abort();
  expect(lifetime.gone).toBe(true);
  expect(lifetime.signal.aborted).toBe(true);
});

test("a client that had left before its call began ends it at once", () => {
  const lifetime = new Lifetime("cancel", true, AbortSignal.abort(), ports);
  expect(lifetime.signal.aborted).toBe(true);
});

test("a call that has ended no longer listens to its request", () => {
  const client = new AbortController();
  const lifetime = new Lifetime("cancel", true, client.signal, ports);
  lifetime.stop();
  client.abort();
  expect(lifetime.gone).toBe(false);
});

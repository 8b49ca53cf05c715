import fc from "fast-check";
import { expect, it } from "vitest";
import { readMachine } from "../../../src/core/compute/upstream-documents.ts";

const INSTANCE = {
  id: 7,
  name: "tgabcdef-7-1000-aaaaaa",
  status: "running",
  hourly_rate_usd: 2.5,
  estimated_duration_hours: null,
  ssh_tunnel_host: "ssh.example.com",
  ssh_tunnel_port: 2200,
  ssh_ready: true,
  ssh_command: "ssh -p 2200 root@ssh.example.com",
  started_at: "2026-03-01T10:00:00Z",
  terminated_at: null,
  termination_reason: null,
};
const read = (over: object) => readMachine(JSON.stringify({ ...INSTANCE, ...over }));

it("an instance is read, wrapped or not, with money in nano-USD and times in UTC", () => {
  const document = read({});
  expect(document).toEqual({
    upstreamId: 7,
    tag: "tgabcdef-7-1000-aaaaaa",
    state: "running",
    reason: null,
    rateNanoUsd: 2_500_000_000,
    startedAtMs: Date.UTC(2026, 2, 1, 10),
    terminatedAtMs: null,
    hours: null,
    replicas: null,
    ssh: { host: "ssh.example.com", port: 2200, ready: true, command: "ssh -p 2200 root@ssh.example.com" },
    jupyterUrl: null,
  });
  expect(readMachine(JSON.stringify({ instance: INSTANCE, held_amount: 3 }))).toEqual(document);
  expect(read({ started_at: "2026-03-01T10:00:00.000" })?.startedAtMs).toBe(Date.UTC(2026, 2, 1, 10));
});

it.each([
  ["stopped", "ended", null],
  ["terminated", "ended", null],
  ["failed", "ended", "failed"],
  ["terminating_low_balance", "stopping", null],
  ["degraded", "degraded", null],
])("status %s is %s", (status, state, reason) => {
  expect(read({ status })).toMatchObject({ state, reason });
});

it("without id, name or a known status it says nothing; other faults leave their field out", () => {
  for (const over of [{ id: "7" }, { name: "" }, { status: "exploded" }, { status: "constructor" }, { id: -1 }]) {
    expect(read(over)).toBeUndefined();
  }
  expect(readMachine("[]")).toBeUndefined();
  const odd = { started_at: "yesterday", hourly_rate_usd: -1, jupyter_url: "x".repeat(2_001), termination_reason: "?" };
  expect(read(odd)).toMatchObject({ startedAtMs: null, rateNanoUsd: null, jupyterUrl: null, reason: null });
  // What such a rate costs in days would be no whole number any more.
  for (const hourly_rate_usd of [1e300, 9_000_000, 10_000.01]) {
    const far = read({ started_at: "0001-01-01T00:00:00Z", hourly_rate_usd });
    expect(far).toMatchObject({ startedAtMs: null, rateNanoUsd: null });
  }
  expect(read({ hourly_rate_usd: 10_000 })?.rateNanoUsd).toBe(10_000_000_000_000);
});

it("no answer makes it throw", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(...Object.keys(INSTANCE)), (value, field) => {
      read({ [field]: value });
      readMachine(JSON.stringify(value));
    }),
  );
});

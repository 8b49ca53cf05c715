/** What is known of a request whose connection was lost: nothing listens on the port that these are sent to. */
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { asId, type CallId } from "../../src/core/ids.ts";
import { DEFAULT_TIMEOUTS, EMPTY_SNAPSHOT, type RoutingSnapshot } from "../../src/core/routing/routes.ts";
import { Health } from "../../src/core/routing/target-health.ts";
import type { UpstreamRequest } from "../../src/gateway/ports.ts";
import { after } from "../../src/gateway/timer.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { upstreamsWith } from "../../src/platform/upstream/client.ts";

const CLOSED = "http://127.0.0.1:1";
const encode = (text: string) => new TextEncoder().encode(text);

async function send(some: Partial<UpstreamRequest> = {}, timeouts = DEFAULT_TIMEOUTS) {
  const outcome = await readSecrets(env);
  if (!outcome.ok) throw new Error(outcome.fault.message);
  const sealedApiKey = await outcome.secrets.seal("u", "credential");
  const upstream = { id: "u", baseUrl: CLOSED, region: null, shared: false, sealedApiKey, timeouts };
  const routing: RoutingSnapshot = { ...EMPTY_SNAPSHOT, upstreams: { u: upstream } };
  const request: UpstreamRequest = {
    callId: asId<CallId>("c"),
    method: "POST",
    path: "/v1/images/generations",
    contentType: "application/json",
    accept: "application/json",
    body: [encode('{"model":"m",'), encode('"prompt":"a fox in the snow"}')],
    careful: true,
    patience: "stream",
    signal: new AbortController().signal,
    ...some,
  };
  const target = { upstream: "u", model: "m", priority: 0, weight: 1 };
  return upstreamsWith(outcome.secrets, new Health(), after).send(target, request, routing);
}
afterEach(() => vi.restoreAllMocks());

it("a refused connection is told from a lost one where the end of the body was kept back", async () => {
  expect(await send()).toEqual({ kind: "refused" });
  expect(await send({ body: [encode("{}")] })).toEqual({ kind: "refused" });
});

it("a large body that was not taken is known not to have been executed, with care or without", async () => {
  const body = [new Uint8Array(3 * 1024 * 1024)];
  expect(await send({ body, careful: false })).toEqual({ kind: "refused" });
});

it("without care nobody knows, but that nothing listens there now", async () => {
  expect(await send({ careful: false })).toEqual({ kind: "unreachable" });
});

it("a call whose client left before it was sent is not sent", async () => {
  const fetched = vi.spyOn(globalThis, "fetch");
  expect(await send({ signal: AbortSignal.abort() })).toEqual({ kind: "refused" });
  expect(fetched).not.toHaveBeenCalled();
});

it("care changes no byte of a body, whatever its size, nor its length", async () => {
  for (const size of [1, 15, 16, 17, 40, 70_000]) {
    const bytes = new Uint8Array(size).map((_, index) => index % 251);
    let seen: Request | undefined;
    let read = Promise.resolve(new ArrayBuffer(0));
    vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
      seen = new Request(url as string, init as RequestInit);
      read = seen.arrayBuffer();
      return new Response("{}");
    });
    // Answered before the body was read: the rest follows all the same.
    expect(await send({ body: [bytes] })).toMatchObject({ kind: "answer" });
    expect(new Uint8Array(await read)).toEqual(bytes);
  }
});

it("an upstream that is silent after it had everything is a timeout; one that never had it was not asked", async () => {
  const hang = (_: unknown, init?: RequestInit) =>
    new Promise<Response>((_, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("aborted"))));
  vi.spyOn(globalThis, "fetch").mockImplementation(hang as typeof fetch);
  const timeouts = { ...DEFAULT_TIMEOUTS, firstByteMs: 20 };
  expect(await send({ careful: false }, timeouts)).toEqual({ kind: "timeout" });
  expect(await send({}, timeouts)).toEqual({ kind: "refused" });
});

it("an answer that is not streamed has a time limit of its own, of which its body gets what is left", async () => {
  const hang = (_: unknown, init?: RequestInit) =>
    new Promise<Response>((_, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("aborted"))));
  vi.spyOn(globalThis, "fetch").mockImplementation(hang as typeof fetch);
  const timeouts = { ...DEFAULT_TIMEOUTS, firstByteMs: 10, answerMs: 60 };
  for (const patience of ["begin", "whole"] as const) {
    const sentAtMs = Date.now();
    expect(await send({ careful: false, patience }, timeouts)).toEqual({ kind: "answer_timeout" });
    expect(Date.now() - sentAtMs).toBeGreaterThanOrEqual(55);
  }
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
    await scheduler.wait(30);
    return new Response("{}");
  });
  const slow = { ...DEFAULT_TIMEOUTS, answerMs: 500 };
  const whole = await send({ careful: false, patience: "whole" }, slow);
  expect(whole.kind === "answer" && whole.totalMs).toBeLessThanOrEqual(475);
  // What passes as it comes may go on for as long as a stream does.
  expect(await send({ careful: false, patience: "begin" }, slow)).toMatchObject({ totalMs: slow.totalMs });
});

it("a connection that may not be made from here says nothing of an upstream that is silent: its first byte is waited for", async () => {
  const hang = (_: unknown, init?: RequestInit) =>
    new Promise<Response>((_, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("aborted"))));
  vi.spyOn(globalThis, "fetch").mockImplementation(hang as typeof fetch);
  const timeouts = { ...DEFAULT_TIMEOUTS, connectMs: 10, firstByteMs: 150 };
  expect(await send({ careful: false }, timeouts)).toEqual({ kind: "timeout" });
});

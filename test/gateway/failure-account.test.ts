/** An account object that is slow, restarting, overloaded or out of reach: no money is let through, no hold is left. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Admission, AdmitRequest } from "../../src/core/account/hold.ts";
import { chatCompletions } from "../../src/core/endpoints/inference/chat.ts";
import { getResponse } from "../../src/core/endpoints/inference/responses.ts";
import { type AccountNumber, asId, type KeyId } from "../../src/core/ids.ts";
import { LONGEST_ANSWER_MS } from "../../src/gateway/account-client.ts";
import { serve } from "../../src/gateway/serve.ts";
import { type FakeOptions, fakeWorld, json, makeKey } from "../support/fake-ports.ts";

const COMPLETION = {
  choices: [{ index: 0, message: { content: "hi" } }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
};
const grant = (request: AdmitRequest): Admission => ({
  ok: true,
  owned: [],
  rates: {},
  hold: {
    callId: request.callId,
    keyId: asId<KeyId>("key_1"),
    amountNanoUsd: 1,
    outputCap: 10,
    livesMs: 120_000,
    longestCallMs: 3_600_000,
    onDisconnect: "cancel",
  },
});
const overloaded = () => Promise.reject(Object.assign(new Error("too much"), { overloaded: true }));

function begin(options: Partial<FakeOptions>) {
  const world = fakeWorld({ script: () => json(COMPLETION), ...options });
  const account = vi.spyOn(world.ports, "account");
  const request = new Request("http://gateway.test/", {
    method: "POST",
    headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "chat", messages: [{ role: "user", content: "hello" }] }),
  });
  return { world, account, response: serve(request, chatCompletions, {}, world.ports) };
}

const realTimeout = setTimeout;
beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] }));
afterEach(() => void vi.useRealTimers());
/** Moves the clock while what really takes time, such as reading a body, gets its turn. */
async function pass(ms: number): Promise<void> {
  for (let step = 0; step < 20; step++) {
    await new Promise((resolve) => realTimeout(resolve, 1));
    await vi.advanceTimersByTimeAsync(ms / 20);
  }
}

it("says nothing for 5 s: 503 to be repeated, no upstream call; the hold that it grants after all is given back", async () => {
  const late = Promise.withResolvers<Admission>();
  const { world, response } = begin({ admit: () => late.promise });
  await pass(LONGEST_ANSWER_MS + 200);
  const refused = await response;
  expect([refused.status, refused.headers.get("retry-after"), refused.headers.get("x-should-retry")]).toEqual([
    503,
    "1",
    null,
  ]);
  expect([world.sent.length, world.released.length]).toEqual([0, 0]);
  late.resolve(grant(world.admitted[0] as AdmitRequest));
  await world.idle();
  expect(world.sent).toEqual([]);
  expect(world.released).toEqual([
    expect.objectContaining({ callId: "call-1", lostTries: 0, reason: "admission_unavailable" }),
  ]);
});

it("refuses after all: there is nothing to give back", async () => {
  const late = Promise.withResolvers<Admission>();
  const { world, response } = begin({ admit: () => late.promise });
  await pass(LONGEST_ANSWER_MS + 200);
  await response;
  late.resolve({ ok: false, refusal: { kind: "bad_key", why: "revoked" } });
  await world.idle();
  expect(world.released).toEqual([]);
});

it("never says anything: what it may have granted is given back before the background's time is over", async () => {
  const { world, response } = begin({ admit: () => new Promise(() => undefined) });
  await pass(LONGEST_ANSWER_MS + 200);
  await response;
  await pass(24_000);
  await world.idle();
  expect(world.released).toHaveLength(1);
});

it("throws, as one that restarts does: a new stub is asked once, with the same call id", async () => {
  let calls = 0;
  const { world, account, response } = begin({
    admit: (request) => (calls++ === 0 ? Promise.reject(new Error("reset")) : grant(request)),
  });
  await pass(100);
  expect((await response).status).toBe(200);
  expect(world.admitted.map(({ callId }) => callId)).toEqual(["call-1", "call-1"]);
  expect(account.mock.results[0]?.value).not.toBe(account.mock.results[1]?.value);
});

it("throws twice: 503, no upstream call, and a hold whose answer was lost is given back", async () => {
  const { world, response } = begin({ admit: () => Promise.reject(new Error("gone")) });
  await pass(100);
  expect((await response).status).toBe(503);
  await world.idle();
  expect([world.admitted.length, world.sent.length, world.released.length]).toEqual([2, 0, 1]);
});

it("is overloaded: 503 at once, and it is left alone", async () => {
  const { world, response } = begin({ admit: overloaded });
  await pass(100);
  expect((await response).status).toBe(503);
  await world.idle();
  expect([world.admitted.length, world.sent.length, world.released.length]).toEqual([1, 0, 0]);
});

it("is overloaded when a call ends: it is told once more, later; the charge is not given up", async () => {
  let words = 0;
  const { world, response } = begin({
    settle: () => (words++ === 0 ? overloaded() : Promise.resolve({ state: "settled", chargedNanoUsd: 7 })),
  });
  await pass(100);
  expect((await response).status).toBe(200);
  expect(world.settled).toHaveLength(1);
  await pass(3_000);
  expect(world.settled).toHaveLength(1);
  await pass(1_500);
  await world.idle();
  expect(world.settled).toHaveLength(2);
});

it("is overloaded from then on: its end goes by the queue after the second word", async () => {
  const { world, response } = begin({ settle: overloaded });
  await pass(100);
  expect((await response).status).toBe(200);
  await pass(7_000);
  await world.idle();
  expect([world.settled.length, world.queued.length]).toEqual([2, 1]);
  expect(world.queued[0]).toMatchObject({ account: 7, end: { kind: "settle", said: world.settled[0] } });
});

it("is out of reach when a call ends: it is told again and again for 25 s, then the queue is", async () => {
  const { world, response } = begin({ settle: () => Promise.reject(new Error("restarting")) });
  await pass(100);
  expect((await response).status).toBe(200);
  await pass(20_000);
  expect([world.settled.length, world.queued.length]).toEqual([9, 0]);
  await pass(5_000);
  await world.idle();
  expect(world.settled).toHaveLength(10);
  expect(world.queued).toEqual([expect.objectContaining({ end: { kind: "settle", said: world.settled[0] } })]);
  expect(world.logged.map(({ event }) => event)).toContain("settlement_queued");
});

it("comes back within that time: the charge arrives, and nothing is queued", async () => {
  let words = 0;
  const { world, response } = begin({
    settle: () =>
      words++ < 7 ? Promise.reject(new Error("restarting")) : Promise.resolve({ state: "settled", chargedNanoUsd: 7 }),
  });
  await pass(100);
  expect((await response).status).toBe(200);
  await pass(20_000);
  await world.idle();
  expect([world.settled.length, world.queued.length]).toEqual([8, 0]);
});

it("never answers a settlement: it is said once, not on top of itself, and then goes by the queue", async () => {
  const { world, response } = begin({ settle: () => new Promise(() => undefined) });
  await pass(100);
  expect((await response).status).toBe(200);
  await pass(24_000);
  expect([world.settled.length, world.queued.length]).toEqual([1, 0]);
  await pass(2_000);
  await world.idle();
  expect([world.settled.length, world.queued.length]).toEqual([1, 1]);
});

it("and the queue out of reach at once: the log says that the settlement is lost", async () => {
  const { world, response } = begin({ settle: overloaded });
  vi.spyOn(world.ports, "queueEnd").mockRejectedValue(new Error("queue down"));
  await pass(100);
  expect((await response).status).toBe(200);
  await pass(8_000);
  await world.idle();
  expect(world.logged).toContainEqual(expect.objectContaining({ event: "settlement_lost", call: "call-1" }));
});

it("cannot take the release of a call that failed: its client has the answer within a second all the same", async () => {
  const { world, response } = begin({ script: () => json({}, 400) });
  const port = world.ports.account(asId<AccountNumber>(7));
  const release = () => Promise.reject(new Error("restarting"));
  vi.spyOn(world.ports, "account").mockImplementation(() => ({ ...port, release }));
  await pass(1_200);
  expect((await response).status).toBe(400);
  await pass(30_000);
  await world.idle();
  expect(world.queued).toEqual([
    expect.objectContaining({ end: { kind: "release", said: expect.objectContaining({ callId: "call-1" }) } }),
  ]);
});

it("does not say whether a key is live: 503, never the answer", async () => {
  const world = fakeWorld({ script: () => json({ id: "resp_1" }) });
  const hung = () => new Promise<never>(() => undefined);
  vi.spyOn(world.ports, "account").mockImplementation(() => ({ authorize: hung }) as never);
  const request = new Request("http://gateway.test/", { headers: { authorization: `Bearer ${makeKey()}` } });
  const response = serve(request, getResponse, { id: "resp_1" }, world.ports);
  await pass(LONGEST_ANSWER_MS + 200);
  expect((await response).status).toBe(503);
  expect(world.sent).toEqual([]);
});

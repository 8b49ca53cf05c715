/** The pipeline with leases: what is admitted here, what is asked, and what becomes of the ends. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Lease, LeaseAsk } from "../../src/core/account/lease.ts";
import { chatCompletions } from "../../src/core/endpoints/inference/chat.ts";
import { type AccountNumber, asId, type KeyId } from "../../src/core/ids.ts";
import { IsolateLeases } from "../../src/core/leases/isolate-leases.ts";
import { NO_PLAN } from "../../src/core/pricing/prices.ts";
import { returnLeases } from "../../src/gateway/leases.ts";
import { serve } from "../../src/gateway/serve.ts";
import { type FakeOptions, fakeWorld, json, makeKey } from "../support/fake-ports.ts";

/** Whose key `makeKey` makes. */
const ACCOUNT = asId<AccountNumber>(7);
const COMPLETION = {
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};

const grantTo = (ask: LeaseAsk): Lease => ({
  id: ask.id,
  keyId: asId<KeyId>("key_1"),
  keyDigest: ask.keyDigest,
  slice: { requests: 4, tokens: 100_000, slots: 4, nanoUsd: 1_000_000_000 },
  livesMs: 1_000,
  key: { scopes: ["inference"], role: "member", models: null },
  plan: NO_PLAN,
  holds: { livesMs: 120_000, longestCallMs: 3_600_000, onDisconnect: "cancel" },
  rates: { requests: { limit: 60, remaining: 50, resetMs: 1_000 } },
});

beforeEach(() => void vi.useFakeTimers({ now: 1_700_000_000_000 }));
afterEach(() => void vi.useRealTimers());

function leasedWorld(some: Partial<FakeOptions> = {}) {
  const leases = new IsolateLeases();
  const world = fakeWorld({ script: () => json(COMPLETION), leases, lease: grantTo, ...some });
  const call = async (body: object = {}, headers: Record<string, string> = {}) => {
    const request = new Request("http://gateway.test/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "chat", messages: [{ role: "user", content: "hello" }], max_tokens: 5, ...body }),
    });
    const answered = serve(request, chatCompletions, {}, world.ports);
    await vi.advanceTimersByTimeAsync(1);
    const response = await answered;
    await response.text();
    return response;
  };
  return { ...world, call };
}

/** Four calls make the key hot: the fourth brings a lease. */
async function hot(some: Partial<FakeOptions> = {}) {
  const world = leasedWorld(some);
  for (let calls = 0; calls < 4; calls++) await world.call();
  expect(world.admitted).toHaveLength(4);
  return world;
}

describe("a hot key", () => {
  it("is admitted here, served and charged by a report, and its lease is returned when it is over", async () => {
    const world = await hot();
    const response = await world.call();
    expect(response.status).toBe(200);
    expect(response.headers.get("x-ratelimit-remaining-requests")).toBe("49");
    expect([world.admitted.length, world.settled.length]).toEqual([4, 4]);
    await vi.advanceTimersByTimeAsync(260);
    expect(world.reported).toMatchObject([
      {
        calls: [
          { call: { model: "chat" }, end: { kind: "settle", said: { reading: { usage: { input_tokens: 3 } } } } },
        ],
        over: [],
      },
    ]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(world.reported.at(-1)).toMatchObject({ calls: [], over: [{ admitted: 1 }] });
    await world.idle();
    await world.call();
    expect(world.admitted).toHaveLength(5);
  });

  it("is asked of the object where the slice is used up", async () => {
    const world = await hot();
    for (let calls = 0; calls < 6; calls++) await world.call();
    expect(world.admitted.length).toBeGreaterThan(4);
    expect(world.admitted.length).toBeLessThan(10);
  });

  it("gives a failed call's share back: it is released by the report, and costs no wait", async () => {
    const world = await hot();
    world.sent.length = 0;
    const failing = leasedWorld({ script: () => json({ error: {} }, 400) });
    for (let calls = 0; calls < 5; calls++) await failing.call();
    expect(failing.released).toHaveLength(4);
    await vi.advanceTimersByTimeAsync(260);
    expect(failing.reported.flatMap(({ calls }) => calls)).toMatchObject([{ end: { kind: "release" } }]);
  });

  it("says a report again until it is answered, unchanged", async () => {
    let fails = 2;
    const report = vi.fn(async () => {
      if (fails-- > 0) throw new Error("gone");
      return { leases: [] };
    });
    const world = await hot({ report });
    await world.call();
    await vi.advanceTimersByTimeAsync(900);
    expect(report.mock.calls.length).toBeGreaterThanOrEqual(3);
    expect(world.reported.slice(0, 3).every((said) => said === world.reported[0])).toBe(true);
    await vi.advanceTimersByTimeAsync(2_000);
    await world.idle();
    expect(world.queued).toEqual([]);
  });

  it("gives the queue what no report could say, with the call that it is the end of", async () => {
    const report = () => Promise.reject(new Error("gone"));
    const world = await hot({ report });
    await world.call();
    await vi.advanceTimersByTimeAsync(40_000);
    expect(world.queued).toMatchObject([{ end: { kind: "settle" }, leased: { model: "chat" } }]);
  });
});

describe("whoever reads or changes the account", () => {
  it("finds in its books what this isolate has answered, and nothing held for it", async () => {
    const world = await hot();
    await world.call();
    await returnLeases(ACCOUNT, world.ports);
    expect(world.reported).toMatchObject([{ calls: [{ end: { kind: "settle" } }], over: [{ admitted: 1 }], asks: [] }]);
    await world.call();
    expect(world.admitted).toHaveLength(5);
    await returnLeases(asId<AccountNumber>(77), world.ports);
    expect(world.reported).toHaveLength(1);
  });

  it("waits a second for it at most, and the next report tells it", async () => {
    let silent = true;
    const world = await hot({
      report: () => (silent ? new Promise(() => undefined) : Promise.resolve({ leases: [] })),
    });
    await world.call();
    const returned = returnLeases(ACCOUNT, world.ports);
    await vi.advanceTimersByTimeAsync(1_000);
    await returned;
    silent = false;
    const unheard = world.reported.length;
    await vi.advanceTimersByTimeAsync(8_000);
    expect(world.reported[unheard]).toMatchObject({ calls: [{ end: { kind: "settle" } }] });
    await world.idle();
  });
});

describe("asked of the object", () => {
  it.each([
    ["a body above 64 kB", { messages: [{ role: "user", content: "x".repeat(70_000) }] }],
    ["a model that the slice does not cover", { max_tokens: 1_000, n: 128 }],
  ])("%s", async (_, body) => {
    const world = await hot();
    await world.call(body);
    expect(world.admitted).toHaveLength(5);
  });

  it("every call, where leases are off", async () => {
    const world = leasedWorld();
    Object.assign(world.ports, { leases: null });
    for (let calls = 0; calls < 8; calls++) await world.call();
    expect([world.admitted.length, world.reported.length]).toEqual([8, 0]);
  });
});

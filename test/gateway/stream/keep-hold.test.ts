/** A hold is kept while its call runs, and the call is over before the hold is. In virtual time. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Hold, Progress } from "../../../src/core/account/hold.ts";
import { asId, type CallId, type KeyId } from "../../../src/core/ids.ts";
import type { AccountPort } from "../../../src/gateway/ports.ts";
import { type Cut, HoldKeeper } from "../../../src/gateway/stream/keep-hold.ts";

const LIFE_MS = 120_000;
const LONGEST_MS = 3_480_000;
const PROGRESS: Progress = {
  reading: { source: "own_count", usage: { input_tokens: 2, output_tokens: 5 } },
  servedBy: { upstream: "u", model: "m", region: null },
  costNanoUsd: 7,
};

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function keep(renew: (progress: Progress | null) => Promise<boolean>) {
  const renewals: { atMs: number; progress: Progress | null }[] = [];
  const cuts: { atMs: number; why: Cut }[] = [];
  const startedAtMs = Date.now();
  const hold: Hold = {
    callId: asId<CallId>("call-1"),
    keyId: asId<KeyId>("key_1"),
    amountNanoUsd: 1,
    expiresAtMs: startedAtMs + LIFE_MS,
    longestCallMs: LONGEST_MS,
    onDisconnect: "cancel",
  };
  const account = () =>
    ({
      renew: (_: CallId, progress: Progress | null) => {
        renewals.push({ atMs: Date.now() - startedAtMs, progress });
        return renew(progress);
      },
    }) as unknown as AccountPort;
  const cut = (why: Cut) => void cuts.push({ atMs: Date.now() - startedAtMs, why });
  const ports = { now: () => Date.now(), log: () => undefined };
  const keeper = new HoldKeeper({ hold, account, progress: () => PROGRESS, cut }, ports);
  return { keeper, renewals, cuts };
}
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("a hold", () => {
  it("is renewed each half of its life, with what was read so far, until the call is over", async () => {
    const { keeper, renewals, cuts } = keep(async () => true);
    await pass(300_000);
    expect(renewals.map(({ atMs }) => atMs)).toEqual([60_000, 120_000, 180_000, 240_000, 300_000]);
    expect(renewals.every(({ progress }) => progress === PROGRESS)).toBe(true);
    keeper.stop();
    await pass(LONGEST_MS);
    expect([renewals.length, cuts, vi.getTimerCount()]).toEqual([5, [], 0]);
  });

  it("is renewed sooner again where it could not be", async () => {
    let calls = 0;
    const { renewals, cuts } = keep(async () => {
      if (calls++ < 2) throw new Error("restarting");
      return true;
    });
    await pass(160_000);
    expect(renewals.map(({ atMs }) => atMs)).toEqual([60_000, 75_000, 90_000, 150_000]);
    expect(cuts).toEqual([]);
  });
});

describe("a call is cut", () => {
  it("once, when its hold is said to have ended", async () => {
    const { cuts } = keep(async () => false);
    await pass(LONGEST_MS * 2);
    expect([cuts, vi.getTimerCount()]).toEqual([[{ atMs: 60_000, why: "hold_ended" }], 0]);
  });

  it("before its hold ends, when nobody can renew it", async () => {
    const { cuts } = keep(() => Promise.reject(new Error("down")));
    await pass(LIFE_MS);
    expect(cuts).toEqual([{ atMs: 105_000, why: "hold_ended" }]);
  });

  it("the same where renewals are not answered, of which two are under way at most", async () => {
    const { renewals, cuts } = keep(() => new Promise(() => undefined));
    await pass(LIFE_MS);
    expect([renewals.length, cuts]).toEqual([2, [{ atMs: 105_000, why: "hold_ended" }]]);
  });

  it("when it has run for as long as any may, however well its hold is renewed", async () => {
    const { cuts } = keep(async () => true);
    await pass(LONGEST_MS - 1);
    expect(cuts).toEqual([]);
    await pass(1);
    expect([cuts, vi.getTimerCount()]).toEqual([[{ atMs: LONGEST_MS, why: "overdue" }], 0]);
  });
});

/** A hold is kept while its call runs, and the call is over before the hold is. In virtual time. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Hold, Progress } from "../../../src/core/account/hold.ts";
import { asId, type CallId, type KeyId } from "../../../src/core/ids.ts";
import type { AccountPort } from "../../../src/gateway/ports.ts";
import { type Cut, HoldKeeper } from "../../../src/gateway/stream/keep-hold.ts";
import { after } from "../../../src/gateway/timer.ts";

const LIFE_MS = 120_000;
const LONGEST_MS = 3_480_000;
const PROGRESS: Progress = {
  reading: { source: "own_count", usage: { input_tokens: 2, output_tokens: 5 } },
  servedBy: { upstream: "u", model: "m", region: null },
  costNanoUsd: 7,
};

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function keep(
  renew: (progress: Progress | null) => Promise<boolean>,
  longestCallMs = LONGEST_MS,
  now: () => number = Date.now,
) {
  const renewals: { atMs: number; progress: Progress | null }[] = [];
  const cuts: { atMs: number; why: Cut }[] = [];
  const startedAtMs = Date.now();
  const hold: Hold = {
    callId: asId<CallId>("call-1"),
    keyId: asId<KeyId>("key_1"),
    amountNanoUsd: 1,
    livesMs: LIFE_MS,
    longestCallMs,
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
  const ports = { now, after, log: () => undefined };
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

describe("a clock that jumps under a call", () => {
  it.each([1_000, 3_600_000])(
    "back by %i ms: the hold is renewed in time all the same, until the end",
    async (stepMs) => {
      let behindMs = 0;
      const { renewals, cuts } = keep(
        async () => true,
        LONGEST_MS,
        () => Date.now() - behindMs,
      );
      await pass(90_000);
      behindMs = stepMs;
      await pass(LONGEST_MS);
      const gaps = renewals.map(({ atMs }, at) => atMs - (renewals[at - 1]?.atMs ?? 0));
      // A renewal gives 120 s.
      expect(Math.max(...gaps)).toBeLessThan(100_000);
      expect(cuts).toEqual([{ atMs: expect.any(Number), why: "overdue" }]);
      expect(Math.abs((cuts[0]?.atMs ?? 0) - LONGEST_MS)).toBeLessThanOrEqual(60_000);
    },
  );

  it("ahead: the call ends early, and never later than its hold", async () => {
    let aheadMs = 0;
    const { cuts } = keep(
      async () => true,
      LONGEST_MS,
      () => Date.now() + aheadMs,
    );
    await pass(90_000);
    aheadMs = 3_600_000;
    await pass(LIFE_MS);
    expect(cuts).toEqual([{ atMs: 120_000, why: "overdue" }]);
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

  it.each([
    ["is renewed once more then, with what was read until the cut", async () => true],
    ["and is cut all the same where that renewal fails", async () => Promise.reject(new Error("down"))],
    ["and once only, where it finds the hold ended", async () => false],
  ])("%s", async (_, lastAnswer) => {
    let last = false;
    const { renewals, cuts } = keep(() => (last ? lastAnswer() : Promise.resolve(true)), LONGEST_MS - 10_000);
    await pass(LONGEST_MS - 10_001);
    expect(renewals.at(-1)?.atMs).toBe(LONGEST_MS - 60_000);
    last = true;
    await pass(1);
    const atMs = LONGEST_MS - 10_000;
    expect([renewals.at(-1), cuts]).toEqual([{ atMs, progress: PROGRESS }, [{ atMs, why: "overdue" }]]);
    await pass(LONGEST_MS);
    expect([renewals.length, cuts.length, vi.getTimerCount()]).toEqual([58, 1, 0]);
  });
});

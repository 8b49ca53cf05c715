import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type LevelUse,
  limitRefusal,
  ratesOf,
  requestRoom,
  slotRoom,
  tokenRoom,
} from "../../../src/core/account/limits.ts";
import { type Limits, NO_LIMITS } from "../../../src/core/account/tenant.ts";
import { DAY, MINUTE, TrailingCount } from "../../../src/core/account/trailing-count.ts";

const shapes = fc.constantFrom(MINUTE, DAY);
/** Calls: how long after the one before (in hundredths of the window), and how much each counts. */
const calls = fc.array(fc.record({ wait: fc.integer({ min: 0, max: 40 }), amount: fc.integer({ min: 1, max: 9 }) }), {
  maxLength: 120,
});

/** Lets each call in that fits under the limit; gives those that were. */
function admitAll(shape: typeof MINUTE, limit: number, wanted: readonly { wait: number; amount: number }[]) {
  const count = new TrailingCount(shape);
  const admitted: { atMs: number; amount: number }[] = [];
  /** `before`: how many were admitted by then. */
  const refused: { atMs: number; amount: number; before: number; fitsAtMs: number | null }[] = [];
  let atMs = 1_700_000_000_123;
  for (const { wait, amount } of wanted) {
    atMs += Math.floor((wait * shape.spanMs) / 100) + wait;
    if (count.used(atMs) + amount <= limit) {
      count.add(atMs, amount);
      admitted.push({ atMs, amount });
    } else {
      refused.push({ atMs, amount, before: admitted.length, fitsAtMs: count.fitsAtMs(amount, limit, atMs) });
    }
  }
  return { admitted, refused };
}

it("no stretch of the window's length holds more than the limit, whatever the sequence", () => {
  fc.assert(
    fc.property(shapes, fc.integer({ min: 1, max: 30 }), calls, (shape, limit, wanted) => {
      const { admitted } = admitAll(shape, limit, wanted);
      for (const { atMs } of admitted) {
        const inside = admitted.filter((other) => other.atMs <= atMs && other.atMs > atMs - shape.spanMs);
        expect(inside.reduce((sum, other) => sum + other.amount, 0)).toBeLessThanOrEqual(limit);
      }
    }),
  );
});

it("a refusal is never false by more than one bucket", () => {
  fc.assert(
    fc.property(shapes, fc.integer({ min: 1, max: 30 }), calls, (shape, limit, wanted) => {
      const { admitted, refused } = admitAll(shape, limit, wanted);
      for (const { atMs, amount } of refused) {
        const reach = shape.spanMs + shape.bucketMs;
        const inside = admitted.filter((other) => other.atMs <= atMs && other.atMs > atMs - reach);
        expect(inside.reduce((sum, other) => sum + other.amount, 0) + amount).toBeGreaterThan(limit);
      }
    }),
  );
});

it("the time said to a refused call is when it fits, and not a millisecond late", () => {
  fc.assert(
    fc.property(shapes, fc.integer({ min: 1, max: 30 }), calls, (shape, limit, wanted) => {
      const { admitted, refused } = admitAll(shape, limit, wanted);
      for (const { amount, before, fitsAtMs } of refused) {
        if (fitsAtMs === null) {
          expect(amount).toBeGreaterThan(limit);
          continue;
        }
        const replay = () => {
          const count = new TrailingCount(shape);
          for (const call of admitted.slice(0, before)) count.add(call.atMs, call.amount);
          return count;
        };
        expect(replay().used(fitsAtMs) + amount).toBeLessThanOrEqual(limit);
        expect(replay().used(fitsAtMs - 1) + amount).toBeGreaterThan(limit);
      }
    }),
  );
});

it("a clock that is set back lets no more through in any real window, and has room one window later at the latest", () => {
  /** Real time that passes, and by how much the clock is set back before it, both in hundredths of the window. */
  const acts = fc.array(
    fc.record({ wait: fc.integer({ min: 0, max: 40 }), back: fc.constantFrom(0, 0, 0, 1, 7, 100, 6_000) }),
    { minLength: 1, maxLength: 80 },
  );
  fc.assert(
    fc.property(shapes, fc.integer({ min: 1, max: 6 }), acts, (shape, limit, wanted) => {
      const count = new TrailingCount(shape);
      const admittedAt: number[] = [];
      let [realMs, aheadMs] = [0, 1_700_000_000_123];
      for (const { wait, back } of wanted) {
        aheadMs -= (back * shape.spanMs) / 100;
        const step = (wait * shape.spanMs) / 100;
        realMs += step;
        const nowMs = realMs + aheadMs;
        const recent = admittedAt.filter((atMs) => atMs > realMs - shape.spanMs).length;
        if (count.used(nowMs) < limit) {
          count.add(nowMs, 1);
          admittedAt.push(realMs);
          expect(recent).toBeLessThan(limit);
        }
        expect(count.emptyAtMs(nowMs) - nowMs).toBeLessThanOrEqual(shape.spanMs + shape.bucketMs);
      }
    }),
  );
});

describe("a trailing count", () => {
  it("takes a correction of what was moved from nobody else", () => {
    const count = new TrailingCount(MINUTE);
    count.add(3_600_000, 50);
    expect(count.used(0)).toBe(50);
    count.add(3_600_000, -20);
    expect(count.used(1)).toBe(50);
    expect(count.used(61_000)).toBe(0);
    count.add(61_000, 7);
    expect(count.used(61_000)).toBe(7);
  });

  it("takes a correction in the bucket of the call, and none for a bucket that has left", () => {
    const count = new TrailingCount(MINUTE);
    count.add(10_000, 100);
    count.add(20_000, 5);
    count.add(10_400, -60);
    expect(count.used(20_000)).toBe(45);
    expect(count.used(71_000)).toBe(5);
    count.add(10_000, -40);
    expect(count.used(71_000)).toBe(5);
  });

  it("counts the oldest bucket whole until all of it has aged out", () => {
    const count = new TrailingCount(MINUTE);
    count.add(10_000, 1);
    expect(count.used(70_999)).toBe(1);
    expect(count.used(71_000)).toBe(0);
    expect(count.emptyAtMs(71_000)).toBe(71_000);
  });

  it("keeps where each count stands, no bucket without one, and takes none into a bucket that has left", () => {
    const count = new TrailingCount(MINUTE);
    count.add(10_000, 1);
    expect(count.used(70_999)).toBe(1);
    count.add(10_000, 2);
    count.add(30_500, 4);
    count.add(40_000, 0);
    expect(count.buckets()).toEqual([
      [10_000, 3],
      [30_000, 4],
    ]);
    expect(count.used(71_000)).toBe(4);
    count.add(10_000, 5);
    expect(count.buckets()).toEqual([[30_000, 4]]);
    count.add(30_000, -4);
    expect(count.buckets()).toEqual([]);
  });

  it("takes back one of what was counted last, and nothing where all has left", () => {
    const count = new TrailingCount(MINUTE);
    count.add(10_000, 3);
    count.add(20_000, 2);
    count.takeBack(20_000);
    expect(count.buckets()).toEqual([
      [10_000, 3],
      [20_000, 1],
    ]);
    count.takeBack(20_000);
    count.takeBack(71_000);
    expect(count.used(71_000)).toBe(0);
    count.takeBack(71_000);
    expect(count.buckets()).toEqual([]);
  });

  it("moves what the clock left in the future into the bucket of now, and nothing else", () => {
    const count = new TrailingCount(MINUTE);
    for (const atMs of [0, 5_000, 5_500, 30_000, 31_000]) count.add(atMs, 1);
    expect(count.used(5_900)).toBe(5);
    expect(count.buckets()).toEqual([
      [0, 1],
      [5_000, 4],
    ]);
  });

  it("fits at once where the amount fills the limit, and is empty once all has left, asked or not", () => {
    const count = new TrailingCount(MINUTE);
    count.add(0, 1);
    expect(count.fitsAtMs(1, 2, 500)).toBe(500);
    expect(count.fitsAtMs(2, 2, 500)).toBe(61_000);
    expect(new TrailingCount(MINUTE).fitsAtMs(2, 2, 500)).toBe(500);
    expect(count.emptyAtMs(90_000)).toBe(90_000);
  });

  it("stays whole when the clock steps back", () => {
    const count = new TrailingCount(MINUTE);
    count.add(30_000, 1);
    count.add(28_500, 1);
    expect(count.used(28_500)).toBe(2);
    expect(count.fitsAtMs(1, 2, 28_500)).toBe(89_000);
  });
});

const level = (some: Partial<Omit<LevelUse, "limits">> & { limits?: Partial<Limits> }): LevelUse => ({
  level: "key",
  requests: new TrailingCount(MINUTE),
  tokens: new TrailingCount(MINUTE),
  dayRequests: null,
  slots: 0,
  ...some,
  limits: { ...NO_LIMITS, ...some.limits },
});
const counted = (shape: typeof MINUTE, amount: number) => {
  const count = new TrailingCount(shape);
  count.add(0, amount);
  return count;
};

it("a refusal names the narrowest level that has no room, and what is allowed there", () => {
  const account = level({ level: "account", limits: { rpm_limit: 0 } });
  const team = level({ level: "team", limits: { max_parallel_requests: 2 }, slots: 2 });
  expect(limitRefusal([level({}), team, account], 1, 0)).toEqual({
    kind: "rate_limit",
    level: "team",
    limit: "max_parallel_requests",
    allowed: 2,
    retryAfterMs: 1_000,
  });
  expect(limitRefusal([level({}), account], 1, 0)).toMatchObject({ level: "account", retryAfterMs: null });
});

it("a call larger than tpm_limit is told that no wait helps; one that counts no tokens passes", () => {
  const use = level({ limits: { tpm_limit: 10 }, tokens: counted(MINUTE, 10) });
  expect(limitRefusal([use], 11, 0)).toMatchObject({ limit: "tpm_limit", retryAfterMs: null });
  expect(limitRefusal([use], 10, 0)).toMatchObject({ limit: "tpm_limit", retryAfterMs: 61_000 });
  expect(limitRefusal([use], 0, 0)).toBeUndefined();
  expect(tokenRoom([use, level({})], 0)).toBe(0);
  expect(tokenRoom([level({})], 0)).toBe(Number.POSITIVE_INFINITY);
});

it("the rates said are the tightest over levels, rpd where it leaves less than rpm", () => {
  const key = level({
    limits: { rpm_limit: 50, tpm_limit: 1_000 },
    requests: counted(MINUTE, 10),
    tokens: counted(MINUTE, 1),
  });
  const account = level({
    level: "account",
    limits: { rpd_limit: 100, tpm_limit: 500 },
    dayRequests: counted(DAY, 95),
  });
  expect(ratesOf([key, account], 0)).toEqual({
    requests: { limit: 100, remaining: 5, resetMs: 87_000_000 },
    tokens: { limit: 500, remaining: 500, resetMs: 0 },
  });
  expect(ratesOf([level({})], 0)).toEqual({});
});

it("a limit lets exactly as much through as it says, at each kind of limit", () => {
  const full = level({
    limits: { rpm_limit: 2, tpm_limit: 10, rpd_limit: 3, max_parallel_requests: 2 },
    requests: counted(MINUTE, 1),
    tokens: counted(MINUTE, 5),
    dayRequests: counted(DAY, 2),
    slots: 1,
  });
  expect(limitRefusal([full], 5, 0)).toBeUndefined();
  expect(limitRefusal([full], 6, 0)).toMatchObject({ limit: "tpm_limit" });
  expect(limitRefusal([{ ...full, requests: counted(MINUTE, 2) }], 5, 0)).toMatchObject({ limit: "rpm_limit" });
  expect(limitRefusal([{ ...full, dayRequests: counted(DAY, 3) }], 5, 0)).toMatchObject({ limit: "rpd_limit" });
  expect(limitRefusal([{ ...full, slots: 2 }], 5, 0)).toMatchObject({ limit: "max_parallel_requests" });
});

it("no wait helps where no call may run at all; a call of no tokens passes a window that is over its limit", () => {
  expect(limitRefusal([level({ limits: { max_parallel_requests: 0 } })], 1, 0)).toMatchObject({ retryAfterMs: null });
  const over = level({ limits: { tpm_limit: 10 }, tokens: counted(MINUTE, 11) });
  expect(limitRefusal([over], 0, 0)).toBeUndefined();
  expect(limitRefusal([over], 1, 1_000)).toMatchObject({ retryAfterMs: 60_000 });
});

it("requests of a day that were not counted are not judged, and no rate is said of them", () => {
  const uncounted = level({ limits: { rpd_limit: 0 }, dayRequests: null });
  expect(limitRefusal([uncounted], 1, 0)).toBeUndefined();
  expect(ratesOf([uncounted], 0)).toEqual({});
});

it("the tightest rate is found wherever it stands; of equal ones the narrowest is said, with the time until it is free", () => {
  const tight = level({ limits: { rpm_limit: 5 }, requests: counted(MINUTE, 1) });
  const loose = level({ level: "team", limits: { rpm_limit: 50 } });
  const equal = level({ level: "account", limits: { rpm_limit: 4 } });
  const said = { requests: { limit: 5, remaining: 4, resetMs: 60_000 } };
  expect(ratesOf([tight, loose, level({ level: "account" })], 1_000)).toEqual(said);
  expect(ratesOf([loose, tight], 1_000)).toEqual(said);
  expect(ratesOf([tight, equal], 1_000)).toEqual(said);
});

describe("what leases have set aside", () => {
  const use = level({
    limits: { rpm_limit: 10, tpm_limit: 100, rpd_limit: 20 },
    requests: counted(MINUTE, 6),
    tokens: counted(MINUTE, 60),
    dayRequests: counted(DAY, 16),
  });

  it("counts as made now, at each kind of limit", () => {
    expect(limitRefusal([{ ...use, leased: { requests: 3, tokens: 39 } }], 1, 0)).toBeUndefined();
    expect(limitRefusal([{ ...use, leased: { requests: 4, tokens: 0 } }], 1, 0)).toMatchObject({ limit: "rpm_limit" });
    expect(limitRefusal([{ ...use, leased: { requests: 0, tokens: 40 } }], 1, 0)).toMatchObject({ limit: "tpm_limit" });
    const day = { ...use, dayRequests: counted(DAY, 17), leased: { requests: 3, tokens: 0 } };
    expect(limitRefusal([day], 1, 0)).toMatchObject({ limit: "rpd_limit" });
  });

  it("comes back at a time that nobody knows: who is refused asks again in a second at the earliest", () => {
    const wait = (counts: number, leased: number, tokens: number, nowMs: number) => {
      const full = level({ limits: { tpm_limit: 100 }, tokens: counted(MINUTE, counts) });
      const refusal = limitRefusal([{ ...full, leased: { requests: 0, tokens: leased } }], tokens, nowMs);
      return refusal?.kind === "rate_limit" ? refusal.retryAfterMs : undefined;
    };
    expect(wait(60, 40, 1, 0)).toBe(1_000);
    expect(wait(100, 1, 1, 60_500)).toBe(1_000);
    expect(wait(100, 0, 1, 60_500)).toBe(500);
    expect(wait(100, 1, 1, 0)).toBe(61_000);
    expect(wait(0, 1, 101, 0)).toBeNull();
  });

  it("leaves less room for another lease: the least of all levels, and without a limit no end of it", () => {
    const leased = { requests: 3, tokens: 30 };
    const wide = level({ level: "account", limits: { rpm_limit: 100, tpm_limit: 1_000, rpd_limit: 100 } });
    expect(requestRoom([{ ...use, leased }], 0)).toBe(1);
    expect(requestRoom([{ ...use, limits: { ...use.limits, rpd_limit: null }, leased }, wide], 0)).toBe(1);
    expect(requestRoom([{ ...use, limits: { ...use.limits, rpm_limit: null } }, wide], 0)).toBe(4);
    expect(requestRoom([wide], 0)).toBe(100);
    expect(requestRoom([level({})], 0)).toBe(Number.POSITIVE_INFINITY);
    expect(tokenRoom([{ ...use, leased }, wide], 0)).toBe(10);
    expect(tokenRoom([use, wide], 0)).toBe(40);
  });

  it("parallel calls have the room of the level that has least", () => {
    const five = level({ limits: { max_parallel_requests: 5 }, slots: 2 });
    const two = level({ level: "team", limits: { max_parallel_requests: 2 }, slots: 1 });
    expect(slotRoom([five, level({ level: "account" })])).toBe(3);
    expect(slotRoom([five, two])).toBe(1);
    expect(slotRoom([level({})])).toBe(Number.POSITIVE_INFINITY);
  });
});

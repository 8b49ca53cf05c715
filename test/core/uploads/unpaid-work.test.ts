import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UNPAID_BURST_BYTES, UNPAID_BYTES_PER_S, UnpaidWork } from "../../../src/core/uploads/unpaid-work.ts";

const MB = 1024 * 1024;

describe("work that nobody pays for", () => {
  it("is three bodies of 20 MB at once, and then one in ten seconds", () => {
    const work = new UnpaidWork();
    for (let at = 0; at < 3; at++) {
      expect(work.waitMs("a", 0)).toBe(0);
      work.add("a", 20 * MB, 0);
    }
    const wait = work.waitMs("a", 0);
    expect(wait).toBeGreaterThan(0);
    expect(work.waitMs("a", wait)).toBe(0);
    work.add("a", 20 * MB, wait);
    expect(work.waitMs("a", wait)).toBeGreaterThan(9_000);
    expect(work.waitMs("b", 0)).toBe(0);
  });

  it("never passes the burst, its rate and one body, whoever sends what and when", () => {
    const step = fc.record({ afterMs: fc.nat(5_000), bytes: fc.integer({ min: 1, max: 26 * MB }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const work = new UnpaidWork();
        let now = 0;
        let done = 0;
        for (const { afterMs, bytes } of steps) {
          now += afterMs;
          if (work.waitMs("a", now) > 0) continue;
          work.add("a", bytes, now);
          done += bytes;
          expect(done).toBeLessThanOrEqual(UNPAID_BURST_BYTES + 26 * MB + (now * UNPAID_BYTES_PER_S) / 1_000);
        }
      }),
    );
  });

  it("is nothing where it is given back, and the wait that is told is the wait that it takes", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 * MB }), fc.nat(1_000_000), (bytes, now) => {
        const work = new UnpaidWork();
        work.add("a", bytes, now);
        const wait = work.waitMs("a", now);
        expect(work.waitMs("a", now + wait)).toBe(0);
        if (wait > 1) expect(work.waitMs("a", now + wait - 2)).toBeGreaterThan(0);
        work.add("a", -bytes, now);
        expect([work.owed("a", now), work.accounts]).toEqual([0, 0]);
      }),
    );
  });

  it("forgets accounts that owe nothing any more, and a clock that was set back neither forgives nor keeps", () => {
    const work = new UnpaidWork();
    for (let at = 0; at < 5_000; at++) work.add(`${at}`, 1_000, at * 10);
    expect(work.accounts).toBeLessThan(1_100);
    work.add("late", MB, 1_000_000);
    expect(work.owed("late", 0)).toBe(MB);
    expect(work.owed("late", 1_000)).toBe(0);
  });
});

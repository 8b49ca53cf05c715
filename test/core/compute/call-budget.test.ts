import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  BUDGET_SPAN_MS,
  type CallClass,
  callsOfSpan,
  type SentCall,
  waitForCall,
} from "../../../src/core/compute/call-budget.ts";

const CLASSES: readonly CallClass[] = ["stop", "create", "call", "list"];
const many = (cls: CallClass, count: number, atMs: number): SentCall[] =>
  Array.from({ length: count }, () => ({ cls, atMs }));

describe("the broker's budget of calls", () => {
  it("keeps 15 of 55 calls a minute for stops", () => {
    const sent = many("call", 40, 1_000);
    expect(waitForCall(sent, "call", 2_000)).toBe(59_000);
    expect(waitForCall(sent, "create", 2_000)).toBe(59_000);
    expect(waitForCall(sent, "list", 2_000)).toBe(59_000);
    expect(waitForCall(sent, "stop", 2_000)).toBe(0);
    expect(waitForCall([...sent, ...many("stop", 15, 1_500)], "stop", 2_000)).toBe(59_000);
  });

  it("stops alone may use all 55", () => {
    expect(waitForCall(many("stop", 54, 0), "stop", 1)).toBe(0);
    expect(waitForCall(many("stop", 55, 0), "stop", 1)).toBe(59_999);
  });

  it("lists take at most 24, launches at most 10", () => {
    expect(waitForCall(many("list", 23, 0), "list", 10)).toBe(0);
    expect(waitForCall(many("list", 24, 0), "list", 10)).toBe(59_990);
    expect(waitForCall(many("list", 24, 0), "call", 10)).toBe(0);
    expect(waitForCall(many("create", 9, 0), "create", 10)).toBe(0);
    expect(waitForCall(many("create", 10, 0), "create", 10)).toBe(59_990);
  });

  it("a clock set back frees no call", () => {
    expect(waitForCall(many("stop", 55, 1_000_000), "stop", 0)).toBe(BUDGET_SPAN_MS);
  });

  it("in no stretch of 60 s are more sent than each rule allows, however calls come", () => {
    const arrivals = fc.array(fc.tuple(fc.nat({ max: 4_000 }), fc.constantFrom(...CLASSES)), { maxLength: 400 });
    fc.assert(
      fc.property(arrivals, (steps) => {
        const sent: SentCall[] = [];
        let nowMs = 0;
        for (const [gapMs, cls] of steps) {
          nowMs += gapMs;
          if (waitForCall(sent, cls, nowMs) === 0) sent.push({ atMs: nowMs, cls });
          const counted = callsOfSpan(sent, nowMs);
          const all = counted.stop + counted.create + counted.call + counted.list;
          expect(all).toBeLessThanOrEqual(55);
          expect(counted.list).toBeLessThanOrEqual(24);
          expect(counted.create).toBeLessThanOrEqual(10);
          if (cls !== "stop" && sent.at(-1)?.atMs === nowMs && sent.at(-1)?.cls === cls) {
            expect(all).toBeLessThanOrEqual(40);
          }
        }
      }),
    );
  });

  it("what it says to wait is enough, and not too much", () => {
    const logs = fc.array(fc.tuple(fc.nat({ max: 2_000 }), fc.constantFrom(...CLASSES)), { maxLength: 80 });
    fc.assert(
      fc.property(logs, fc.constantFrom(...CLASSES), (steps, cls) => {
        let atMs = 0;
        const sent = steps.map(([gapMs, of]): SentCall => {
          atMs += gapMs;
          return { atMs, cls: of };
        });
        const waitMs = waitForCall(sent, cls, atMs);
        expect(waitForCall(sent, cls, atMs + waitMs)).toBe(0);
        if (waitMs > 0) expect(waitForCall(sent, cls, atMs + waitMs - 1)).toBeGreaterThan(0);
      }),
    );
  });
});

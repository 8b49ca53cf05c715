import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backoffMs, LONGEST_WAIT_MS } from "../../../src/core/routing/backoff.ts";
import { LATELY_MS, MIN_RETRIES, RATIO, RetryBudget } from "../../../src/core/routing/retry-budget.ts";

describe("a retry budget", () => {
  it("has three tries in ten seconds without any call, and three more when those have left the window", () => {
    const budget = new RetryBudget();
    const taken = () => Array.from({ length: 5 }, () => budget.withdraw(0)).filter(Boolean).length;
    expect(taken()).toBe(MIN_RETRIES);
    expect(budget.withdraw(LATELY_MS - 1)).toBe(false);
    expect(budget.withdraw(LATELY_MS + 1_000)).toBe(true);
  });

  it("earns a fifth of a try with each call", () => {
    const budget = new RetryBudget();
    for (let call = 0; call < 100; call++) budget.deposit(0);
    expect(Array.from({ length: 50 }, () => budget.withdraw(1)).filter(Boolean)).toHaveLength(20);
  });

  it("counts a free try that failed against those that come after it", () => {
    const budget = new RetryBudget();
    budget.charge(0);
    expect([budget.withdraw(0), budget.withdraw(0), budget.withdraw(0)]).toEqual([true, true, false]);
  });

  it("never gives out more than a fifth of the calls and three for each ten seconds, whatever comes when", () => {
    const history = fc.array(fc.record({ afterMs: fc.nat(3_000), call: fc.boolean() }), { maxLength: 400 });
    fc.assert(
      fc.property(history, (steps) => {
        const budget = new RetryBudget();
        let [nowMs, calls, tries] = [0, 0, 0];
        for (const { afterMs, call } of steps) {
          nowMs += afterMs;
          if (call) {
            budget.deposit(nowMs);
            calls++;
          } else if (budget.withdraw(nowMs)) tries++;
        }
        expect(tries).toBeLessThanOrEqual(RATIO * calls + MIN_RETRIES * (1 + nowMs / LATELY_MS));
      }),
    );
  });
});

describe("backoff", () => {
  it("grows, is spread over its whole width, and never undercuts what the target asked for", () => {
    expect(backoffMs(0, null, 0)).toBe(0);
    expect(backoffMs(0, null, 0.5)).toBe(100);
    expect(backoffMs(1, null, 0.5)).toBe(200);
    expect(backoffMs(0, 2_000, 0.5)).toBe(2_100);
    expect(backoffMs(1, LONGEST_WAIT_MS, 0.9)).toBe(LONGEST_WAIT_MS);
  });

  it("gives up on a target that asks for more than five seconds", () => {
    expect(backoffMs(0, LONGEST_WAIT_MS + 1, 0)).toBeNull();
  });
});

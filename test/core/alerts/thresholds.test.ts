import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BUDGET_PERCENTS } from "../../../src/core/alerts/alert.ts";
import { type BudgetMark, budgetStep, type Purse, purseAlerts } from "../../../src/core/alerts/thresholds.ts";
import { MAX_NANO_USD } from "../../../src/core/pricing/money.ts";

const amount = fc.integer({ min: -1_000, max: 1_000 });

/** What a run of balances tells, step by step. */
function told(balances: readonly number[], terms: Omit<Purse, "balanceNanoUsd">) {
  const purses = balances.map((balanceNanoUsd) => ({ balanceNanoUsd, ...terms }));
  return purses.slice(1).map((after, index) => purseAlerts(purses[index] as Purse, after));
}

describe("a balance", () => {
  const terms = { floorNanoUsd: 0, lowNanoUsd: 10 };

  it("tells that it is low at the threshold, once, and again after it rose above", () => {
    expect(told([11, 10, 9, 10, 11, 3], terms).map(({ low }) => low)).toEqual([true, false, false, false, true]);
  });

  it("tells that it is empty at its floor, which a credit limit lowers", () => {
    expect(told([1, 0, -1, 5, 0], terms).map(({ empty }) => empty)).toEqual([true, false, false, true]);
    expect(told([1, -4, -5], { floorNanoUsd: -5, lowNanoUsd: null })).toEqual([
      { low: false, empty: false },
      { low: false, empty: true },
    ]);
  });

  it("tells what became true by other terms", () => {
    const before = { balanceNanoUsd: 5, floorNanoUsd: -10, lowNanoUsd: null };
    expect(purseAlerts(before, { ...before, lowNanoUsd: 5 })).toEqual({ low: true, empty: false });
    expect(purseAlerts(before, { ...before, floorNanoUsd: 5 })).toEqual({ low: false, empty: true });
  });

  it("is told of as often as it comes down over the threshold, whatever moves it", () => {
    fc.assert(
      fc.property(fc.array(amount, { minLength: 2 }), amount, (balances, lowNanoUsd) => {
        const below = balances.map((balance) => balance <= lowNanoUsd);
        const ways = below.filter((is, index) => index > 0 && is && !below[index - 1]).length;
        expect(told(balances, { floorNanoUsd: 0, lowNanoUsd }).filter(({ low }) => low)).toHaveLength(ways);
      }),
    );
  });
});

describe("a budget", () => {
  const step = (mark: BudgetMark | null, spentNanoUsd: number, budgetNanoUsd = 10, window = "day 1") =>
    budgetStep(mark, { window, budgetNanoUsd, spentNanoUsd });

  it("tells each part once, also where one charge passes several", () => {
    const half = step(null, 5);
    expect(half.tell).toEqual([50]);
    expect(step(half.mark, 7)).toEqual({ tell: [], mark: half.mark });
    expect(step(half.mark, 10).tell).toEqual([80, 100]);
    expect(step(null, 4)).toEqual({ tell: [], mark: null });
  });

  it("does not tell again what was given back and spent again, but in the next window it does", () => {
    const { mark } = step(null, 8);
    const back = step(mark, 3);
    expect(back).toEqual({ tell: [], mark });
    expect(step(back.mark, 9).tell).toEqual([]);
    expect(step(mark, 8, 10, "day 2").tell).toEqual([50, 80]);
    expect(step(mark, 1, 10, "day 2")).toEqual({ tell: [], mark });
  });

  it("is told of anew where its amount changed and the part is not reached any more", () => {
    const { mark } = step(null, 8);
    expect(step(mark, 8, 9).tell).toEqual([]);
    const raised = step(mark, 8, 20);
    expect(raised.tell).toEqual([]);
    expect(step(raised.mark, 16, 20).tell).toEqual([50, 80]);
    expect(step(mark, 8, 8).tell).toEqual([100]);
  });

  it("of nothing has no parts", () => {
    expect(step(null, 0, 0)).toEqual({ tell: [], mark: null });
  });

  it("is exact at the largest amounts", () => {
    for (const percent of BUDGET_PERCENTS) {
      const at = Number((BigInt(MAX_NANO_USD - 1) * BigInt(percent) + 99n) / 100n);
      expect(step(null, at - 1, MAX_NANO_USD - 1).tell).not.toContain(percent);
      expect(step(null, at, MAX_NANO_USD - 1).tell).toContain(percent);
    }
  });

  it("tells in one window every part that was ever reached, each once, and writes a mark only then", () => {
    const budget = fc.integer({ min: 1, max: 1_000 });
    fc.assert(
      fc.property(budget, fc.array(fc.integer({ min: 0, max: 1_200 })), (budgetNanoUsd, spends) => {
        let mark: BudgetMark | null = null;
        const tolds: number[] = [];
        for (const spent of spends) {
          const next = step(mark, spent, budgetNanoUsd);
          expect(next.mark === mark).toBe(next.tell.length === 0);
          tolds.push(...next.tell);
          mark = next.mark;
        }
        const most = Math.max(0, ...spends);
        expect(tolds).toEqual(BUDGET_PERCENTS.filter((percent) => most * 100 >= budgetNanoUsd * percent));
      }),
    );
  });
});

import fc from "fast-check";
import { expect, it } from "vitest";
import { type AdmissionFacts, decideAdmission } from "../../../src/core/account/admission.ts";
import { boundUsage, MIN_OUTPUT_CAP } from "../../../src/core/account/hold.ts";
import { NO_LIMITS } from "../../../src/core/account/tenant.ts";
import { MINUTE, TrailingCount } from "../../../src/core/account/trailing-count.ts";
import { dearestOf } from "../../../src/core/pricing/prices.ts";

const PRICES = { input_tokens: 1_000_000, output_tokens: 3_000_000 };

function facts(
  some: Partial<AdmissionFacts> & { balance?: number; tpm?: number | null; budget?: number },
): AdmissionFacts {
  const { balance = 1_000_000, tpm = null, budget, ...rest } = some;
  const use = { requests: new TrailingCount(MINUTE), tokens: new TrailingCount(MINUTE), dayRequests: null, slots: 0 };
  return {
    model: "m",
    bound: { fixed: { input_tokens: 10 }, output: { cap: 100, choices: 1, lowerable: true } },
    prices: PRICES,
    free: false,
    levels: [{ level: "key", limits: { ...NO_LIMITS, tpm_limit: tpm }, ...use }],
    budgets:
      budget === undefined
        ? []
        : [{ level: "key", budgetNanoUsd: budget, duration: "total", endsAtMs: null, spentNanoUsd: 0, heldNanoUsd: 0 }],
    money: { balanceNanoUsd: balance, heldNanoUsd: 0, floorNanoUsd: 0 },
    nowMs: 0,
    ...rest,
  };
}

const granted = (some: Parameters<typeof facts>[0]) => {
  const decision = decideAdmission(facts(some));
  return decision.ok ? decision.grant : decision.refusal;
};

it("with room for all of it, the whole cap is granted", () => {
  expect(granted({})).toEqual({ amountNanoUsd: 310, countedTokens: 110, outputCap: 100 });
});

it.each([
  ["the balance", { balance: 160 }, 50],
  ["a budget", { budget: 100 }, 30],
  ["tpm_limit", { tpm: 60 }, 50],
  ["the tightest of them", { balance: 160, budget: 100, tpm: 30 }, 20],
])("a cap that the caller left open is lowered to what %s leaves", (_, some, outputCap) => {
  expect(granted(some)).toMatchObject({ outputCap, amountNanoUsd: 10 + 3 * outputCap });
});

it.each([
  ["the balance", { balance: 57 }, { kind: "no_credit", neededNanoUsd: 58, availableNanoUsd: 57 }],
  ["a budget", { budget: 57 }, { kind: "budget_spent" }],
  ["tpm_limit", { tpm: 25 }, { kind: "rate_limit", limit: "tpm_limit", retryAfterMs: null }],
  ["limits before budgets before money", { tpm: 25, budget: 1, balance: 1 }, { kind: "rate_limit" }],
])("below %d tokens of output it is refused: %s", (_, some, refusal) => {
  expect(granted(some)).toMatchObject(refusal);
});

it("a cap that the caller chose is held whole or refused", () => {
  const bound = { fixed: { input_tokens: 10 }, output: { cap: 100, choices: 2, lowerable: false } };
  expect(granted({ bound, balance: 610 })).toMatchObject({ outputCap: 100, amountNanoUsd: 610 });
  expect(granted({ bound, balance: 609 })).toMatchObject({ kind: "no_credit", neededNanoUsd: 610 });
});

it("a cap is lowered for each of n choices alike", () => {
  const bound = { fixed: { input_tokens: 10 }, output: { cap: 100, choices: 3, lowerable: true } };
  expect(granted({ bound, balance: 200 })).toMatchObject({ outputCap: 21, amountNanoUsd: 199 });
});

it("a model whose own cap is below the least one is served with it", () => {
  const bound = { fixed: {}, output: { cap: 4, choices: 1, lowerable: true } };
  expect(granted({ bound })).toMatchObject({ outputCap: 4 });
});

it("a free model is held at nothing, with nothing in the account and no price for a unit", () => {
  expect(granted({ free: true, prices: {}, balance: 0, budget: 0 })).toEqual({
    amountNanoUsd: 0,
    countedTokens: 110,
    outputCap: 100,
  });
});

it("a unit without a price is refused before money is looked at", () => {
  expect(granted({ prices: { input_tokens: 1 }, balance: 0 })).toEqual({ kind: "model_not_priced", model: "m" });
});

it("a lowered cap fits every room, and one token more would not", () => {
  fc.assert(
    fc.property(
      fc.record({
        balance: fc.integer({ min: 0, max: 5_000 }),
        budget: fc.integer({ min: 0, max: 5_000 }),
        tpm: fc.integer({ min: 0, max: 2_000 }),
        input: fc.integer({ min: 0, max: 500 }),
        cap: fc.integer({ min: 1, max: 2_000 }),
        choices: fc.integer({ min: 1, max: 4 }),
      }),
      ({ balance, budget, tpm, input, cap, choices }) => {
        const bound = { fixed: { input_tokens: input }, output: { cap, choices, lowerable: true } };
        const fits = (outputCap: number) => {
          const usage = boundUsage(bound, outputCap);
          const amount = dearestOf(usage, PRICES);
          return amount <= balance && amount <= budget && (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0) <= tpm;
        };
        const decision = decideAdmission(facts({ bound, balance, budget, tpm }));
        if (!decision.ok) {
          expect(fits(Math.min(MIN_OUTPUT_CAP, cap))).toBe(false);
          return;
        }
        const { outputCap = 0, amountNanoUsd } = decision.grant;
        expect(amountNanoUsd).toBe(dearestOf(boundUsage(bound, outputCap), PRICES));
        expect(fits(outputCap)).toBe(true);
        expect(outputCap === cap || !fits(outputCap + 1)).toBe(true);
      },
    ),
  );
});

it("a free model is served whole below the floor and beyond a spent budget", () => {
  const overspent = { level: "key", budgetNanoUsd: 1, duration: "total", endsAtMs: null, heldNanoUsd: 0 } as const;
  expect(granted({ free: true, balance: -5, budgets: [{ ...overspent, spentNanoUsd: 9 }] })).toEqual({
    amountNanoUsd: 0,
    countedTokens: 110,
    outputCap: 100,
  });
});

it("what has no output to cap is held at its bound, without a cap", () => {
  expect(granted({ bound: { fixed: { images: 2 } }, prices: { images: 50 } })).toEqual({
    amountNanoUsd: 100,
    countedTokens: 0,
    outputCap: undefined,
  });
});

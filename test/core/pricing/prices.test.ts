import fc from "fast-check";
import { expect, it } from "vitest";
import { boundUsage } from "../../../src/core/account/hold.ts";
import { MAX_NANO_USD } from "../../../src/core/pricing/money.ts";
import {
  CALLED_KINDS,
  costOf,
  dearestOf,
  MODEL_KINDS,
  type ModelRow,
  NO_PLAN,
  planAt,
  pricesCover,
  tenantPrices,
  type UnitPrices,
} from "../../../src/core/pricing/prices.ts";
import { UNIT_NAMES, UNITS, type Usage } from "../../../src/core/pricing/usage.ts";

const price = fc.integer({ min: 0, max: 200_000_000_000 });
const quantity = fc.integer({ min: 0, max: 50_000_000 });
const prices: fc.Arbitrary<UnitPrices> = fc.record(Object.fromEntries(UNIT_NAMES.map((unit) => [unit, price])), {
  requiredKeys: UNIT_NAMES.filter((unit) => unit !== "cached_input_tokens"),
});
const bounds: fc.Arbitrary<Usage> = fc.record(
  Object.fromEntries(UNIT_NAMES.filter((unit) => unit !== "cached_input_tokens").map((unit) => [unit, quantity])),
  { requiredKeys: [] },
);
/** Shares of a bound, one per unit, and the share of the input that came from a cache. */
const shares = fc.record({
  ...Object.fromEntries(UNIT_NAMES.map((unit) => [unit, fc.double({ min: 0, max: 1, noNaN: true })])),
  cached: fc.double({ min: 0, max: 1, noNaN: true }),
} as Record<string, fc.Arbitrary<number>>);

/** Some usage within a bound. */
function within(bound: Usage, share: Record<string, number>): Usage {
  const usage: Record<string, number> = {};
  for (const unit of UNIT_NAMES) {
    if (bound[unit] !== undefined) usage[unit] = Math.floor(bound[unit] * (share[unit] ?? 0));
  }
  if (usage.input_tokens !== undefined)
    usage.cached_input_tokens = Math.floor(usage.input_tokens * (share.cached ?? 0));
  return usage;
}

it("a hold covers any usage within its bound (invariant 8)", () => {
  fc.assert(
    fc.property(bounds, prices, shares, (bound, table, share) => {
      expect(costOf(within(bound, share), table)).toBeLessThanOrEqual(dearestOf(bound, table));
    }),
  );
});

it("a hold with an output cap covers what that cap allows", () => {
  fc.assert(
    fc.property(
      bounds,
      prices,
      fc.integer({ min: 1, max: 100_000 }),
      fc.integer({ min: 1, max: 8 }),
      shares,
      (fixed, table, cap, choices, share) => {
        const bound = boundUsage({ fixed, output: { cap, choices, lowerable: true } }, cap);
        expect(costOf(within(bound, share), table)).toBeLessThanOrEqual(dearestOf(bound, table));
      },
    ),
  );
});

it("more of any unit never costs less", () => {
  fc.assert(
    fc.property(bounds, prices, fc.constantFrom(...UNIT_NAMES), quantity, (usage, table, unit, more) => {
      if (unit === "cached_input_tokens") return;
      const greater = { ...usage, [unit]: (usage[unit] ?? 0) + more };
      expect(costOf(greater, table)).toBeGreaterThanOrEqual(costOf(usage, table));
    }),
  );
});

/** A multiple of what each unit is priced per. */
const COMMON = 18_000_000n;

it("a cost is the exact sum, rounded up once", () => {
  fc.assert(
    fc.property(bounds, prices, (usage, table) => {
      let scaled = 0n;
      for (const unit of UNIT_NAMES) {
        scaled += (BigInt(usage[unit] ?? 0) * BigInt(table[unit] ?? 0) * COMMON) / BigInt(UNITS[unit].perPrice);
      }
      // Beyond any balance there is: figures lose their last digits there.
      fc.pre(scaled < BigInt(MAX_NANO_USD) * COMMON);
      const cost = BigInt(costOf(usage, table)) * COMMON;
      expect(cost >= scaled && cost - scaled < COMMON).toBe(true);
    }),
  );
});

it("cached input costs its own price, and input's where it has none; never both", () => {
  const usage = { input_tokens: 1_000_000, cached_input_tokens: 400_000 };
  expect(costOf(usage, { input_tokens: 100, cached_input_tokens: 10 })).toBe(64);
  expect(costOf(usage, { input_tokens: 100 })).toBe(100);
  expect(costOf({ input_tokens: 1, cached_input_tokens: 5 }, { input_tokens: 1_000_000 })).toBe(1);
});

it("half a second at a nano-USD per second costs one, rounded up", () => {
  expect(costOf({ audio_seconds: 500 }, { audio_seconds: 1 })).toBe(1);
});

const row = (some: Partial<ModelRow>): ModelRow => ({
  model: "m",
  kind: "chat",
  fromMs: 0,
  costNanoUsd: {},
  priceNanoUsd: {},
  free: false,
  ...some,
});

it("a markup is rounded up to the nano-USD", () => {
  fc.assert(
    fc.property(price, fc.integer({ min: 0, max: 1_000_000_000 }), (cost, millionths) => {
      const plan = { markupPercent: millionths / 1_000_000, overrides: {} };
      const { prices: marked } = tenantPrices(row({ costNanoUsd: { images: cost } }), plan, "m");
      const exact = BigInt(cost) * (100_000_000n + BigInt(millionths));
      const product = BigInt(marked.images ?? -1) * 100_000_000n;
      expect(product >= exact && product - exact < 100_000_000n).toBe(true);
    }),
  );
});

it("the rule that priced a call: own price, markup on cost, override of the called name, free", () => {
  const both = row({ costNanoUsd: { input_tokens: 100, output_tokens: 200 }, priceNanoUsd: { output_tokens: 500 } });
  const plan = { markupPercent: 10, overrides: {} };
  expect(tenantPrices(both, plan, "m")).toEqual({
    rule: "book:m:markup=10",
    prices: { input_tokens: 110, output_tokens: 500 },
  });
  expect(tenantPrices(both, NO_PLAN, "m").prices).toEqual({ input_tokens: 100, output_tokens: 500 });
  const overrides = {
    smart: { kind: "prices", priceNanoUsd: { input_tokens: 7 } },
    m: { kind: "markup", markupPercent: 100 },
  } as const;
  expect(tenantPrices(both, { markupPercent: 0, overrides }, "smart")).toEqual({
    rule: "plan:smart:prices",
    prices: { input_tokens: 7, output_tokens: 500 },
  });
  expect(tenantPrices(both, { markupPercent: 0, overrides }, "m").prices).toEqual({
    input_tokens: 200,
    output_tokens: 400,
  });
  expect(tenantPrices(row({ free: true, costNanoUsd: { images: 5 } }), plan, "m")).toEqual({
    rule: "free",
    prices: { images: 0 },
  });
  expect(tenantPrices(both, { markupPercent: 0, overrides: {} }, "constructor").rule).toContain("book:m");
});

it("a unit that a call can use needs a price; cached input has input's", () => {
  expect(pricesCover({ input_tokens: 5 }, { input_tokens: 1 })).toBe(true);
  expect(pricesCover({ input_tokens: 5, output_tokens: 1 }, { input_tokens: 1 })).toBe(false);
  expect(pricesCover({ input_tokens: 5, cached_input_tokens: 5 }, { input_tokens: 1 })).toBe(true);
  expect(pricesCover({ images: 0 }, {})).toBe(true);
  expect(pricesCover({ images: 1 }, { images: 0 })).toBe(false);
});

it("a markup on a cost of nothing leaves the row's own price: nothing is given away by an override", () => {
  const gift = row({ costNanoUsd: { images: 0, requests: 50 }, priceNanoUsd: { images: 9 } });
  const overrides = { m: { kind: "markup", markupPercent: 20 } } as const;
  expect(tenantPrices(gift, { markupPercent: 0, overrides }, "m").prices).toEqual({ images: 9, requests: 60 });
});

it("an event names the rule that priced it", () => {
  const row: ModelRow = {
    model: "m",
    kind: "chat",
    fromMs: 0,
    costNanoUsd: { input_tokens: 100, output_tokens: 200 },
    priceNanoUsd: {},
    free: false,
  };
  const ruleOf = (plan: Partial<typeof NO_PLAN>, some: Partial<ModelRow> = {}) =>
    tenantPrices({ ...row, ...some }, { ...NO_PLAN, ...plan }, "alias").rule;
  const priced = { priceNanoUsd: { input_tokens: 300, output_tokens: 400 } };
  expect(ruleOf({})).toBe("book:m:markup=0");
  expect(ruleOf({ markupPercent: 20 })).toBe("book:m:markup=20");
  expect(ruleOf({ markupPercent: 20 }, priced)).toBe("book:m");
  expect(ruleOf({ markupPercent: 20 }, { priceNanoUsd: { input_tokens: 300 } })).toBe("book:m:markup=20");
  // A price of a unit without a cost was not marked up.
  expect(ruleOf({}, { ...priced, costNanoUsd: { input_tokens: 100 } })).toBe("book:m");
  expect(ruleOf({}, { free: true })).toBe("free");
  expect(ruleOf({ overrides: { alias: { kind: "markup", markupPercent: 7 } } })).toBe("plan:alias:markup=7");
  expect(ruleOf({ overrides: { m: { kind: "prices", priceNanoUsd: {} } } })).toBe("plan:m:prices");
});

it("no unit but cached input goes without a price of its own", () => {
  expect(pricesCover({ cached_input_tokens: 1, input_tokens: 1 }, { input_tokens: 1 })).toBe(true);
  expect(pricesCover({ output_tokens: 1 }, { input_tokens: 1 })).toBe(false);
  expect(pricesCover({ output_tokens: 0 }, {})).toBe(true);
});

it("a GPU-hour is priced per hour and metered in ms; a GB-day each", () => {
  expect(costOf({ gpu_hours: 3_600_000 }, { gpu_hours: 2_500_000_000 })).toBe(2_500_000_000);
  expect(costOf({ gpu_hours: 1 }, { gpu_hours: 3_600_000 })).toBe(1);
  expect(costOf({ interruptible_gpu_hours: 1_800_000 }, { interruptible_gpu_hours: 3 })).toBe(2);
  expect(costOf({ storage_gb_days: 50 }, { storage_gb_days: 3_000_000 })).toBe(150_000_000);
});

it("a plan to come holds from its moment on, and not a millisecond sooner", () => {
  const plan = { ...NO_PLAN, markupPercent: 10 };
  const later = { ...NO_PLAN, markupPercent: 20 };
  const nextPlan = { fromMs: 1_000, plan: later };
  expect(planAt({ plan, nextPlan }, 999)).toBe(plan);
  expect(planAt({ plan, nextPlan }, 1_000)).toBe(later);
  expect(planAt({ plan, nextPlan }, 1_001)).toBe(later);
  expect([planAt({ plan, nextPlan: null }, 1_001), planAt({ plan }, 1_001)]).toEqual([plan, plan]);
});

it("a unit without a price costs nothing, whatever input costs; cached input costs what input does", () => {
  expect(costOf({ output_tokens: 1_000_000 }, { input_tokens: 5 })).toBe(0);
  expect(costOf({ input_tokens: 1_000_000, cached_input_tokens: 1_000_000 }, { input_tokens: 5 })).toBe(5);
});

it("GPUs and storage are rented; every other kind is called by name", () => {
  const rented = MODEL_KINDS.filter((kind) => !CALLED_KINDS.some((called) => called === kind));
  expect([rented, CALLED_KINDS.length]).toEqual([["gpu", "storage"], MODEL_KINDS.length - 2]);
});

/** The command line's own arithmetic against the core's: two ways to one price. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { recompute } from "../../cli/proof.ts";
import { toUsd } from "../../src/core/pricing/money.ts";
import { costOf, type UnitPrices } from "../../src/core/pricing/prices.ts";
import { UNIT_NAMES, UNITS, type Unit, type Usage } from "../../src/core/pricing/usage.ts";

const byUnit = (least: number, most: number) =>
  fc.dictionary(fc.constantFrom(...UNIT_NAMES), fc.integer({ min: least, max: most }), {
    maxKeys: 6,
    noNullPrototype: true,
  });

/** Times are metered in milliseconds and shown in the unit of their price. */
const quantityShown = (unit: Unit, metered: number): number =>
  /_(seconds|hours)$/.test(unit) ? metered / UNITS[unit].perPrice : metered;
const shown = (usage: Usage) =>
  Object.fromEntries(Object.entries(usage).map(([unit, metered]) => [unit, quantityShown(unit as Unit, metered)]));
const inUsd = (prices: UnitPrices) =>
  Object.fromEntries(Object.entries(prices).map(([unit, nano]) => [unit, toUsd(nano)]));

const entry = (nano: bigint | number) => ({ id: 1, amount_usd: -toUsd(Number(nano)) });

describe("a recomputed price", () => {
  it("is the core's, from what an answer shows", () => {
    fc.assert(
      fc.property(byUnit(0, 40_000), byUnit(0, 20_000_000_000), (usage: Usage, prices: UnitPrices) => {
        const cost = costOf(usage, prices);
        const call = { usage: shown(usage), prices: inUsd(prices), charged_usd: toUsd(cost), held_usd: toUsd(cost) };
        const result = recompute(call, [entry(cost)]);
        expect(result?.sumNano).toBe(BigInt(cost));
        expect(result?.faults).toEqual([]);
      }),
    );
  });

  const call = { usage: { input_tokens: 10 }, prices: { input_tokens: 1 }, charged_usd: 0.00001, held_usd: 1 };

  it("agrees with what was charged, or with the hold where that is less", () => {
    expect(recompute(call, [entry(10_000)])?.faults).toEqual([]);
    const held = { ...call, charged_usd: 0.000004, held_usd: 0.000004 };
    expect(recompute(held, [entry(4_000)])?.faults).toEqual([]);
  });

  it.each([
    ["a nano-USD too much", { ...call, charged_usd: 0.000010001 }, 10_001, 1],
    ["a nano-USD too little", { ...call, charged_usd: 0.000009999 }, 9_999, 1],
    ["above the hold", { ...call, held_usd: 0.000005 }, 10_000, 1],
    ["a ledger that says otherwise", call, 9_999, 1],
    ["no entry of the ledger", call, 0, 1],
  ])("does not agree with %s", (_, charged, booked, faults) => {
    expect(recompute(charged, booked === 0 ? [] : [entry(booked)])?.faults).toHaveLength(faults);
  });

  it("takes a late end's two entries, as long as they come to no more than the units", () => {
    const late = { ...call, charged_usd: 0.000007, held_usd: 0.000005 };
    expect(recompute(late, [entry(5_000), entry(2_000)])?.faults).toEqual([]);
    const more = { ...call, charged_usd: 0.000011 };
    expect(recompute(more, [entry(5_000), entry(6_000)])?.faults).toHaveLength(1);
  });

  it("is not made up where prices were not recorded", () => {
    expect(recompute({ ...call, prices: null }, [])).toBeUndefined();
  });
});

/**
 * Quotes (contract, "Quote"): only tokens are taken from the upstream. Their cost is computed with the tenant's own
 * prices; the upstream's amounts and its note are not shown.
 */
import { asObject } from "../formats/json-fields.ts";
import type { Estimate } from "../meters/estimate.ts";
import type { JsonReader } from "../meters/meter.ts";
import { toUsd } from "../pricing/money.ts";
import { costOf, type UnitPrices } from "../pricing/prices.ts";
import { isCount } from "../pricing/usage.ts";
import { tierOf, type VideoUnit } from "./rates.ts";

/** No video uses more: 15 s of 4k with as much reference needs some millions. A larger figure is absurd. */
export const MOST_VIDEO_TOKENS = 100_000_000;

/** Undefined if the figures are not plausible; then nothing is held or submitted. */
export function readQuote(answer: unknown): Estimate | undefined {
  const quote = asObject(answer);
  const { estimated_tokens_min: minTokens, estimated_tokens_max: maxTokens } = quote ?? {};
  if (!isCount(minTokens) || !isCount(maxTokens)) return undefined;
  if (maxTokens === 0 || minTokens > maxTokens || maxTokens > MOST_VIDEO_TOKENS) return undefined;
  return { minTokens, maxTokens };
}

/** Reads a quote instead of a usage. `estimate()` is defined once the answer was accepted. */
export function quoteReader(): JsonReader & { estimate(): Estimate | undefined } {
  let estimate: Estimate | undefined;
  return {
    kind: "json",
    read(answer) {
      estimate = readQuote(answer);
      return estimate !== undefined;
    },
    estimate: () => estimate,
    reading: () => ({ source: "exact", usage: {} }),
  };
}

const NOTE =
  "An estimate. The charge follows the usage that the finished job reports, and never exceeds the upper end.";

/** The tenant's quote; undefined if the rate has no price. */
export function showQuote(estimate: Estimate, unit: VideoUnit, prices: UnitPrices, free: boolean): unknown {
  const priceNanoUsd = free ? 0 : prices[unit];
  if (priceNanoUsd === undefined) return undefined;
  const usdOf = (tokens: number) => toUsd(costOf({ [unit]: tokens }, { [unit]: priceNanoUsd }));
  return {
    pricing_tier: tierOf(unit),
    unit_price_per_1m_tokens: toUsd(priceNanoUsd),
    estimated_tokens_min: estimate.minTokens,
    estimated_tokens_max: estimate.maxTokens,
    estimated_cost_min_usd: usdOf(estimate.minTokens),
    estimated_cost_max_usd: usdOf(estimate.maxTokens),
    currency: "USD",
    note: NOTE,
  };
}

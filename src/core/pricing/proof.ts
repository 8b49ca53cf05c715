/**
 * Shows how a price came about: each unit's quantity times its rate, and the sum rounded up once, as `costOf` does it.
 * Decides nothing: it is for people and programs that check a charge.
 */
import { costOf, type UnitPrices } from "./prices.ts";
import { UNIT_NAMES, UNITS, type Unit, type Usage } from "./usage.ts";

/** One unit of a call. */
interface ProofLine {
  readonly unit: Unit;
  /** As metered; input tokens without the cached ones. */
  readonly quantity: number;
  /** Nano-USD for `per` of the quantity. Of what is rented it may have a fraction. */
  readonly rateNanoUsd: number;
  readonly per: number;
}

export interface PriceProof {
  readonly lines: readonly ProofLine[];
  /** The sum of the lines, rounded up to a nano-USD. */
  readonly sumNanoUsd: number;
}

export function proofOf(usage: Usage, prices: UnitPrices): PriceProof {
  const lines = linesOf(usage, prices);
  // The rates of a rental are its whole price over its size; each of its periods is rounded up by itself.
  const whole = lines.every(({ rateNanoUsd, quantity }) => Number.isSafeInteger(rateNanoUsd) && quantity >= 0);
  return { lines, sumNanoUsd: whole ? costOf(usage, prices) : Math.ceil(roughly(lines) - ROUNDING) };
}

/** What binary fractions add to a sum, at most. */
const ROUNDING = 1e-4;

const roughly = (lines: readonly ProofLine[]): number =>
  lines.reduce((sum, { quantity, rateNanoUsd, per }) => sum + (quantity * rateNanoUsd) / per, 0);

function linesOf(usage: Usage, prices: UnitPrices): readonly ProofLine[] {
  const input = usage.input_tokens ?? 0;
  const cached = Math.min(usage.cached_input_tokens ?? 0, input);
  const quantities: Usage = { ...usage, input_tokens: input - cached, cached_input_tokens: cached };
  return UNIT_NAMES.flatMap((unit) => {
    const quantity = quantities[unit];
    if (!quantity) return [];
    const rateNanoUsd = prices[unit] ?? (unit === "cached_input_tokens" ? prices.input_tokens : undefined) ?? 0;
    return [{ unit, quantity, rateNanoUsd, per: UNITS[unit].perPrice }];
  });
}

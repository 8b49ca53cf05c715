/**
 * Recomputes a call's price from what the gateway says was used and what a unit costs, with arithmetic of its own:
 * whole numbers of nano-USD, rounded up once. That the gateway calls its own proof right is no proof.
 */
import type { Schemas } from "../client/operator.ts";
import { UNIT_NAMES, UNITS, type Unit } from "../src/core/pricing/usage.ts";
import { exactly, NANO, nanoOf, rounded } from "./usd.ts";

type Call = Pick<Schemas["ProvedCall"], "usage" | "prices" | "charged_usd" | "held_usd">;
type Entry = Pick<Schemas["LedgerEntry"], "id" | "amount_usd">;

export interface Line {
  readonly unit: Unit;
  /** As it is shown, in the unit of its price or singly. */
  readonly quantity: string;
  readonly priceNano: bigint;
  readonly per: bigint;
  /** Exact: its part of the price is `numerator / (per * scale)`. */
  readonly share: { readonly numerator: bigint; readonly divisor: bigint };
}

export interface Recomputed {
  readonly lines: readonly Line[];
  readonly sumNano: bigint;
  readonly dueNano: bigint;
  readonly chargedNano: bigint;
  readonly bookedNano: bigint;
  /** What does not agree, in words; empty: all does. */
  readonly faults: readonly string[];
}

/** Metered in milliseconds and shown in the unit of the price. */
const isTime = (unit: Unit): boolean => /_(seconds|hours)$/.test(unit);

/** `entries`: the ledger's, of this call. Undefined where its prices were not recorded. */
export function recompute(call: Call, entries: readonly Entry[]): Recomputed | undefined {
  if (call.prices === null || call.held_usd === null) return undefined;
  const lines = linesOf(call.usage, call.prices);
  const sumNano = sumUp(lines);
  const heldNano = nanoOf(call.held_usd);
  const chargedNano = nanoOf(call.charged_usd);
  const bookedNano = entries.reduce((sum, { amount_usd }) => sum - nanoOf(amount_usd), 0n);
  const dueNano = sumNano - (sumNano > heldNano ? sumNano - heldNano : 0n);
  const faults: string[] = [];
  // A call that ended after its hold has two entries, and is charged what balance and budgets left by then.
  const late = entries.length > 1 && chargedNano <= sumNano;
  // The rate of what is rented may be a fraction of a nano-USD, which a JSON number rounds.
  const slack = lines.some(({ priceNano, unit }) => fractional(call.prices?.[unit], priceNano)) ? 1n : 0n;
  if (!late && distance(chargedNano, dueNano) > slack) faults.push("what was charged is not what the units come to");
  if (bookedNano !== chargedNano) faults.push("the ledger's entries are not what was charged");
  return { lines, sumNano, dueNano, chargedNano, bookedNano, faults };
}

const distance = (one: bigint, other: bigint): bigint => (one > other ? one - other : other - one);

function fractional(usd: number | undefined, nano: bigint): boolean {
  const exact = exactly(usd ?? 0);
  return exact !== undefined && exact.digits * NANO !== nano * 10n ** BigInt(exact.scale);
}

function linesOf(usage: Call["usage"], prices: NonNullable<Call["prices"]>): Line[] {
  const input = usage.input_tokens ?? 0;
  // Cached input is a part of the input, with a price of its own or the input's.
  const cached = Math.min(usage.cached_input_tokens ?? 0, input);
  const quantities = { ...usage, input_tokens: input - cached, cached_input_tokens: cached };
  return UNIT_NAMES.flatMap((unit) => {
    const quantity = quantities[unit];
    if (!quantity) return [];
    const usd = prices[unit] ?? (unit === "cached_input_tokens" ? prices.input_tokens : undefined) ?? 0;
    return [lineOf(unit, quantity, usd)];
  });
}

function lineOf(unit: Unit, quantity: number, usd: number): Line {
  const per = BigInt(UNITS[unit].perPrice);
  const metered = rounded(exactly(quantity) ?? { digits: 0n, scale: 0 }, isTime(unit) ? per : 1n);
  const price = exactly(usd) ?? { digits: 0n, scale: 0 };
  return {
    unit,
    quantity: String(quantity),
    priceNano: nanoOf(usd),
    per: isTime(unit) ? 1n : per,
    share: { numerator: metered * price.digits * NANO, divisor: per * 10n ** BigInt(price.scale) },
  };
}

/** All shares over one divisor, rounded up once. */
function sumUp(lines: readonly Line[]): bigint {
  const divisor = lines.reduce((all, { share }) => all * share.divisor, 1n);
  const numerator = lines.reduce((sum, { share }) => sum + share.numerator * (divisor / share.divisor), 0n);
  return (numerator + divisor - 1n) / divisor;
}

/** A line's part of the price, to the nano-USD and no further. */
export const shareNano = ({ share: { numerator, divisor } }: Line): bigint => numerator / divisor;

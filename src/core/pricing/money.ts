/**
 * Prices, usage and money: what a call used, what that costs, and how amounts are read and written. Knows nothing of
 * accounts, limits or upstreams.
 *
 * Money is an integer number of nano-USD (1e-9 USD), a safe integer. Amounts above `MAX_NANO_USD` are refused where
 * they enter, so the sum of any two stays exact. Fractions exist only while a price is multiplied: in bigint, rounded
 * up.
 */
export const NANO_PER_USD = 1_000_000_000;

/** 9 million USD, the largest amount accepted anywhere: SQLite in an account object rounds above 2^53. */
export const MAX_NANO_USD = 9_000_000 * NANO_PER_USD;

/**
 * A decimal amount in USD, at most 9 fraction digits. The exponent is for small JSON numbers, which print as `1e-7`.
 */
const DECIMAL = /^(-?)(\d{1,16})(?:\.(\d{1,40}))?(?:e([+-]?\d{1,3}))?$/i;

export type ParsedAmount = { ok: true; nanoUsd: number } | { ok: false; reason: string };

/**
 * Parses USD from the operator's API (decimal string or JSON number) into exact nano-USD. Refuses any other form, more
 * than 9 decimals, and amounts beyond 9 million USD in either direction.
 */
export function parseUsd(value: string | number): ParsedAmount {
  const text = typeof value === "number" ? String(value) : value.trim();
  const match = DECIMAL.exec(text);
  if (!match) return { ok: false, reason: 'must be an amount in USD such as 12.5 or "12.50"' };
  const [, sign, whole = "0", fraction = "", exponent = "0"] = match;
  const shift = 9 + Number(exponent) - fraction.length;
  const digits = BigInt(whole + fraction);
  if (shift < -60 || shift > 60) return { ok: false, reason: "must have a smaller exponent" };
  const scale = 10n ** BigInt(Math.abs(shift));
  // Stryker disable next-line EqualityOperator: at 0 the scale is 1, which divides all
  if (shift < 0 && digits % scale !== 0n) {
    return { ok: false, reason: "must have at most 9 decimals (nano-USD)" };
  }
  // Stryker disable next-line EqualityOperator: at 0 the scale is 1
  const nano = shift < 0 ? digits / scale : digits * scale;
  if (nano > BigInt(MAX_NANO_USD)) return { ok: false, reason: "must be at most 9000000 USD" };
  const amount = Number(nano);
  return { ok: true, nanoUsd: sign && amount !== 0 ? -amount : amount };
}

/** USD as a JSON number. It parses back to the same nano-USD below 2^23 USD (8.3 million); above, within 2 nano-USD. */
export const toUsd = (nanoUsd: number): number => nanoUsd / NANO_PER_USD;

/** USD as exact decimal text, for messages and CSV. Sums of many amounts are bigints. */
export function formatUsd(nanoUsd: number | bigint): string {
  const amount = BigInt(nanoUsd);
  // Stryker disable next-line EqualityOperator: 0 has no sign
  const absolute = amount < 0n ? -amount : amount;
  const fraction = String(absolute % 1_000_000_000n)
    .padStart(9, "0")
    .replace(/0+$/, "");
  return `${amount < 0n ? "-" : ""}${absolute / 1_000_000_000n}${fraction && `.${fraction}`}`;
}

/**
 * USD as exact bigints of nano-USD. The gateway's answers have JSON numbers: the shortest decimal that names one is the
 * amount that it was made of, up to 8 million USD.
 */
import { formatUsd } from "../src/core/pricing/money.ts";

const DECIMAL = /^(-?)(\d{1,40})(?:\.(\d{1,40}))?(?:e([+-]?\d{1,3}))?$/i;

/** A decimal as `digits / 10^scale`. */
export interface Exact {
  readonly digits: bigint;
  readonly scale: number;
}

/** Undefined: it is not a decimal. */
export function exactly(value: number | string): Exact | undefined {
  const [, sign, whole = "", fraction = "", exponent = "0"] = DECIMAL.exec(String(value).trim()) ?? [];
  const shift = Number(exponent);
  if (whole === "" || Math.abs(shift) > 60) return undefined;
  const digits = BigInt(whole + fraction) * (sign === "-" ? -1n : 1n);
  const scale = fraction.length - shift;
  return scale < 0 ? { digits: digits * 10n ** BigInt(-scale), scale: 0 } : { digits, scale };
}

/** The integer nearest to `value * factor`. */
export function rounded({ digits, scale }: Exact, factor: bigint): bigint {
  const divisor = 10n ** BigInt(scale);
  const doubled = 2n * digits * factor + (digits < 0n ? -divisor : divisor);
  return doubled / (2n * divisor);
}

export const NANO = 1_000_000_000n;

/** Nano-USD of an amount in an answer. */
export function nanoOf(usd: number | string): bigint {
  const exact = exactly(usd);
  if (exact === undefined) throw new RangeError(`${usd} is no amount`);
  return rounded(exact, NANO);
}

/** Exact, with at least two decimals: `12.50`, `-0.000001`. */
export function usdText(nano: bigint): string {
  const [whole = "0", fraction = ""] = formatUsd(nano).split(".");
  return `${whole}.${fraction.padEnd(2, "0")}`;
}

/** An amount in an answer, as it is shown. */
export const shownUsd = (usd: number | null | undefined): string =>
  usd === null || usd === undefined ? "-" : usdText(nanoOf(usd));

/** `nano` raised by so many percent, rounded up to a nano-USD: a price is never lowered by rounding. */
export function raised(nano: bigint, percent: Exact): bigint {
  const divisor = 100n * 10n ** BigInt(percent.scale);
  const product = nano * (divisor + percent.digits);
  return product >= 0n ? (product + divisor - 1n) / divisor : product / divisor;
}

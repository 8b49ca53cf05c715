/** Prepaid credit: what is held can be charged or released, what is neither held nor spent can be held. */
import type { Account, Region } from "./records.ts";

const NANO_PER_USD = 1_000_000_000;

export const nanoUsd = (usd: number): number => Math.round(usd * NANO_PER_USD);
export const usd = (nano: number): number => nano / NANO_PER_USD;

/** What so many of `perMs` cost at this rate, rounded up. */
export function priceOf(rateNanoUsd: number, ms: number, perMs: number): number {
  return Number((BigInt(rateNanoUsd) * BigInt(ms) + BigInt(perMs - 1)) / BigInt(perMs));
}

/** How long this money lasts. */
export function msFor(nano: number, rateNanoUsd: number, perMs: number): number {
  return Number((BigInt(nano) * BigInt(perMs)) / BigInt(rateNanoUsd));
}

/** For so many GPUs and an hour; null if the region does not sell the tier. */
export function rateOf(region: Region, interruptible: boolean, gpus: number): number | null {
  const rate = interruptible ? region.interruptibleRateNanoUsd : region.rateNanoUsd;
  return rate === null ? null : rate * gpus;
}

/** What can still be held. An account that pays monthly is never refused. */
export const roomNanoUsd = ({ billsMonthly, balanceNanoUsd, heldNanoUsd }: Account): number =>
  billsMonthly ? Number.MAX_SAFE_INTEGER : Math.max(0, balanceNanoUsd - heldNanoUsd);

export interface Booking {
  readonly account: string;
  readonly atMs: number;
  readonly kind: "credit" | "charge";
  readonly amountNanoUsd: number;
  readonly balanceNanoUsd: number;
  readonly resource: number | null;
  readonly description: string;
}

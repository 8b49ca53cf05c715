/**
 * Limits on requests, tokens and parallel calls: may this call pass, what is left, and when does room come back?
 *
 * A trailing window counts in buckets. A bucket leaves only when all of it is older than the window, so the oldest one,
 * of which a part has aged out, still counts whole: no stretch of the window's length ever holds more than its limit.
 * The price is that room may come back up to one bucket late. Nothing here knows where counts are kept.
 *
 * A clock may be set back. What was counted after now counts as made now: it is not lost, and it leaves after the window's
 * length, not when the clock has caught up.
 */

import type { LimitLevel, LimitName, Refusal } from "../refusal.ts";
import type { Rate, Rates } from "./hold.ts";
import type { Limits } from "./tenant.ts";

export interface WindowShape {
  readonly spanMs: number;
  readonly bucketMs: number;
}
/** `rpm_limit` and `tpm_limit`. */
export const MINUTE: WindowShape = { spanMs: 60_000, bucketMs: 1_000 };
/** `rpd_limit`. */
export const DAY: WindowShape = { spanMs: 86_400_000, bucketMs: 600_000 };

interface Bucket {
  readonly startMs: number;
  count: number;
}

/** A count over a trailing window. At most `spanMs / bucketMs + 1` buckets, oldest first. */
export class TrailingCount {
  readonly #shape: WindowShape;
  #buckets: Bucket[] = [];
  #total = 0;
  /** Buckets that start before this have left for good. */
  #gone = Number.NEGATIVE_INFINITY;

  constructor(shape: WindowShape) {
    this.#shape = shape;
  }

  /** Counts `amount` (negative: a correction) in the bucket of `atMs`; without effect where that bucket has left. */
  add(atMs: number, amount: number): void {
    const startMs = Math.floor(atMs / this.#shape.bucketMs) * this.#shape.bucketMs;
    if (startMs < this.#gone || amount === 0) return;
    // From the newest, where nearly every count goes.
    const before = this.#buckets.findLastIndex((bucket) => bucket.startMs <= startMs);
    const bucket = this.#buckets[before];
    if (bucket?.startMs === startMs) {
      bucket.count += amount;
      if (bucket.count === 0) this.#buckets.splice(before, 1);
    } else if (amount < 0) {
      // A correction of what has left, or was moved when the clock was set back, takes nothing from others.
      return;
    } else {
      this.#buckets.splice(before + 1, 0, { startMs, count: amount });
    }
    this.#total += amount;
  }

  /** What the window ending now holds. */
  used(nowMs: number): number {
    this.#moveFuture(nowMs);
    let left = 0;
    for (const bucket of this.#buckets) {
      if (this.#leavesAtMs(bucket) > nowMs) break;
      this.#total -= bucket.count;
      left++;
    }
    if (left > 0) this.#buckets.splice(0, left);
    this.#gone = nowMs - this.#shape.spanMs - this.#shape.bucketMs + 1;
    return this.#total;
  }

  /** Takes back one of what was counted last. */
  takeBack(nowMs: number): void {
    const last = this.used(nowMs) > 0 ? this.#buckets.at(-1) : undefined;
    if (last) this.add(last.startMs, -1);
  }

  /** Buckets that begin after now, all into the one that now lies in. */
  #moveFuture(nowMs: number): void {
    const last = this.#buckets.at(-1);
    const startMs = Math.floor(nowMs / this.#shape.bucketMs) * this.#shape.bucketMs;
    if (!last || last.startMs <= startMs) return;
    const future = this.#buckets.splice(this.#buckets.findIndex((bucket) => bucket.startMs >= startMs));
    this.#buckets.push({ startMs, count: future.reduce((sum, { count }) => sum + count, 0) });
  }

  /** When `amount` more fits under `limit` if nothing else comes; null: never, it is larger than the limit. */
  fitsAtMs(amount: number, limit: number, nowMs: number): number | null {
    if (amount > limit) return null;
    let excess = this.used(nowMs) + amount - limit;
    if (excess <= 0) return nowMs;
    for (const bucket of this.#buckets) {
      excess -= bucket.count;
      if (excess <= 0) return this.#leavesAtMs(bucket);
    }
    return null;
  }

  /** When the window is empty if nothing more comes. */
  emptyAtMs(nowMs: number): number {
    this.used(nowMs);
    const last = this.#buckets.at(-1);
    return last ? this.#leavesAtMs(last) : nowMs;
  }

  /** Where each count stands, for keeping it: `add` them to a new one. */
  buckets(): readonly (readonly [startMs: number, count: number])[] {
    return this.#buckets.map(({ startMs, count }) => [startMs, count]);
  }

  #leavesAtMs(bucket: Bucket): number {
    return bucket.startMs + this.#shape.bucketMs + this.#shape.spanMs;
  }
}

/** One level's limits and what counts against them. */
export interface LevelUse {
  readonly level: LimitLevel;
  readonly limits: Limits;
  readonly requests: TrailingCount;
  readonly tokens: TrailingCount;
  /** Requests over 24 h; needed only where `rpd_limit` is set. */
  readonly dayRequests: TrailingCount | null;
  /** Open holds. */
  readonly slots: number;
}

/** Slots free when calls end, which nobody can foretell: a client may ask again this soon. */
const SLOT_RETRY_MS = 1_000;

/** The first limit that one more call of `tokens` would break: narrowest level first (the order of `levels`). */
export function limitRefusal(levels: readonly LevelUse[], tokens: number, nowMs: number): Refusal | undefined {
  for (const use of levels) {
    const refusal =
      windowRefusal(use, "rpm_limit", use.requests, 1, nowMs) ??
      windowRefusal(use, "tpm_limit", use.tokens, tokens, nowMs) ??
      windowRefusal(use, "rpd_limit", use.dayRequests, 1, nowMs) ??
      slotRefusal(use);
    if (refusal) return refusal;
  }
  return undefined;
}

function windowRefusal(
  use: LevelUse,
  limit: LimitName,
  count: TrailingCount | null,
  amount: number,
  nowMs: number,
): Refusal | undefined {
  const allowed = use.limits[limit];
  if (allowed === null || count === null || amount === 0) return undefined;
  if (count.used(nowMs) + amount <= allowed) return undefined;
  const fitsAtMs = count.fitsAtMs(amount, allowed, nowMs);
  const retryAfterMs = fitsAtMs === null ? null : fitsAtMs - nowMs;
  return { kind: "rate_limit", level: use.level, limit, allowed, retryAfterMs };
}

function slotRefusal(use: LevelUse): Refusal | undefined {
  const allowed = use.limits.max_parallel_requests;
  if (allowed === null || use.slots < allowed) return undefined;
  const retryAfterMs = allowed > 0 ? SLOT_RETRY_MS : null;
  return { kind: "rate_limit", level: use.level, limit: "max_parallel_requests", allowed, retryAfterMs };
}

/** Tokens that every level's `tpm_limit` leaves to one more call; infinite where none is set. */
export function tokenRoom(levels: readonly LevelUse[], nowMs: number): number {
  return Math.min(...levels.map(({ limits, tokens }) => roomOf(limits.tpm_limit, tokens, nowMs)));
}

function roomOf(limit: number | null, count: TrailingCount, nowMs: number): number {
  return limit === null ? Number.POSITIVE_INFINITY : limit - count.used(nowMs);
}

/** The tightest limit of each sort over the levels, for `x-ratelimit-*`: what leaves least; of equals the narrowest. */
export function ratesOf(levels: readonly LevelUse[], nowMs: number): Rates {
  const requests = tightest(
    levels.flatMap((use) => [
      rateOf(use.limits.rpm_limit, use.requests, nowMs),
      rateOf(use.limits.rpd_limit, use.dayRequests, nowMs),
    ]),
  );
  const tokens = tightest(levels.map((use) => rateOf(use.limits.tpm_limit, use.tokens, nowMs)));
  return { ...(requests && { requests }), ...(tokens && { tokens }) };
}

function rateOf(limit: number | null, count: TrailingCount | null, nowMs: number): Rate | undefined {
  if (limit === null || count === null) return undefined;
  return { limit, remaining: Math.max(0, limit - count.used(nowMs)), resetMs: count.emptyAtMs(nowMs) - nowMs };
}

function tightest(rates: readonly (Rate | undefined)[]): Rate | undefined {
  return rates.reduce(
    (least, rate) => (rate && (!least || rate.remaining < least.remaining) ? rate : least),
    undefined,
  );
}

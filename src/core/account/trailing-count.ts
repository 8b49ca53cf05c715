/**
 * How much was counted over a trailing window.
 *
 * A trailing window counts in buckets. A bucket leaves only when all of it is older than the window, so the oldest one,
 * of which a part has aged out, still counts whole: no stretch of the window's length ever holds more than its limit.
 * The price is that room may come back up to one bucket late. Nothing here knows where counts are kept.
 *
 * A clock may be set back. What was counted after now counts as made now: it is not lost, and it leaves after the window's
 * length, not when the clock has caught up.
 */

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

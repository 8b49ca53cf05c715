/**
 * Counts over a trailing window.
 *
 * The window is divided into buckets. A bucket leaves only when all of it is older than the window, and counts whole
 * until then. So no period of the window's length ever exceeds the limit, at the price that room may come back up to
 * one bucket late. Where counts are stored is not this file's concern.
 *
 * A clock may be set back. Counts in the future are then treated as made now: they are not lost, and they leave after
 * one window length instead of when the clock has caught up.
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
  /** Buckets that start before this have left the window. */
  #gone = Number.NEGATIVE_INFINITY;

  constructor(shape: WindowShape) {
    this.#shape = shape;
  }

  /** Adds `amount` to the bucket of `atMs`; negative corrects. No effect if that bucket has left. */
  add(atMs: number, amount: number): void {
    const startMs = Math.floor(atMs / this.#shape.bucketMs) * this.#shape.bucketMs;
    if (startMs < this.#gone || amount === 0) return;
    // Search from the newest bucket, where nearly every count goes.
    const before = this.#buckets.findLastIndex((bucket) => bucket.startMs <= startMs);
    const bucket = this.#buckets[before];
    if (bucket?.startMs === startMs) {
      bucket.count += amount;
      if (bucket.count === 0) this.#buckets.splice(before, 1);
      // Stryker disable next-line EqualityOperator: an amount of 0 does not come this far
    } else if (amount < 0) {
      // A correction for a bucket that has left, or was moved when the clock was set back, must not reduce other
      // buckets.
      return;
    } else {
      this.#buckets.splice(before + 1, 0, { startMs, count: amount });
    }
    this.#total += amount;
  }

  /** The count of the window that ends now. */
  used(nowMs: number): number {
    this.#moveFuture(nowMs);
    let left = 0;
    for (const bucket of this.#buckets) {
      if (this.#leavesAtMs(bucket) > nowMs) break;
      this.#total -= bucket.count;
      left++;
    }
    // Stryker disable next-line ConditionalExpression,EqualityOperator: without it none are taken out
    if (left > 0) this.#buckets.splice(0, left);
    this.#gone = nowMs - this.#shape.spanMs - this.#shape.bucketMs + 1;
    return this.#total;
  }

  /** Takes back one of the latest counts. */
  takeBack(nowMs: number): void {
    this.used(nowMs);
    const last = this.#buckets.at(-1);
    if (last) this.add(last.startMs, -1);
  }

  /** Merges buckets that begin in the future into the current one. */
  #moveFuture(nowMs: number): void {
    const last = this.#buckets.at(-1);
    const startMs = Math.floor(nowMs / this.#shape.bucketMs) * this.#shape.bucketMs;
    // Stryker disable next-line EqualityOperator: the bucket of now, moved into the bucket of now
    if (!last || last.startMs <= startMs) return;
    const future = this.#buckets.splice(this.#buckets.findIndex((bucket) => bucket.startMs >= startMs));
    this.#buckets.push({ startMs, count: future.reduce((sum, { count }) => sum + count, 0) });
  }

  /** When `amount` more fits under `limit` if nothing else is counted; null if it never does, being above the limit. */
  fitsAtMs(amount: number, limit: number, nowMs: number): number | null {
    let excess = this.used(nowMs) + amount - limit;
    if (excess <= 0) return nowMs;
    for (const bucket of this.#buckets) {
      excess -= bucket.count;
      if (excess <= 0) return this.#leavesAtMs(bucket);
    }
    return null;
  }

  /** When the window is empty if nothing else is counted. */
  emptyAtMs(nowMs: number): number {
    this.used(nowMs);
    const last = this.#buckets.at(-1);
    return last ? this.#leavesAtMs(last) : nowMs;
  }

  /** The buckets, for storage. To restore, `add` them to a new count. */
  buckets(): readonly (readonly [startMs: number, count: number])[] {
    return this.#buckets.map(({ startMs, count }) => [startMs, count]);
  }

  #leavesAtMs(bucket: Bucket): number {
    return bucket.startMs + this.#shape.bucketMs + this.#shape.spanMs;
  }
}

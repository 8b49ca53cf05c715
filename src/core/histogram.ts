/**
 * How long things took, in twelve buckets: small enough to keep for each minute, exact to a bucket. Histograms add up.
 */
import type { Percentiles } from "./routing/upstream-report.ts";

/** Upper ends of the buckets, ms, inclusive; the last bucket has all beyond. */
export const BUCKET_ENDS_MS = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 120_000, 600_000] as const;
export const BUCKETS = BUCKET_ENDS_MS.length + 1;

/** How many fell into each bucket. */
export type Histogram = readonly number[];

export function bucketOf(ms: number): number {
  const found = BUCKET_ENDS_MS.findIndex((end) => ms <= end);
  return found < 0 ? BUCKET_ENDS_MS.length : found;
}

/**
 * The value with a share of all others at or below it, as if those in its bucket were spread evenly. It is in the
 * bucket of the exact one; in the last bucket it is that bucket's lower end. Null: nothing was counted.
 */
export function percentile(histogram: Histogram, share: number): number | null {
  const all = histogram.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  const rank = Math.max(1, Math.ceil(all * share));
  let below = 0;
  for (const [bucket, count] of histogram.entries()) {
    if (below + count < rank) {
      below += count;
      continue;
    }
    const from = BUCKET_ENDS_MS[bucket - 1] ?? 0;
    const to = BUCKET_ENDS_MS[bucket] ?? from;
    return Math.round(from + ((to - from) * (rank - below)) / count);
  }
  return null;
}

export const percentilesIn = (histogram: Histogram): Percentiles => ({
  p50: percentile(histogram, 0.5),
  p95: percentile(histogram, 0.95),
  p99: percentile(histogram, 0.99),
});

import fc from "fast-check";
import { expect, it } from "vitest";
import { BUCKET_ENDS_MS, BUCKETS, bucketOf, percentile, percentilesIn } from "../../src/core/histogram.ts";
import "../support/property-runs.ts";

const histogramOf = (values: readonly number[]) => {
  const counts = new Array<number>(BUCKETS).fill(0);
  for (const ms of values) counts[bucketOf(ms)] = (counts[bucketOf(ms)] ?? 0) + 1;
  return counts;
};
const took = fc.oneof(fc.integer({ min: 0, max: 1_000_000 }), fc.constantFrom(0, 1, ...BUCKET_ENDS_MS));

it("a percentile is in the bucket of the exact one, and never below a lower one", () => {
  fc.assert(
    fc.property(
      fc.array(took, { minLength: 1, maxLength: 300 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (values, share) => {
        const sorted = [...values].sort((a, b) => a - b);
        const exact = sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
        const [found, median] = [percentile(histogramOf(values), share), percentile(histogramOf(values), share / 2)];
        const bucket = bucketOf(exact);
        expect(found).toBeGreaterThanOrEqual(BUCKET_ENDS_MS[bucket - 1] ?? 0);
        expect(found).toBeLessThanOrEqual(BUCKET_ENDS_MS[bucket] ?? BUCKET_ENDS_MS.at(-1) ?? 0);
        expect(found).toBeGreaterThanOrEqual(median ?? 0);
      },
    ),
  );
});

it("the ends of buckets belong to them, and nothing has no percentile", () => {
  expect([0, 50, 51, 600_000, 600_001, 1e12].map(bucketOf)).toEqual([0, 0, 1, 10, 11, 11]);
  expect(percentilesIn(histogramOf([]))).toEqual({ p50: null, p95: null, p99: null });
  expect(percentilesIn(histogramOf([5_000]))).toEqual({ p50: 5_000, p95: 5_000, p99: 5_000 });
  expect(percentilesIn(histogramOf([1e9])).p50).toBe(600_000);
});

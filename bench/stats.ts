/** Medians and quartiles, nothing that assumes a distribution. */

/** The value below which the share `q` of them lies, interpolated between neighbours. */
export function quantile(values: readonly number[], q: number): number {
  if (values.length === 0) return Number.NaN;
  const sorted = Float64Array.from(values).sort();
  const at = (sorted.length - 1) * q;
  const low = Math.floor(at);
  const [a, b] = [sorted[low] as number, sorted[Math.ceil(at)] as number];
  return a + (b - a) * (at - low);
}

export interface Spread {
  readonly q1: number;
  readonly median: number;
  readonly q3: number;
}

export const spread = (values: readonly number[]): Spread => ({
  q1: quantile(values, 0.25),
  median: quantile(values, 0.5),
  q3: quantile(values, 0.75),
});

/** A random order. */
export function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, rank: Math.random() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item);
}

/** The earliest of some times, ms; null stands for never. */
export function earliest(times: readonly (number | null)[]): number | null {
  const set = times.filter((time) => time !== null);
  return set.length === 0 ? null : Math.min(...set);
}

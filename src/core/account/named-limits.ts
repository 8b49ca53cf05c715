/**
 * Limits that a row of the endpoint table sets by name, the same for all accounts, beside the limits that the operator
 * gives to keys, teams and accounts. The row says how many and in which window; how each name is counted is up to the
 * account object.
 */
import type { NamedLimit, Refusal } from "../refusal.ts";

/** Refuses one more if the window is full. `countedAtMs`: when those that count were admitted, in any order. */
export function namedLimitRefusal(
  limit: NamedLimit,
  countedAtMs: readonly number[],
  nowMs: number,
): Refusal | undefined {
  const { count, windowMs } = limit;
  const recent = countedAtMs.filter((atMs) => atMs > nowMs - windowMs).sort((a, b) => a - b);
  const blocking = recent.at(-count);
  if (blocking === undefined) return undefined;
  return { kind: "named_limit", limit, retryAfterMs: blocking + windowMs - nowMs };
}

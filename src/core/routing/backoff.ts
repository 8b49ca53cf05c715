/**
 * When to ask a target again. Exponential with full jitter, so that clients that failed together do not come back
 * together; never sooner than the target asked for. The caller supplies the randomness.
 */

/** The random part of the first wait is at most this, ms. */
const FIRST_MS = 200;
/** Do not wait for a target that asks for more than this, ms (docs/design.md, section 5). */
export const LONGEST_WAIT_MS = 5_000;

/**
 * The wait before repeat number `repeat` (0 is the first), ms; null if the target asks for too long a wait. `random` is
 * in [0, 1).
 */
export function backoffMs(repeat: number, retryAfterMs: number | null, random: number): number | null {
  const askedMs = retryAfterMs ?? 0;
  if (askedMs > LONGEST_WAIT_MS) return null;
  return Math.min(askedMs + random * FIRST_MS * 2 ** repeat, LONGEST_WAIT_MS);
}

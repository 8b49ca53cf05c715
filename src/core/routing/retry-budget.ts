/**
 * May this target be asked again? Like tower's retry budget: deposits and withdrawals over a trailing window. A failing
 * target gets at most its calls, `RATIO` of them again, and a small minimum.
 *
 * Deposits are calls that were meant for the target. Withdrawals are all other tries: repeats, failovers to a
 * target that failed lately, and every try at an ejected target, also a first one. Over any window that ends with a
 * withdrawal: withdrawals <= max(`LEAST`, `RATIO` x deposits) (docs/invariants.md, 13). Pure; the caller gives the time.
 */
import { TrailingCount } from "../account/trailing-count.ts";

/** The window, ms; also how long a failure counts as lately. */
export const LATELY_MS = 10_000;
const WINDOW = { spanMs: LATELY_MS, bucketMs: 1_000 };
/** Withdrawals per deposit. */
export const RATIO = 0.2;
/** Withdrawals that a window always has. */
export const LEAST = 3;

export class RetryBudget {
  readonly #deposits = new TrailingCount(WINDOW);
  readonly #withdrawals = new TrailingCount(WINDOW);

  /** A call was meant for this target. */
  deposit(nowMs: number): void {
    this.#deposits.add(nowMs, 1);
  }

  /** Takes one try, if there is one. */
  withdraw(nowMs: number): boolean {
    const most = Math.max(LEAST, Math.floor(RATIO * this.#deposits.used(nowMs)));
    if (this.#withdrawals.used(nowMs) + 1 > most) return false;
    this.#withdrawals.add(nowMs, 1);
    return true;
  }

  /** Counts a try that was free when it was sent and then failed; the next one is not free. */
  charge(nowMs: number): void {
    this.#withdrawals.add(nowMs, 1);
  }
}

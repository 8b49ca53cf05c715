/**
 * May this target be asked again? Like tower's retry budget, with deposits and withdrawals over a trailing window, so
 * that a failing target gets at most its own calls, `RATIO` of them again, and a small minimum.
 *
 * A deposit is a call that was meant for the target. A withdrawal is any other try: a repeat, a failover to a target
 * that failed lately, and every try at an ejected target, including a first one. Over any window that ends with a
 * withdrawal: withdrawals <= max(`MIN_RETRIES`, `RATIO` x deposits) (docs/invariants.md, 13). The caller supplies the
 * time.
 */
import { TrailingCount } from "../account/trailing-count.ts";

/** The window, ms. A failure within it counts as "lately". */
export const LATELY_MS = 10_000;
const WINDOW = { spanMs: LATELY_MS, bucketMs: 1_000 };
/** Withdrawals per deposit. */
export const RATIO = 0.2;
/** Withdrawals that every window allows. */
export const MIN_RETRIES = 3;

export class RetryBudget {
  readonly #deposits = new TrailingCount(WINDOW);
  readonly #withdrawals = new TrailingCount(WINDOW);

  /** A call was meant for this target. */
  deposit(nowMs: number): void {
    this.#deposits.add(nowMs, 1);
  }

  /** Takes one try if the budget allows it. */
  withdraw(nowMs: number): boolean {
    const most = Math.max(MIN_RETRIES, Math.floor(RATIO * this.#deposits.used(nowMs)));
    if (this.#withdrawals.used(nowMs) + 1 > most) return false;
    this.#withdrawals.add(nowMs, 1);
    return true;
  }

  /** Charges a try afterwards that was free when sent and then failed. */
  charge(nowMs: number): void {
    this.#withdrawals.add(nowMs, 1);
  }
}

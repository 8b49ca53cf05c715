/**
 * What an account may have parsed without paying. A body is read, scanned and judged before anybody knows whether its call
 * can be paid; who sends 20 MB again and again without credit, or over its limits, would have that for nothing.
 *
 * A bucket per account in each isolate. Every body goes in before it is parsed, and comes out again when its call was
 * admitted or failed by our own fault. What stays in drains at `UNPAID_BYTES_PER_S`; an account whose bucket is full is told
 * to wait before its next body is read. Three bodies of the largest size fit at once and then one in ten seconds, or
 * four hundred refused calls of 5 kB a second.
 */
export const UNPAID_BYTES_PER_S = 2 * 1024 * 1024;
export const UNPAID_BURST_BYTES = 60 * 1024 * 1024;
/** A value costs as much to parse as so many bytes of text. */
export const BYTES_PER_VALUE = 64;
/**
 * With so much in the bucket the account object is asked before a body is read, so that a dead key, which an isolate may
 * know for a while yet, can never fill the bucket of the account that it was of.
 */
export const ASK_FIRST_BYTES = 8 * 1024 * 1024;

/** Accounts that owe nothing any more are forgotten once there are more than so many. */
const MOST_KEPT = 1_000;

interface Debt {
  readonly bytes: number;
  readonly atMs: number;
}

export class UnpaidWork {
  readonly #debts = new Map<string, Debt>();

  /** What is in the account's bucket. */
  owed(account: string, nowMs: number): number {
    const debt = this.#debts.get(account);
    if (!debt) return 0;
    // A clock that was set back neither forgives a debt nor keeps it until that time comes again.
    if (nowMs < debt.atMs) this.#debts.set(account, { ...debt, atMs: nowMs });
    const drained = (Math.max(0, nowMs - debt.atMs) * UNPAID_BYTES_PER_S) / 1_000;
    return Math.max(0, debt.bytes - drained);
  }

  /** How long until the account's next body may be read; 0: now. */
  waitMs(account: string, nowMs: number): number {
    const over = this.owed(account, nowMs) - UNPAID_BURST_BYTES;
    return over < 0 ? 0 : Math.ceil(((over + 1) * 1_000) / UNPAID_BYTES_PER_S);
  }

  /** Negative bytes are given back. */
  add(account: string, bytes: number, nowMs: number): void {
    const owed = Math.max(0, this.owed(account, nowMs) + bytes);
    this.#debts.delete(account);
    if (owed > 0) this.#debts.set(account, { bytes: owed, atMs: nowMs });
    if (this.#debts.size > MOST_KEPT) this.#forget(nowMs);
  }

  get accounts(): number {
    return this.#debts.size;
  }

  /** Of those that changed longest ago; each addition looks at two, so that none is a long one. */
  #forget(nowMs: number): void {
    let looks = 2;
    for (const account of this.#debts.keys()) {
      if (looks-- === 0) return;
      if (this.owed(account, nowMs) === 0) this.#debts.delete(account);
    }
  }
}

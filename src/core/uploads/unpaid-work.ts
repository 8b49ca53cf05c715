/**
 * How much an account may have parsed without paying. A body is read and validated before it is known whether its call
 * can be paid, so a sender without credit, or over its limits, could have 20 MB parsed again and again for free.
 *
 * Each isolate keeps a bucket per account. Every body is added before it is parsed, and removed when its call is
 * admitted or fails by the gateway's own fault. The rest drains at `UNPAID_BYTES_PER_S`. While the bucket is full, the
 * account's next body is refused before it is read. Three bodies of the largest size fit at once and then one every ten
 * seconds, or four hundred refused calls of 5 kB per second.
 */
export const UNPAID_BYTES_PER_S = 2 * 1024 * 1024;
export const UNPAID_BURST_BYTES = 60 * 1024 * 1024;
/** Parsing a value costs as much as parsing this many bytes of text. */
export const BYTES_PER_VALUE = 64;
/**
 * Above this level the account object is asked before a body is read, so that a dead key, which an isolate may still
 * remember, cannot fill its account's bucket.
 */
export const ASK_FIRST_BYTES = 8 * 1024 * 1024;

/** Above this number of accounts, those with an empty bucket are forgotten. */
const MOST_KEPT = 1_000;

interface Debt {
  readonly bytes: number;
  readonly atMs: number;
}

export class UnpaidWork {
  readonly #debts = new Map<string, Debt>();

  /** The bytes in the account's bucket. */
  owed(account: string, nowMs: number): number {
    const debt = this.#debts.get(account);
    if (!debt) return 0;
    // If the clock is set back, a debt is neither forgiven nor frozen.
    if (nowMs < debt.atMs) this.#debts.set(account, { ...debt, atMs: nowMs });
    const drained = (Math.max(0, nowMs - debt.atMs) * UNPAID_BYTES_PER_S) / 1_000;
    return Math.max(0, debt.bytes - drained);
  }

  /** How long until the account's next body may be read; 0 for now. */
  waitMs(account: string, nowMs: number): number {
    const over = this.owed(account, nowMs) - UNPAID_BURST_BYTES;
    return over < 0 ? 0 : Math.ceil(((over + 1) * 1_000) / UNPAID_BYTES_PER_S);
  }

  /** Adds bytes; negative gives back. */
  add(account: string, bytes: number, nowMs: number): void {
    const owed = Math.max(0, this.owed(account, nowMs) + bytes);
    this.#debts.delete(account);
    if (owed > 0) this.#debts.set(account, { bytes: owed, atMs: nowMs });
    if (this.#debts.size > MOST_KEPT) this.#forget(nowMs);
  }

  get accounts(): number {
    return this.#debts.size;
  }

  /** Looks at the two that changed longest ago, so that each addition stays quick. */
  #forget(nowMs: number): void {
    let looks = 2;
    for (const account of this.#debts.keys()) {
      if (looks-- === 0) return;
      if (this.owed(account, nowMs) === 0) this.#debts.delete(account);
    }
  }
}

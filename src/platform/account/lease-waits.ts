/**
 * Waiting for leases, in the account object: a change of what a key may do is answered once no lease of before admits
 * calls; a call that is short only of what is leased out is decided once the leases are closed.
 */
import type { Books } from "./state.ts";
import type { Store } from "./store.ts";
import type { OpenLease } from "./tables/open-leases.ts";

/** Nothing waits longer for leases to be closed, ms. */
const CLOSED_WITHIN_MS = 1_600;
const LOOK_EVERY_MS = 25;
/** The most calls that wait at once. */
const MOST_WAITING = 64;

const sleep = (ms: number): Promise<void> => new Promise((resume) => setTimeout(resume, ms));

export class LeaseWaits {
  readonly #store: Store;
  #waiting = 0;
  #closing: Promise<void> | null = null;

  constructor(store: Store) {
    this.#store = store;
  }

  /** No lease is granted while others are waited for. */
  get grants(): boolean {
    return this.#closing === null;
  }

  /** Waits until every lease is closed that may soon be. False: too many wait already. */
  async closed(): Promise<boolean> {
    if (this.#waiting >= MOST_WAITING) return false;
    this.#waiting++;
    try {
      this.#closing ??= this.#look(CLOSED_WITHIN_MS, ({ leases }, nowMs) => leases.soonClosed(nowMs)).finally(() => {
        this.#closing = null;
      });
      await this.#closing;
      return true;
    } finally {
      this.#waiting--;
    }
  }

  /** Waits until each of these is closed or over. */
  async over(leases: readonly OpenLease[]): Promise<void> {
    if (leases.length === 0) return;
    await this.#look(CLOSED_WITHIN_MS, ({ leases: open }, nowMs) =>
      leases.some(({ id }) => nowMs < (open.find(id)?.overAtMs ?? 0)),
    );
  }

  /** Looks again while `still` holds. It counts its own pauses: the object's clock may be set back meanwhile. */
  async #look(withinMs: number, still: (books: Books, nowMs: number) => boolean): Promise<void> {
    for (let waitedMs = 0; waitedMs < withinMs; waitedMs += LOOK_EVERY_MS) {
      if (!this.#store.transact(still)) return;
      await sleep(LOOK_EVERY_MS);
    }
  }
}

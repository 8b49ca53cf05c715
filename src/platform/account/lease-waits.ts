/**
 * Waiting for leases, in the account object. A change of what a key may do is answered once no earlier lease admits
 * calls. A call that lacks only room that is leased out is decided once the leases are closed.
 */
import type { AccountState } from "./state.ts";
import type { Store } from "./store.ts";
import type { OpenLease } from "./tables/open-leases.ts";

/** The longest wait for leases, ms. */
const LONGEST_MS = 1_600;
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

  /** Waits until every lease that may soon be closed is. False: too many wait already. */
  async closed(): Promise<boolean> {
    if (this.#waiting >= MOST_WAITING) return false;
    this.#waiting++;
    try {
      this.#closing ??= this.#look(({ leases }, nowMs) => leases.soonClosed(nowMs)).finally(() => {
        this.#closing = null;
      });
      await this.#closing;
      return true;
    } finally {
      this.#waiting--;
    }
  }

  /**
   * What is decided, a second time where it was short of room and leases have some that soon comes back. Null: too many
   * wait already. What is short must have changed nothing.
   */
  async decided<Decision>(decide: () => Decision, isShort: (decision: Decision) => boolean): Promise<Decision | null> {
    const first = decide();
    if (!isShort(first) || !this.#store.transact(({ leases }, nowMs) => leases.soonClosed(nowMs))) return first;
    return (await this.closed()) ? decide() : null;
  }

  /** Waits until each of these is closed or over. */
  async over(leases: readonly OpenLease[]): Promise<void> {
    if (leases.length === 0) return;
    await this.#look(({ leases: open }, nowMs) => leases.some(({ id }) => nowMs < (open.find(id)?.overAtMs ?? 0)));
  }

  /** Looks again while `still` holds. It counts its own pauses: the object's clock may be set back meanwhile. */
  async #look(still: (state: AccountState, nowMs: number) => boolean): Promise<void> {
    for (let waitedMs = 0; waitedMs < LONGEST_MS; waitedMs += LOOK_EVERY_MS) {
      if (!this.#store.transact(still)) return;
      await sleep(LOOK_EVERY_MS);
    }
  }
}

/** The leases of all accounts in one isolate. */
import type { AccountNumber } from "../ids.ts";
import { LeaseHolder } from "./lease-holder.ts";

/** Accounts kept before those without leases are removed. */
const MOST_ACCOUNTS = 1_000;

export class IsolateLeases {
  readonly #byAccount = new Map<AccountNumber, LeaseHolder>();

  /** Undefined: this isolate has admitted nothing of the account. */
  known(account: AccountNumber): LeaseHolder | undefined {
    return this.#byAccount.get(account);
  }

  of(account: AccountNumber): LeaseHolder {
    const known = this.#byAccount.get(account);
    if (known) return known;
    if (this.#byAccount.size >= MOST_ACCOUNTS) {
      for (const [other, holder] of this.#byAccount) if (holder.idle) this.#byAccount.delete(other);
    }
    const fresh = new LeaseHolder();
    this.#byAccount.set(account, fresh);
    return fresh;
  }
}

/**
 * The methods of one account object that the API calls: account, teams, keys and ledger.
 */

import type { AccountId, AccountNumber, KeyDigest, KeyId, TeamId } from "../ids.ts";
import type { AccountViews, ViewName } from "./account-views.ts";
import type { StandingAnswer } from "./key-status.ts";
import type { Actor, KeyAction, ManagedKey, ManagedTeam, TeamAction } from "./permissions.ts";
import type {
  Account,
  AccountFields,
  Audit,
  Changes,
  Credit,
  CreditOutcome,
  Key,
  LedgerEntry,
  Page,
  PageRequest,
  Team,
} from "./tenant.ts";

export type Closing =
  | { readonly kind: "closed" }
  | { readonly kind: "compute_live"; readonly live: readonly { readonly kind: string; readonly count: number }[] }
  | { readonly kind: "holds_open"; readonly openHolds: number };

/** What an account has at one upstream. `youngCalls`: open calls of which it is not known yet where they are. */
export interface InFlight {
  readonly calls: number;
  readonly youngCalls: number;
  readonly jobs: number;
}

/**
 * All methods give `undefined` where there is no such account, team or key; an object that was never opened has none.
 * Deleted teams and revoked keys can still be read by id but are not listed.
 */
export interface AccountService {
  /** Creates the account. Opening again with the same id returns the existing account unchanged. */
  open(id: AccountId, number: AccountNumber, fields: AccountFields): Promise<Account>;
  describe(): Promise<Account | undefined>;
  amend(changes: Changes<AccountFields>): Promise<Account | undefined>;
  /** Blocks all keys and keeps the ledger. Refused while compute resources live or holds are open. */
  close(): Promise<Closing | undefined>;

  credit(credit: Credit): Promise<CreditOutcome | undefined>;
  /** Newest first. */
  entries(page: PageRequest): Promise<Page<LedgerEntry> | undefined>;
  audit(): Promise<Audit | undefined>;
  /** What changes nothing: a span of the ledger, limits with their use, what keys spent. */
  view<Name extends ViewName>(
    name: Name,
    ask: AccountViews[Name]["ask"],
  ): Promise<AccountViews[Name]["answer"] | undefined>;

  /** Changes a key or team of the account, if the actor may: checked and done in one transaction. */
  manage(actor: Actor, action: KeyAction): Promise<ManagedKey | undefined>;
  manage(actor: Actor, action: TeamAction): Promise<ManagedTeam | undefined>;

  teams(page: PageRequest): Promise<Page<Team> | undefined>;
  team(id: TeamId): Promise<Team | undefined>;

  /** With `team`, only that team's keys. */
  keys(page: PageRequest, team?: TeamId): Promise<Page<Key> | undefined>;
  key(id: KeyId): Promise<Key | undefined>;
  /**
   * The limits and use of the key with this digest, for its holder. Counts as a free call, `change` as a change too.
   */
  standing(digest: KeyDigest, purpose: "read" | "change"): Promise<StandingAnswer | undefined>;
  inFlight(upstream: string): Promise<InFlight | undefined>;
  /** Finds a key for an edge that has no record of it. */
  findKey(digest: KeyDigest): Promise<{ account: AccountId; keyId: KeyId } | undefined>;
}

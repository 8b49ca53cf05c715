/**
 * The methods of one account object that the API calls: account, teams, keys and ledger.
 */

import type { AccountId, AccountNumber, KeyDigest, KeyId, TeamId } from "../ids.ts";
import type { StandingAnswer } from "./key-status.ts";
import type { DelegatedAction, DelegationOutcome } from "./permissions.ts";
import type {
  Account,
  AccountFields,
  Audit,
  Changes,
  Credit,
  CreditOutcome,
  Key,
  KeyFields,
  LedgerEntry,
  Page,
  PageRequest,
  Team,
  TeamFields,
  TooMany,
} from "./tenant.ts";

/**
 * All methods give `undefined` where there is no such account, team or key; an object that was never opened has none.
 * Deleted teams and revoked keys can still be read by id but are not listed.
 */
export interface AccountService {
  /** Creates the account. Opening again with the same id returns the existing account unchanged. */
  open(id: AccountId, number: AccountNumber, fields: AccountFields): Promise<Account>;
  describe(): Promise<Account | undefined>;
  amend(changes: Changes<AccountFields>): Promise<Account | undefined>;
  /** Blocks all keys and keeps the ledger. Refused while holds are open. */
  close(): Promise<{ kind: "closed" } | { kind: "holds_open"; openHolds: number } | undefined>;

  credit(credit: Credit): Promise<CreditOutcome | undefined>;
  /** Newest first. */
  entries(page: PageRequest): Promise<Page<LedgerEntry> | undefined>;
  audit(): Promise<Audit | undefined>;

  createTeam(id: TeamId, fields: TeamFields): Promise<Team | TooMany | undefined>;
  teams(page: PageRequest): Promise<Page<Team> | undefined>;
  team(id: TeamId): Promise<Team | undefined>;
  amendTeam(id: TeamId, changes: Changes<TeamFields>): Promise<Team | undefined>;
  deleteTeam(id: TeamId): Promise<Team | undefined>;

  /** `no_team`: the account has no live team with that id. */
  createKey(
    id: KeyId,
    digest: KeyDigest,
    lastFour: string,
    fields: KeyFields,
  ): Promise<Key | "no_team" | TooMany | undefined>;
  /** With `team`, only that team's keys. */
  keys(page: PageRequest, team?: TeamId): Promise<Page<Key> | undefined>;
  key(id: KeyId): Promise<Key | undefined>;
  amendKey(id: KeyId, changes: Changes<KeyFields>): Promise<Key | "no_team" | undefined>;
  /** The key is refused as soon as this returns. `digests` are the edge records to drop. */
  revokeKey(id: KeyId): Promise<{ key: Key; digests: readonly KeyDigest[] } | undefined>;
  /**
   * The old secret keeps working until the grace period ends. With `graceMs` 0 it is refused as soon as this returns.
   */
  rotateKey(
    id: KeyId,
    digest: KeyDigest,
    lastFour: string,
    graceMs: number,
  ): Promise<{ key: Key; digests: readonly KeyDigest[] } | undefined>;
  /** The limits and use of the key with this digest, for its holder. Counts as a free call. */
  standing(digest: KeyDigest): Promise<StandingAnswer | undefined>;
  /** A change to keys or teams made by the holder of this key, if it is permitted. */
  delegate(digest: KeyDigest, action: DelegatedAction): Promise<DelegationOutcome | undefined>;
  /** Finds a key for an edge that has no record of it. */
  findKey(digest: KeyDigest): Promise<{ account: AccountId; keyId: KeyId } | undefined>;
}

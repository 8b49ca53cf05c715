/**
 * What the API asks of one account object: its account, teams, keys and ledger.
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
 * What the operator's API asks of one account object. `undefined`: no such account, team or key here. An object that
 * was never opened knows nothing. Deleted teams and revoked keys stay readable by id, and leave the lists.
 */
export interface AccountService {
  /** Makes the account. Opened again with the same id, it answers with what exists. */
  open(id: AccountId, number: AccountNumber, fields: AccountFields): Promise<Account>;
  describe(): Promise<Account | undefined>;
  amend(changes: Changes<AccountFields>): Promise<Account | undefined>;
  /** Blocks its keys and keeps its ledger; refused while holds are open. */
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

  /** `no_team`: the team named is not a live one of this account. */
  createKey(
    id: KeyId,
    digest: KeyDigest,
    lastFour: string,
    fields: KeyFields,
  ): Promise<Key | "no_team" | TooMany | undefined>;
  /** With a team: only that team's. */
  keys(page: PageRequest, team?: TeamId): Promise<Page<Key> | undefined>;
  key(id: KeyId): Promise<Key | undefined>;
  amendKey(id: KeyId, changes: Changes<KeyFields>): Promise<Key | "no_team" | undefined>;
  /** The key is refused from the moment this is answered. Returns the digests to drop at the edge. */
  revokeKey(id: KeyId): Promise<{ key: Key; digests: readonly KeyDigest[] } | undefined>;
  /** The old secret works until the grace ends (0: it ends when this is answered). */
  rotateKey(
    id: KeyId,
    digest: KeyDigest,
    lastFour: string,
    graceMs: number,
  ): Promise<{ key: Key; digests: readonly KeyDigest[] } | undefined>;
  /** The status of the key with this digest, for its holder. Counts as a free call. */
  standing(digest: KeyDigest): Promise<StandingAnswer | undefined>;
  /** What the key with this digest does to the keys and teams of its account, if it may. */
  delegate(digest: KeyDigest, action: DelegatedAction): Promise<DelegationOutcome | undefined>;
  /** For an isolate that has no record of this digest. */
  findKey(digest: KeyDigest): Promise<{ account: AccountId; keyId: KeyId } | undefined>;
}

/**
 * Accounts: who may call, what they may spend, and the rules of holds, limits and the ledger. Everything here is a pure
 * decision over given facts; storage, clocks and HTTP are elsewhere.
 *
 * This file: what an account object stores about its tenant, as the API reads and writes it (account, teams, keys,
 * ledger). All of it crosses the object's RPC as values; expected refusals are values too.
 */

import type { AccountId, AccountNumber, CallId, KeyId, TeamId } from "../ids.ts";
import type { DatedPlan, Plan } from "../pricing/prices.ts";
import type { LimitName } from "../refusal.ts";

export const BUDGET_DURATIONS = ["day", "week", "month", "total"] as const;
export type BudgetDuration = (typeof BUDGET_DURATIONS)[number];

/**
 * Limits of one account, team or key. Null means no limit, except a key's `free_rpm_limit`, which then has a default
 * (core/account/free-calls.ts). `rpm`, `tpm`, `rpd` and `free_rpm` use trailing windows, budgets UTC calendar windows.
 */
export interface Limits extends Readonly<Record<LimitName, number | null>> {
  /** GPUs that may run or come to run at once. */
  readonly maxGpus: number | null;
  readonly maxBudgetNanoUsd: number | null;
  readonly budgetDuration: BudgetDuration;
}
export const NO_LIMITS: Limits = {
  rpm_limit: null,
  tpm_limit: null,
  rpd_limit: null,
  max_parallel_requests: null,
  free_rpm_limit: null,
  maxGpus: null,
  maxBudgetNanoUsd: null,
  budgetDuration: "total",
};

/** A partial change. Fields and limits that it does not name keep the value they have when the change is made. */
export type Changes<Fields extends { readonly limits: Limits }> = Partial<Omit<Fields, "limits">> & {
  readonly limits?: Partial<Limits>;
};

export const STORAGE_GRACE_DAYS = 7;

/** What the operator sets for an account. */
export interface AccountFields {
  readonly name: string;
  readonly blocked: boolean;
  /** The balance may go down to `-creditLimitNanoUsd`. */
  readonly billsMonthly: boolean;
  readonly creditLimitNanoUsd: number;
  /** At this balance and below it its owners and the operator are told; null or absent: never. */
  readonly lowBalanceNanoUsd?: number | null;
  readonly computeEnabled: boolean;
  /** The seat: the upstream on which the account's compute lives; null: none yet. */
  readonly computeUpstream: string | null;
  /** Days from the first unpaid day of storage until it is deleted; null: never. */
  readonly storageGraceDays: number | null;
  readonly onDisconnect: "cancel" | "drain";
  readonly plan: Plan;
  /** Holds in place of `plan` from its time on. */
  readonly nextPlan: DatedPlan | null;
  readonly limits: Limits;
}
export interface Account extends AccountFields {
  readonly id: AccountId;
  readonly number: AccountNumber;
  readonly createdAtMs: number;
  readonly deletedAtMs: number | null;
  readonly balanceNanoUsd: number;
  readonly heldNanoUsd: number;
}

export interface TeamFields {
  readonly name: string;
  readonly blocked: boolean;
  readonly limits: Limits;
}
export interface Team extends TeamFields {
  readonly id: TeamId;
  readonly createdAtMs: number;
  /** The keys of a deleted team are blocked; its history remains. */
  readonly deletedAtMs: number | null;
}

export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];
export const SCOPES = ["inference", "compute"] as const;
export type Scope = (typeof SCOPES)[number];

export interface KeyFields {
  readonly name: string;
  readonly team: TeamId | null;
  /** The contract's integer user: the person that the key belongs to. */
  readonly user: number | null;
  readonly role: Role;
  readonly scopes: readonly Scope[];
  /** Exact names or `prefix*`; null: every model. */
  readonly models: readonly string[] | null;
  readonly expiresAtMs: number | null;
  readonly blocked: boolean;
  readonly metadata: Readonly<Record<string, string>>;
  readonly limits: Limits;
}
/** Defaults for a new key. */
export const NEW_KEY: Omit<KeyFields, "name"> = {
  team: null,
  user: null,
  role: "member",
  scopes: ["inference"],
  models: null,
  expiresAtMs: null,
  blocked: false,
  metadata: {},
  limits: NO_LIMITS,
};
export interface Key extends KeyFields {
  readonly id: KeyId;
  readonly lastFour: string;
  readonly createdAtMs: number;
  readonly revokedAtMs: number | null;
}

/** A `charge` is negative, or zero for a call that cost nothing: each executed call has exactly one entry. */
export const ENTRY_KINDS = ["top_up", "refund", "correction", "charge"] as const;
export type EntryKind = (typeof ENTRY_KINDS)[number];

/** One line of the append-only ledger. The sum of all amounts is the balance. */
export interface LedgerEntry {
  readonly id: number;
  readonly kind: EntryKind;
  readonly amountNanoUsd: number;
  /** The balance after this entry. */
  readonly balanceNanoUsd: number;
  readonly atMs: number;
  readonly callId: CallId | null;
  readonly model: string | null;
  readonly keyId: KeyId | null;
  readonly reference: string | null;
  readonly note: string | null;
  /** Of what was rented: set where the entry is read. */
  readonly resource?: EntryResource;
}

/** What an entry of a rental paid for. `name`: the tenant's. */
export interface EntryResource {
  readonly kind: string;
  readonly id: number;
  readonly name: string;
}

export interface Credit {
  readonly kind: "top_up" | "refund" | "correction";
  /** Above zero for a `top_up`, below zero for a `refund`. */
  readonly amountNanoUsd: number;
  readonly reference: string;
  readonly note: string | null;
  /** The call that a correction is about. Absent on credits of a Worker of before. */
  readonly callId?: CallId | null;
}

/** Each reference is booked once. */
export type CreditOutcome =
  | { kind: "booked"; entry: LedgerEntry }
  | { kind: "already_booked"; entry: LedgerEntry }
  | { kind: "reference_conflict"; entry: LedgerEntry }
  /** The new balance could not be stored exactly, or would not cover the open holds. */
  | { kind: "out_of_range" };

/** The account has reached its maximum number of live keys or teams. */
export interface TooMany {
  readonly kind: "too_many";
  readonly most: number;
}

/** Check of the ledger, recomputed from its entries. `ok` only if `problems` is empty. */
export interface Audit {
  readonly ok: boolean;
  readonly entriesNanoUsd: number;
  readonly balanceNanoUsd: number;
  readonly heldNanoUsd: number;
  readonly overrunNanoUsd: number;
  readonly operatorLossNanoUsd: number;
  readonly openHolds: number;
  /** Of the open holds, those that isolates admit calls out of. */
  readonly openLeases: number;
  readonly oldestHoldAtMs: number | null;
  /** Usage events that D1 has not confirmed. */
  readonly outbox: number;
  readonly problems: readonly string[];
}

export interface Page<T> {
  readonly data: readonly T[];
  /** Pass it to the next request; null on the last page. */
  readonly nextCursor: string | null;
}
export interface PageRequest {
  readonly cursor: string | null;
  /** 1 to 1000. A page of large rows may have fewer, with a cursor to continue. */
  readonly limit: number;
}

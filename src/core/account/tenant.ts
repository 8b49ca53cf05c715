/**
 * What an account object keeps about its tenant, as the operator's API reads and writes it: account, teams, keys,
 * ledger. All of it crosses the object's RPC as values; expected refusals are values too.
 */

import type { AccountId, AccountNumber, CallId, KeyId, TeamId } from "../ids.ts";
import type { Plan } from "../pricing/prices.ts";
import type { LimitName } from "../refusal.ts";

export const BUDGET_DURATIONS = ["day", "week", "month", "total"] as const;
export type BudgetDuration = (typeof BUDGET_DURATIONS)[number];

/**
 * Limits of one account, team or key; null means none, of a key's `free_rpm_limit` the default (core/account/free-calls.ts).
 * `rpm`, `tpm`, `rpd` and `free_rpm` trail; budgets are UTC calendar windows.
 */
export interface Limits extends Readonly<Record<LimitName, number | null>> {
  readonly maxBudgetNanoUsd: number | null;
  readonly budgetDuration: BudgetDuration;
}
export const NO_LIMITS: Limits = {
  rpm_limit: null,
  tpm_limit: null,
  rpd_limit: null,
  max_parallel_requests: null,
  free_rpm_limit: null,
  maxBudgetNanoUsd: null,
  budgetDuration: "total",
};

/** A change of such fields: those it does not name, single limits too, stay as they are. */
export type Changes<Fields extends { readonly limits: Limits }> = Partial<Omit<Fields, "limits">> & {
  readonly limits?: Partial<Limits>;
};

/** What the operator chooses about an account. */
export interface AccountFields {
  readonly name: string;
  readonly blocked: boolean;
  /** May go below zero, to `-creditLimitNanoUsd`. */
  readonly billsMonthly: boolean;
  readonly creditLimitNanoUsd: number;
  readonly computeEnabled: boolean;
  readonly onDisconnect: "cancel" | "drain";
  readonly plan: Plan;
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
  /** A deleted team's keys are blocked; its history stays. */
  readonly deletedAtMs: number | null;
}

export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];
export const SCOPES = ["inference", "compute"] as const;
type Scope = (typeof SCOPES)[number];

export interface KeyFields {
  readonly name: string;
  readonly team: TeamId | null;
  /** The contract's integer user; a key belongs to one person. */
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

/** `charge` is negative; a call that cost nothing has one of zero, so entries join one to one with what was executed. */
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
}

export interface Credit {
  readonly kind: "top_up" | "refund" | "correction";
  /** Negative with `refund` and `correction` only. */
  readonly amountNanoUsd: number;
  readonly reference: string;
  readonly note: string | null;
}

/** A top-up counts once per reference. */
export type CreditOutcome =
  | { kind: "booked"; entry: LedgerEntry }
  | { kind: "already_booked"; entry: LedgerEntry }
  | { kind: "reference_conflict"; entry: LedgerEntry }
  /** The balance would leave what may be held or stored. */
  | { kind: "out_of_range" };

/** An account has as many live keys, or teams, as it may have. */
export interface TooMany {
  readonly kind: "too_many";
  readonly most: number;
}

/** The ledger, recomputed from its entries. `ok` only where `problems` is empty. */
export interface Audit {
  readonly ok: boolean;
  readonly entriesNanoUsd: number;
  readonly balanceNanoUsd: number;
  readonly heldNanoUsd: number;
  readonly overrunNanoUsd: number;
  readonly operatorLossNanoUsd: number;
  readonly openHolds: number;
  readonly oldestHoldAtMs: number | null;
  /** Usage events not yet known to stand in D1. */
  readonly outbox: number;
  readonly problems: readonly string[];
}

export interface Page<T> {
  readonly data: readonly T[];
  /** Give it back to go on; null at the end. */
  readonly nextCursor: string | null;
}
export interface PageRequest {
  readonly cursor: string | null;
  /** 1 to 1000. A page of large rows has fewer, and a cursor. */
  readonly limit: number;
}

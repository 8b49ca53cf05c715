/**
 * A key's status: its holder, and at each level the limits and what counts against them now. Crosses the account
 * object's RPC as a value.
 */
import type { Outcome } from "../outcome.ts";
import type { LimitLevel } from "../refusal.ts";
import type { Account, Key, Limits, Team } from "./tenant.ts";

/** One level's limits and what counts against them. */
export interface LevelStanding {
  readonly level: LimitLevel;
  readonly limits: Limits;
  /** In the last 60 s. */
  readonly requests: number;
  readonly tokens: number;
  /** In the last 24 h; null if `rpd_limit` is not set. */
  readonly dayRequests: number | null;
  /**
   * Free calls that reached an upstream in the last 60 s, and how many are allowed; null if this level has no limit.
   */
  readonly free: { readonly used: number; readonly allowed: number } | null;
  /** Calls in flight. */
  readonly slots: number;
  /** Null without a budget. */
  readonly budget: {
    readonly spentNanoUsd: number;
    readonly heldNanoUsd: number;
    /** When its window ends; null for `total`. */
    readonly endsAtMs: number | null;
  } | null;
}

export interface Standing {
  readonly account: Account;
  readonly team: Team | null;
  readonly key: Key;
  /** Narrowest first. */
  readonly levels: readonly LevelStanding[];
}

export type StandingAnswer = Outcome<{ standing: Standing }>;

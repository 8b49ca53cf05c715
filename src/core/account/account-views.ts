/**
 * What the API asks an account object besides keys, teams and credits: views that change nothing. Cross RPC as values.
 */
import type { KeyId, TeamId } from "../ids.ts";
import type { LimitLevel } from "../refusal.ts";
import type { LedgerEntry, Page, PageRequest } from "./tenant.ts";

/** The ledger between two times. */
export interface LedgerSpan {
  readonly openingNanoUsd: number;
  readonly closingNanoUsd: number;
  /** Of what was booked under a reference: all else was charged, or given back, for calls and rentals. */
  readonly creditsNanoUsd: bigint;
  /** Oldest first; at most `MOST_CREDITS`. */
  readonly credits: readonly LedgerEntry[];
  readonly creditCount: number;
}
export const MOST_CREDITS = 1_000;

/** One limit that is set, and what counts against it now. */
export interface LimitView {
  readonly limit: "rpm_limit" | "tpm_limit" | "rpd_limit" | "max_parallel_requests" | "free_rpm_limit" | "max_budget";
  /** Nano-USD for a budget. */
  readonly allowed: number;
  /** Of a budget: what was charged in its window and what calls in flight hold. */
  readonly used: number;
  /** When there is room again, or when a budget begins anew; null: there is room, or nobody knows. */
  readonly freesAtMs: number | null;
}

/** What a key or team spent, ever, and when it was last charged. */
export interface Used {
  readonly spentNanoUsd: number;
  readonly lastUsedAtMs: number | null;
}

export interface LevelView extends Used {
  readonly level: LimitLevel;
  readonly id: string;
  readonly name: string;
  readonly limits: readonly LimitView[];
}

/** Each question with its answer. */
export interface AccountViews {
  readonly span: { ask: { readonly fromMs: number; readonly toMs: number }; answer: LedgerSpan };
  /** The account, its live teams, its live keys. */
  readonly limits: { ask: PageRequest; answer: Page<LevelView> };
  /** In the order asked for. */
  readonly used: {
    ask: { readonly keys?: readonly KeyId[]; readonly teams?: readonly TeamId[] };
    answer: readonly Used[];
  };
}
export type ViewName = keyof AccountViews;

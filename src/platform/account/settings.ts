/** The operator's settings for all account objects, from the Worker's variables. */
import type { DetailLimits } from "../../core/archive/cut.ts";
import type { Lengths } from "../../core/compute/rental.ts";
import { NANO_PER_USD } from "../../core/pricing/money.ts";
import type { HoldTimes } from "./tables/holds.ts";

/** How long new holds and jobs may live, and the hour and day of compute. */
export interface Lives extends HoldTimes {
  readonly jobMs: number;
  readonly lengths: Lengths;
  /** Null: there is no archive. */
  archive: DetailLimits | null;
  /** The most money in one lease. */
  readonly mostLeasedNanoUsd: number;
}

/** The most live keys and teams of an account; neither costs money. */
export interface Caps {
  readonly keys: number;
  readonly teams: number;
}

const DEFAULT_HOLD_TTL_MS = 120_000;
const DEFAULT_LONGEST_HOLD_MS = 3_600_000;
const DEFAULT_JOB_LIFE_MS = 7_200_000;
const DEFAULT_MOST = 10_000;
const TRUE_HOUR_MS = 3_600_000;
const DEFAULT_DETAIL_DAYS = 35;
const DEFAULT_DETAIL_BYTES = 1_500_000_000;
const DEFAULT_LEASE_USD = 1;

/** A slip must not send charges away sooner than they were to go. */
const positive = (text: string | undefined, otherwise: number): number => (Number(text) > 0 ? Number(text) : otherwise);

/**
 * At least one TTL longer than the TTL: a call ends one TTL before its longest life, and must be renewed at least once.
 */
export function livesOf(
  env: Pick<
    Env,
    | "HOLD_TTL_MS"
    | "LONGEST_HOLD_MS"
    | "JOB_DEADLINE_MS"
    | "COMPUTE_HOUR_MS"
    | "COMPUTE_DAY_MS"
    | "LEDGER_DETAIL_DAYS"
    | "LEDGER_DETAIL_BYTES"
    | "ARCHIVE"
    | "LEASE_MAX_USD"
  >,
): Lives {
  const ttlMs = Number(env.HOLD_TTL_MS) || DEFAULT_HOLD_TTL_MS;
  const longestMs = Math.max(Number(env.LONGEST_HOLD_MS) || DEFAULT_LONGEST_HOLD_MS, 2 * ttlMs);
  const lengths = {
    hourMs: Number(env.COMPUTE_HOUR_MS) || TRUE_HOUR_MS,
    dayMs: Number(env.COMPUTE_DAY_MS) || 24 * TRUE_HOUR_MS,
  };
  const detail = {
    ms: positive(env.LEDGER_DETAIL_DAYS, DEFAULT_DETAIL_DAYS) * 24 * TRUE_HOUR_MS,
    bytes: positive(env.LEDGER_DETAIL_BYTES, DEFAULT_DETAIL_BYTES),
  };
  const archive = env.ARCHIVE ? detail : null;
  const jobMs = Number(env.JOB_DEADLINE_MS) || DEFAULT_JOB_LIFE_MS;
  const mostLeasedNanoUsd = Math.floor((Number(env.LEASE_MAX_USD) || DEFAULT_LEASE_USD) * NANO_PER_USD);
  return { ttlMs, longestMs, jobMs, lengths, archive, mostLeasedNanoUsd };
}

export const capsOf = (env: Pick<Env, "MAX_KEYS_PER_ACCOUNT" | "MAX_TEAMS_PER_ACCOUNT">): Caps => ({
  keys: Number(env.MAX_KEYS_PER_ACCOUNT) || DEFAULT_MOST,
  teams: Number(env.MAX_TEAMS_PER_ACCOUNT) || DEFAULT_MOST,
});

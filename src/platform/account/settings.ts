/** What the operator sets for all account objects, from the Worker's variables. */
import type { HoldTimes } from "./tables/holds.ts";

/** How long what is begun now may live. */
export interface Lives extends HoldTimes {
  readonly jobMs: number;
}

/** What an account may have of what takes no money: live keys, and live teams. */
export interface Caps {
  readonly keys: number;
  readonly teams: number;
}

const DEFAULT_HOLD_TTL_MS = 120_000;
const DEFAULT_LONGEST_HOLD_MS = 3_600_000;
const DEFAULT_JOB_LIFE_MS = 7_200_000;
const DEFAULT_MOST = 10_000;

/** A hold can be renewed at least once, so that a call that is ended one TTL before its longest time has one. */
export function livesOf(env: Pick<Env, "HOLD_TTL_MS" | "LONGEST_HOLD_MS" | "JOB_DEADLINE_MS">): Lives {
  const ttlMs = Number(env.HOLD_TTL_MS) || DEFAULT_HOLD_TTL_MS;
  const longestMs = Math.max(Number(env.LONGEST_HOLD_MS) || DEFAULT_LONGEST_HOLD_MS, 2 * ttlMs);
  return { ttlMs, longestMs, jobMs: Number(env.JOB_DEADLINE_MS) || DEFAULT_JOB_LIFE_MS };
}

export const capsOf = (env: Pick<Env, "MAX_KEYS_PER_ACCOUNT" | "MAX_TEAMS_PER_ACCOUNT">): Caps => ({
  keys: Number(env.MAX_KEYS_PER_ACCOUNT) || DEFAULT_MOST,
  teams: Number(env.MAX_TEAMS_PER_ACCOUNT) || DEFAULT_MOST,
});

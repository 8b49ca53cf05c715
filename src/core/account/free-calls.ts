/**
 * How many free calls a minute may have. `free_rpm_limit` is for those that reach an upstream; ten times as many may be
 * answered by the gateway alone. A key without this limit has the default; a team or account without it has none.
 *
 * This is for rows of the endpoint table without a meter and for self-service. A model with a price of 0 is called like
 * any other, within `rpm_limit`.
 */

import type { LimitLevel, Refusal } from "../refusal.ts";
import type { TrailingCount } from "./trailing-count.ts";

/** How far such a call goes. */
export type FreeReach = "upstream" | "local";

/** A key's `free_rpm_limit` if none is set. */
export const DEFAULT_FREE_RPM = 120;
const LOCAL_FOR_ONE_UPSTREAM = 10;

/** Calls in 60 s; null: this level sets no limit. */
export function freeAllowance(level: LimitLevel, limit: number | null, reach: FreeReach): number | null {
  const upstream = limit ?? (level === "key" ? DEFAULT_FREE_RPM : null);
  return upstream === null || reach === "upstream" ? upstream : upstream * LOCAL_FOR_ONE_UPSTREAM;
}

/** A level that limits such calls, and what was counted there in the last 60 s. */
export interface FreeUse {
  readonly level: LimitLevel;
  readonly allowed: number;
  readonly calls: TrailingCount;
}

/** The first level without room for one more; `uses` is narrowest first. */
export function freeRefusal(uses: readonly FreeUse[], nowMs: number): Refusal | undefined {
  const full = uses.find(({ allowed, calls }) => calls.used(nowMs) + 1 > allowed);
  if (!full) return undefined;
  const { level, allowed, calls } = full;
  const fitsAtMs = calls.fitsAtMs(1, allowed, nowMs);
  const retryAfterMs = fitsAtMs === null ? null : fitsAtMs - nowMs;
  return { kind: "rate_limit", level, limit: "free_rpm_limit", allowed, retryAfterMs };
}

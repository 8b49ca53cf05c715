/**
 * Free calls, and how many are allowed per minute. `free_rpm_limit` limits those that reach an upstream; ten times as
 * many may be answered by the gateway alone. A key without a limit has the default; a team or account without one adds
 * none.
 *
 * This is for rows of the endpoint table without a meter and for the tenant API. A model with a price of 0 is called
 * like any other, within `rpm_limit`.
 */

import type { OwnedRef } from "../owned.ts";
import type { LimitLevel, Refusal } from "../refusal.ts";
import type { CallAccess } from "./call-access.ts";
import type { TrailingCount } from "./trailing-count.ts";

/** Whether the call reaches an upstream or is answered by the gateway alone. */
export type FreeReach = "upstream" | "local";

/** What a free call asks for. `owned`: ids that it names; each must be the account's. Crosses RPC as a value. */
export interface FreeCall {
  readonly owned: readonly OwnedRef[];
  readonly access: CallAccess;
  readonly reach: FreeReach;
}

/** A key's `free_rpm_limit` if none is set. */
export const DEFAULT_FREE_RPM = 120;
const LOCAL_FOR_ONE_UPSTREAM = 10;

/** Calls allowed in 60 s; null if this level sets no limit. */
export function freeAllowance(level: LimitLevel, limit: number | null, reach: FreeReach): number | null {
  const upstream = limit ?? (level === "key" ? DEFAULT_FREE_RPM : null);
  return upstream === null || reach === "upstream" ? upstream : upstream * LOCAL_FOR_ONE_UPSTREAM;
}

/** A level that limits free calls, and the calls counted there in the last 60 s. */
export interface FreeUse {
  readonly level: LimitLevel;
  readonly allowed: number;
  readonly calls: TrailingCount;
}

/** The refusal of the first level without room for one more call. `uses` are ordered narrowest level first. */
export function freeRefusal(uses: readonly FreeUse[], nowMs: number): Refusal | undefined {
  const full = uses.find(({ allowed, calls }) => calls.used(nowMs) + 1 > allowed);
  if (!full) return undefined;
  const { level, allowed, calls } = full;
  const fitsAtMs = calls.fitsAtMs(1, allowed, nowMs);
  const retryAfterMs = fitsAtMs === null ? null : fitsAtMs - nowMs;
  return { kind: "rate_limit", level, limit: "free_rpm_limit", allowed, retryAfterMs };
}

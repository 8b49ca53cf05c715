/**
 * Limits on requests, tokens and parallel calls: whether a call fits, what is left, and when there is room again.
 * Requests and tokens are counted over trailing windows (trailing-count.ts).
 */

import type { LimitLevel, LimitName, Refusal } from "../refusal.ts";
import type { Rate, Rates } from "./hold.ts";
import type { Limits } from "./tenant.ts";
import type { TrailingCount } from "./trailing-count.ts";

/** One level's limits and what counts against them. */
export interface LevelUse {
  readonly level: LimitLevel;
  readonly limits: Limits;
  readonly requests: TrailingCount;
  readonly tokens: TrailingCount;
  /** Requests over 24 h; needed only if `rpd_limit` is set. */
  readonly dayRequests: TrailingCount | null;
  /** Open holds, and the slots of leases. */
  readonly slots: number;
  /** Set aside by leases and not reported yet: counts as made now. */
  readonly leased?: { readonly requests: number; readonly tokens: number };
}

/** Slots and leases become free when some call ends, which cannot be predicted, so clients may retry after this, ms. */
const SLOT_RETRY_MS = 1_000;
const NOT_LEASED = { requests: 0, tokens: 0 };

/** The first limit that one more call of `tokens` would break. `levels` are ordered narrowest first. */
export function limitRefusal(levels: readonly LevelUse[], tokens: number, nowMs: number): Refusal | undefined {
  for (const use of levels) {
    const leased = use.leased ?? NOT_LEASED;
    const refusal =
      windowRefusal(use, "rpm_limit", use.requests, 1, leased.requests, nowMs) ??
      windowRefusal(use, "tpm_limit", use.tokens, tokens, leased.tokens, nowMs) ??
      windowRefusal(use, "rpd_limit", use.dayRequests, 1, leased.requests, nowMs) ??
      slotRefusal(use);
    if (refusal) return refusal;
  }
  return undefined;
}

function windowRefusal(
  use: LevelUse,
  limit: LimitName,
  count: TrailingCount | null,
  amount: number,
  leased: number,
  nowMs: number,
): Refusal | undefined {
  const allowed = use.limits[limit];
  if (allowed === null || count === null || amount === 0) return undefined;
  if (count.used(nowMs) + leased + amount <= allowed) return undefined;
  const fitsAtMs = count.fitsAtMs(amount, allowed, nowMs);
  const wait = fitsAtMs === null ? null : fitsAtMs - nowMs;
  const retryAfterMs = wait !== null && leased > 0 ? Math.max(wait, SLOT_RETRY_MS) : wait;
  return { kind: "rate_limit", level: use.level, limit, allowed, retryAfterMs };
}

function slotRefusal(use: LevelUse): Refusal | undefined {
  const allowed = use.limits.max_parallel_requests;
  if (allowed === null || use.slots < allowed) return undefined;
  const retryAfterMs = allowed > 0 ? SLOT_RETRY_MS : null;
  return { kind: "rate_limit", level: use.level, limit: "max_parallel_requests", allowed, retryAfterMs };
}

/** Tokens that all levels' `tpm_limit` leave for one more call; infinite without a limit. */
export function tokenRoom(levels: readonly LevelUse[], nowMs: number): number {
  return Math.min(
    ...levels.map(({ limits, tokens, leased }) => roomOf(limits.tpm_limit, tokens, leased?.tokens, nowMs)),
  );
}

/** The same of requests, a minute and a day. */
export function requestRoom(levels: readonly LevelUse[], nowMs: number): number {
  const rooms = levels.flatMap(({ limits, requests, dayRequests, leased }) => [
    roomOf(limits.rpm_limit, requests, leased?.requests, nowMs),
    roomOf(limits.rpd_limit, dayRequests, leased?.requests, nowMs),
  ]);
  return Math.min(...rooms);
}

/** The same of parallel calls. */
export function slotRoom(levels: readonly LevelUse[]): number {
  const left = ({ limits, slots }: LevelUse) => (limits.max_parallel_requests ?? Number.POSITIVE_INFINITY) - slots;
  return Math.min(...levels.map(left));
}

function roomOf(limit: number | null, count: TrailingCount | null, leased: number | undefined, nowMs: number): number {
  return limit === null || count === null ? Number.POSITIVE_INFINITY : limit - count.used(nowMs) - (leased ?? 0);
}

/**
 * The limit with the least remaining, for requests and for tokens (`x-ratelimit-*`). On a tie the narrowest level wins.
 */
export function ratesOf(levels: readonly LevelUse[], nowMs: number): Rates {
  const requests = tightest(
    levels.flatMap((use) => [
      rateOf(use.limits.rpm_limit, use.requests, nowMs),
      rateOf(use.limits.rpd_limit, use.dayRequests, nowMs),
    ]),
  );
  const tokens = tightest(levels.map((use) => rateOf(use.limits.tpm_limit, use.tokens, nowMs)));
  return { ...(requests && { requests }), ...(tokens && { tokens }) };
}

function rateOf(limit: number | null, count: TrailingCount | null, nowMs: number): Rate | undefined {
  if (limit === null || count === null) return undefined;
  return { limit, remaining: Math.max(0, limit - count.used(nowMs)), resetMs: count.emptyAtMs(nowMs) - nowMs };
}

function tightest(rates: readonly (Rate | undefined)[]): Rate | undefined {
  return rates.reduce(
    (least, rate) => (rate && (!least || rate.remaining < least.remaining) ? rate : least),
    undefined,
  );
}

/**
 * Leases: exact admission without a round trip. This folder has the rules that the account object and the isolates
 * share; who stores, sends and waits is elsewhere.
 *
 * This file: how much a lease gets, and what a call takes out of it.
 */
import { decideAdmission } from "../account/admission.ts";
import { type BudgetUse, budgetRoom } from "../account/budgets.ts";
import { type CallAccess, roleRefusal, scopeRefusal } from "../account/call-access.ts";
import type { Bound, LeasedCall } from "../account/hold.ts";
import type { Lease, LeaseAsk, Slice } from "../account/lease.ts";
import { type Money, moneyRoom } from "../account/ledger.ts";
import { type LevelUse, requestRoom, slotRoom, tokenRoom } from "../account/limits.ts";
import { allowsModel } from "../account/model-access.ts";
import { type ModelRow, tenantPrices } from "../pricing/prices.ts";

/** How long an isolate admits calls out of a lease, from before it asked for it, ms. */
export const LEASE_MS = 1_000;
/** The object takes a lease for over this long after its grant, ms: longer, since clocks run differently. */
export const OVER_MS = LEASE_MS + 100;
/** A lease that would be over sooner is not granted, ms. */
const LEAST_LEASE_MS = 250;
/** A lease is meant for this many seconds of what was asked for, and never gets more than this share of the room. */
const AHEAD_S = 1.5;
const SHARE = 8;

/** What all levels, budgets and the balance leave. */
export function roomIn(levels: readonly LevelUse[], budgets: readonly BudgetUse[], money: Money, nowMs: number): Slice {
  return {
    requests: requestRoom(levels, nowMs),
    tokens: tokenRoom(levels, nowMs),
    slots: slotRoom(levels),
    nanoUsd: Math.min(budgetRoom(budgets), moneyRoom(money)),
  };
}

/** The slice of a new lease; null where one sort is too short, so that the object decides call by call. */
export function sliceOf({ wanted }: Pick<LeaseAsk, "wanted">, room: Slice, mostNanoUsd: number): Slice | null {
  const part = (wish: number, left: number) =>
    Math.min(Math.ceil(wish * AHEAD_S), Math.floor(left / SHARE), Number.MAX_SAFE_INTEGER);
  const requests = part(wanted.requests, room.requests);
  const slice = {
    requests,
    tokens: part(wanted.tokens, room.tokens),
    // A request takes one slot at a time.
    slots: Math.min(requests, part(Number.MAX_SAFE_INTEGER, room.slots)),
    nanoUsd: Math.min(part(wanted.nanoUsd, room.nanoUsd), mostNanoUsd),
  };
  // Too little for one call of those that were wanted.
  const lacks = (sort: "tokens" | "nanoUsd") => slice[sort] < wanted[sort] / wanted.requests;
  return requests < 1 || slice.slots < 1 || lacks("tokens") || lacks("nanoUsd") ? null : slice;
}

/** How long a lease lives that must end before each of these moments; null: too short for one. */
export function lifeUntil(ends: readonly (number | null)[], nowMs: number): number | null {
  const left = ends.map((endMs) => (endMs === null ? LEASE_MS : endMs - nowMs - (OVER_MS - LEASE_MS)));
  const livesMs = Math.min(LEASE_MS, ...left);
  return livesMs < LEAST_LEASE_MS ? null : livesMs;
}

/** What the isolate knows of a call that it may admit. */
export interface Candidate extends Pick<LeasedCall, "callId" | "endpoint" | "model" | "alias" | "startedAtMs"> {
  readonly access: CallAccess;
  readonly row: ModelRow;
  readonly bound: Bound;
}

/** What a call takes out of the slice; null: the object decides. It is admitted with its whole output cap only. */
export function takeFrom(
  lease: Pick<Lease, "id" | "key" | "plan">,
  left: Slice,
  call: Candidate,
  offsetMs: number,
): LeasedCall | null {
  if (left.requests < 1 || left.slots < 1) return null;
  if (scopeRefusal(lease.key, call.access) || roleRefusal(lease.key, call.access)) return null;
  if (!allowsModel(lease.key.models, call.model)) return null;
  const { prices, rule } = tenantPrices(call.row, lease.plan, call.model);
  const { output } = call.bound;
  const decision = decideAdmission({
    model: call.model,
    bound: output ? { ...call.bound, output: { ...output, lowerable: false } } : call.bound,
    prices,
    free: call.row.free,
    levels: [],
    budgets: [],
    money: { balanceNanoUsd: left.nanoUsd, heldNanoUsd: 0, floorNanoUsd: 0 },
    nowMs: 0,
  });
  if (!decision.ok || decision.grant.countedTokens > left.tokens) return null;
  const { callId, endpoint, model, alias, startedAtMs } = call;
  return {
    callId,
    endpoint,
    model,
    alias,
    startedAtMs,
    ...decision.grant,
    prices,
    priceRule: rule,
    lease: lease.id,
    offsetMs,
  };
}

type Taken = Pick<LeasedCall, "amountNanoUsd" | "countedTokens">;

export const covers = (left: Slice, call: Taken): boolean =>
  left.requests >= 1 && left.slots >= 1 && left.tokens >= call.countedTokens && left.nanoUsd >= call.amountNanoUsd;

/** What is left of a slice once the call was taken out. */
export const without = (left: Slice, call: Taken): Slice => ({
  requests: left.requests - 1,
  tokens: left.tokens - call.countedTokens,
  slots: left.slots - 1,
  nanoUsd: left.nanoUsd - call.amountNanoUsd,
});

/** What an ended call did not use goes back into the slice; its request was made. Overruns are not the slice's. */
export const givenBack = (
  left: Slice,
  call: Taken,
  used: { readonly chargedNanoUsd: number; readonly tokens: number },
): Slice => ({
  requests: left.requests,
  tokens: left.tokens + Math.max(0, call.countedTokens - used.tokens),
  slots: left.slots + 1,
  nanoUsd: left.nanoUsd + call.amountNanoUsd - used.chargedNanoUsd,
});

/** When the object counts a leased call: in the lease, and not in the future. */
export const countedAtMs = (grantedAtMs: number, offsetMs: number, nowMs: number): number =>
  Math.min(grantedAtMs + Math.min(Math.max(0, offsetMs), OVER_MS), nowMs);

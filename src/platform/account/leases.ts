/**
 * Leases, on the side of the object: grants them, takes in what isolates report of them, and closes them. All of it in
 * the caller's transaction. A leased call gets a hold of its own when it is reported, out of the lease's, and is ended
 * by the same code as any other: so a call counts once, however often and in whatever order it is reported.
 */
import type { LeasedCall, Settlement } from "../../core/account/hold.ts";
import type { Lease, LeaseAsk, LeaseReport, ReportAnswer, ReportedCall } from "../../core/account/lease.ts";
import { splitCharge } from "../../core/account/ledger.ts";
import { ratesOf } from "../../core/account/limits.ts";
import { isOnTeam, type ManageAction } from "../../core/account/permissions.ts";
import {
  countedAtMs,
  covers,
  givenBack,
  lifeUntil,
  OVER_MS,
  roomIn,
  sliceOf,
  without,
} from "../../core/leases/slice.ts";
import { costOf, planAt } from "../../core/pricing/prices.ts";
import { countedTokens } from "../../core/pricing/usage.ts";
import { authenticate } from "./admission.ts";
import { expireDue } from "./expiry.ts";
import { release, settle } from "./hold-lifecycle.ts";
import type { Lives } from "./settings.ts";
import type { AccountState } from "./state.ts";
import type { HoldTimes } from "./tables/holds.ts";
import type { OpenLease } from "./tables/open-leases.ts";

/** No lease is granted where holds live shorter: a leased call must become a hold before its first renewal. */
const LEAST_TTL_MS = 4 * OVER_MS;

export interface TakenIn extends ReportAnswer {
  /** Ends of calls that neither a hold nor a lease covers. */
  readonly unknown: readonly Settlement[];
}

/** `grants`: false while calls wait for leases to be closed. */
export function takeIn(
  state: AccountState,
  report: LeaseReport,
  nowMs: number,
  lives: Lives,
  grants: boolean,
): TakenIn {
  const unknown: Settlement[] = [];
  const touched = new Set(report.over.map(({ id }) => id));
  for (const reported of report.calls) {
    const lost = takeCall(state, reported, nowMs, lives);
    if (lost) unknown.push(lost);
    touched.add(reported.call.lease);
  }
  for (const id of touched) state.leases.write(id, nowMs + lives.ttlMs);
  for (const { id, admitted } of report.over) close(state, id, admitted, nowMs);
  for (const id of touched) close(state, id, state.leases.find(id)?.admitted, nowMs);
  expireDue(state, nowMs);
  const leases = report.asks.map((ask) => (grants ? grant(state, ask, nowMs, lives) : null));
  return { leases, unknown };
}

/** Gives the settlement of a call that was not known. */
function takeCall(
  state: AccountState,
  { call, end }: ReportedCall,
  nowMs: number,
  times: HoldTimes,
): Settlement | null {
  const carved = !state.holds.find(call.callId);
  if (carved && !carve(state, call, nowMs, times))
    return end?.kind === "settle" && !expired(state, call) ? end.said : null;
  if (!end) return null;
  if (end.kind === "settle") settle(state, end.said, nowMs);
  else release(state, end.said, nowMs);
  const lease = state.leases.find(call.lease);
  if (!carved || !lease) return null;
  const usage = end.kind === "settle" ? end.said.reading.usage : {};
  const { chargedNanoUsd } = splitCharge(costOf(usage, call.prices), call.amountNanoUsd);
  const rest = givenBack(lease.slice, call, { chargedNanoUsd, tokens: countedTokens(usage) });
  state.leased(0, rest.nanoUsd - lease.slice.nanoUsd, nowMs + times.ttlMs);
  state.leases.set(lease, rest, lease.calls);
  return null;
}

/** Makes a leased call a hold of its own, if its lease covers it. */
function carve(state: AccountState, call: LeasedCall, nowMs: number, { ttlMs }: HoldTimes): boolean {
  const lease = state.leases.find(call.lease);
  if (!lease || !covers(lease.slice, call)) return false;
  const { lease: _, offsetMs, ...its } = call;
  state.leased(0, 0 - call.amountNanoUsd, nowMs + ttlMs);
  state.leases.set(lease, without(lease.slice, call), lease.calls + 1);
  state.hold({
    ...its,
    keyId: lease.keyId,
    teamId: lease.teamId,
    admittedAtMs: countedAtMs(lease.grantedAtMs, offsetMs, nowMs),
    expiresAtMs: nowMs + ttlMs,
    rental: null,
  });
  return true;
}

/** What an expired lease had is the operator's loss already. */
const expired = (state: AccountState, { lease }: LeasedCall): boolean => state.holds.find(lease)?.state === "expired";

/**
 * Closes a lease, once every call that it admitted is known. Otherwise it stays held until the missing ones come by the
 * queue, or until it expires. Its row keeps nothing to count: its calls have rows of their own.
 */
function close(state: AccountState, id: Lease["id"], admitted: number | undefined, nowMs: number): void {
  const lease = state.leases.find(id);
  if (!lease || admitted === undefined) return;
  if (lease.calls !== admitted) {
    state.leases.returned(lease, admitted);
    return;
  }
  state.leases.set(lease, { ...lease.slice, requests: 0, tokens: 0 }, lease.calls);
  state.leases.write(id, nowMs);
  const hold = state.holds.find(id);
  if (hold)
    state.end(hold, { state: "released", chargedNanoUsd: 0, countedTokens: 0, endedAtMs: nowMs, entryId: null });
}

/** The open leases of the key or team that was acted on. */
export const leasesOf = (state: AccountState, action: ManageAction): readonly OpenLease[] =>
  state.leases.all().filter(({ keyId, teamId }) => (isOnTeam(action) ? teamId : keyId) === action.id);

/** A lease where the key is live and there is room; null: the object decides call by call. */
export function grant(state: AccountState, ask: LeaseAsk, nowMs: number, lives: Lives): Lease | null {
  // Rentals are renewed out of the same room, and stop without it.
  if (lives.ttlMs < LEAST_TTL_MS || state.resources.nextDueMs() !== null) return null;
  const found = authenticate(state, ask.keyDigest, nowMs);
  const known = state.keys.find(ask.keyDigest);
  if (!found.ok || !known) return null;
  const { caller } = found;
  const account = state.tenants.account();
  const levels = state.levels(caller, nowMs);
  const budgets = state.budgets(caller, nowMs);
  const livesMs = lifeUntil(
    [
      caller.key.expiresAtMs,
      known.validUntilMs,
      account.nextPlan && account.nextPlan.fromMs > nowMs ? account.nextPlan.fromMs : null,
      ...budgets.map(({ endsAtMs }) => endsAtMs),
    ],
    nowMs,
  );
  if (livesMs === null) return null;
  const rates = ratesOf(levels, nowMs);
  const again = state.leases.find(ask.id);
  const slice = again?.slice ?? sliceOf(ask, roomIn(levels, budgets, state.money(), nowMs), lives.mostLeasedNanoUsd);
  if (!slice) return null;
  if (!again) {
    if (state.holds.find(ask.id)) return null;
    const { id: keyId, team: teamId } = caller.key;
    const lease = { id: ask.id, keyId, teamId, grantedAtMs: nowMs, overAtMs: nowMs + OVER_MS, slice, calls: 0 };
    state.leases.insert(lease, nowMs + lives.ttlMs);
    state.leased(1, slice.nanoUsd, nowMs + lives.ttlMs);
  }
  const { scopes, role, models } = caller.key;
  return {
    id: ask.id,
    keyId: caller.key.id,
    keyDigest: ask.keyDigest,
    slice,
    livesMs,
    key: { scopes, role, models },
    plan: planAt(account, nowMs),
    holds: {
      livesMs: lives.ttlMs,
      longestCallMs: lives.longestMs - lives.ttlMs,
      onDisconnect: account.onDisconnect,
    },
    rates,
  };
}

/**
 * Leases, on the side of the object: grants them, takes in what isolates report of them, and closes them. All of it in
 * the caller's transaction. A leased call that is reported as running gets a hold of its own, out of the lease's; one that
 * is reported already ended is charged at once, and its id stands in the lease's row. Both are ended by the same code as
 * any other call, and both are found again by their id: so a call counts once, however often and in whatever order it
 * is reported.
 */
import type { CallEnd, LeasedCall, Settlement } from "../../core/account/hold.ts";
import type { Lease, LeaseAsk, LeaseReport, ReportAnswer, ReportedCall } from "../../core/account/lease.ts";
import { ratesOf } from "../../core/account/limits.ts";
import { isOnTeam, type ManageAction } from "../../core/account/permissions.ts";
import type { CallId } from "../../core/ids.ts";
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
import { planAt } from "../../core/pricing/prices.ts";
import { authenticate } from "./admission.ts";
import { expireDue } from "./expiry.ts";
import { release, releaseAs, settle, settleAs } from "./hold-lifecycle.ts";
import type { Lives } from "./settings.ts";
import type { AccountState } from "./state.ts";
import type { Ending, HoldTimes, NewHold } from "./tables/holds.ts";
import type { Leases, OpenLease } from "./tables/open-leases.ts";

/** No lease is granted where holds live shorter: a leased call must become a hold before its first renewal. */
const LEAST_TTL_MS = 4 * OVER_MS;

/** Ended calls in one lease's row, which may have 2 MB; more get holds of their own. */
const MOST_ENDED = 10_000;

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
  const admitted = new Map(report.over.map(({ id, admitted: calls }) => [id, calls]));
  const touched = new Set(admitted.keys());
  const closed = new Map<CallId, ReturnType<Leases["closed"]>>();
  const closedLease = (id: CallId) => {
    if (!closed.has(id)) closed.set(id, state.leases.closed(id));
    return closed.get(id);
  };
  for (const reported of report.calls) {
    const { end, call } = reported;
    if (!takeCall(state, reported, nowMs, lives) && end?.kind === "settle") {
      const its = closedLease(call.lease);
      // What an expired lease had is the operator's loss already.
      if (!its?.expired && !its?.ended.has(call.callId)) unknown.push(end.said);
    }
    touched.add(call.lease);
  }
  for (const id of touched) putBack(state, id, admitted.get(id), nowMs, lives);
  expireDue(state, nowMs);
  const leases = report.asks.map((ask) => (grants ? grant(state, ask, nowMs, lives) : null));
  return { leases, unknown };
}

/** False: the call was not known, and no open lease covers it. */
function takeCall(state: AccountState, { call, end }: ReportedCall, nowMs: number, times: HoldTimes): boolean {
  const lease = state.leases.find(call.lease);
  if (lease?.ended.has(call.callId)) return true;
  const mayHaveHold = !lease || lease.calls > lease.ended.size;
  if (mayHaveHold && state.holds.find(call.callId)) {
    if (end?.kind === "settle") settle(state, end.said, nowMs);
    else if (end) release(state, end.said, nowMs);
    return true;
  }
  if (!lease || !covers(lease.slice, call)) return false;
  const hold = holdOf(lease, call, nowMs + times.ttlMs, nowMs);
  if (end && lease.ended.size < MOST_ENDED) {
    endAtOnce(state, lease, hold, end, nowMs);
    return true;
  }
  state.leases.set(lease.id, without(lease.slice, call), lease.calls + 1);
  state.hold(hold);
  return end ? takeCall(state, { call, end }, nowMs, times) : true;
}

/** A leased call as a hold of its own. */
function holdOf(lease: OpenLease, call: LeasedCall, expiresAtMs: number, nowMs: number): NewHold {
  const { lease: _, offsetMs, ...its } = call;
  const { keyId, teamId } = lease;
  const admittedAtMs = countedAtMs(lease.grantedAtMs, offsetMs, nowMs);
  return { ...its, keyId, teamId, admittedAtMs, expiresAtMs, rental: null };
}

/** A call that is over when it is heard of: it is charged, and what it did not use goes back to its lease. */
function endAtOnce(state: AccountState, lease: OpenLease, hold: NewHold, end: CallEnd, nowMs: number): void {
  const store = (ending: Ending) => {
    const used = { chargedNanoUsd: ending.chargedNanoUsd, tokens: ending.countedTokens };
    state.leases.set(lease.id, givenBack(without(lease.slice, hold), hold, used), lease.calls + 1);
    countEnded(state, lease.id, hold, ending);
  };
  if (end.kind === "settle") settleAs(state, hold, end.said, nowMs, store);
  else releaseAs(state, hold, end.said, nowMs, store);
}

/** A row of its own would be written to be ended at once: its lease's row has it, and it counts in its windows. */
function countEnded(state: AccountState, lease: CallId, hold: NewHold, { countedTokens, entryId }: Ending): void {
  const { callId, admittedAtMs } = hold;
  const { leases, dayRequests, activities } = state;
  leases.endedCall(lease, { callId, admittedAtMs, countedTokens, entryId, seq: dayRequests.nextSeq });
  dayRequests.admitted(hold, admittedAtMs);
  activities.counted(hold, admittedAtMs, countedTokens);
}

/**
 * Writes a lease once for all that a report said of it. It closes where every call that it admitted is known. Otherwise
 * it stays held until the missing ones come by the queue, or until it expires.
 */
function putBack(state: AccountState, id: Lease["id"], said: number | undefined, nowMs: number, lives: Lives): void {
  const lease = state.leases.find(id);
  if (!lease) return;
  const admitted = said ?? lease.admitted;
  if (lease.calls === admitted) {
    state.closeLease(id, nowMs);
    return;
  }
  if (admitted !== undefined) state.leases.returned(id, admitted);
  state.writeLease(id, nowMs + lives.ttlMs);
}

/** The open leases of the key or team that was acted on. */
export const leasesOf = (state: AccountState, action: ManageAction): readonly OpenLease[] =>
  state.leases.all().filter(({ keyId, teamId }) => (isOnTeam(action) ? teamId : keyId) === action.id);

/** A lease where the key is live and there is room; null: the object decides call by call. */
export function grant(state: AccountState, ask: LeaseAsk, nowMs: number, lives: Lives): Lease | null {
  // The turn of a rental that is short waits for leases to be over.
  if (lives.ttlMs < LEAST_TTL_MS || state.leases.paused(nowMs)) return null;
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
    const [grantedAtMs, ended] = [nowMs, new Set<CallId>()];
    const lease = { id: ask.id, keyId, teamId, grantedAtMs, overAtMs: nowMs + OVER_MS, slice, calls: 0, ended };
    state.grantLease(lease, nowMs + lives.ttlMs);
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

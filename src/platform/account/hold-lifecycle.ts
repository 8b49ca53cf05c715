/**
 * Settlement, release and renewal of a hold, as reported by the pipeline. Each end writes the hold's row, the ledger
 * entry or the operator's loss, and one usage event, all in the caller's transaction. The first end counts; later ones
 * get what was recorded. Holds that are never ended expire in expiry.ts; ends that come after expiry go to
 * late-ends.ts.
 */
import type { HoldEnd, Progress, Release, Settlement } from "../../core/account/hold.ts";
import { splitCharge } from "../../core/account/ledger.ts";
import type { CallId } from "../../core/ids.ts";
import { MAX_NANO_USD } from "../../core/pricing/money.ts";
import { costOf } from "../../core/pricing/prices.ts";
import { countedTokens } from "../../core/pricing/usage.ts";
import { eventOf } from "./call-events.ts";
import { releaseLate, settleLate } from "./late-ends.ts";
import type { AccountState } from "./state.ts";
import type { Ending, HoldRow, HoldState, HoldTimes, NewHold } from "./tables/holds.ts";

export const UNKNOWN: HoldEnd = { state: "unknown", chargedNanoUsd: 0 };

/**
 * Charges min(actual, held). A hold past its time that has not been expired yet is still open: its money is still set
 * aside, so it is charged.
 */
export function settle(state: AccountState, settlement: Settlement, nowMs: number): HoldEnd {
  const hold = state.holds.find(settlement.callId);
  if (!hold) return UNKNOWN;
  if (hold.state === "expired") return settleLate(state, hold, settlement, nowMs);
  if (hold.state !== "open") return recorded(hold.state, hold);
  const end = settleAs(state, hold, settlement, nowMs, (ending) => state.end(hold, ending));
  // An own count or a suspiciously low figure may be too low as the bound of the next turn. Keep this turn's bound
  // then.
  const { source, lowInput, usage } = settlement.reading;
  if (source === "exact" && !lowInput) state.ownedIds.settled(hold.callId, countedTokens(usage));
  state.idempotency.settled(hold.callId, settlement.status, settlement.outcome);
  return end;
}

/** The charge, what the operator bears, and the event. `end` stores how the call ended. */
export function settleAs(
  state: AccountState,
  hold: NewHold,
  settlement: Settlement,
  nowMs: number,
  end: (ending: Ending) => void,
): HoldEnd {
  const { usage, source, lowInput } = settlement.reading;
  const actualNanoUsd = Math.min(costOf(usage, hold.prices), MAX_NANO_USD);
  const { chargedNanoUsd, overrunNanoUsd } = splitCharge(actualNanoUsd, hold.amountNanoUsd);
  state.marginWatch.settled(state.tenants.account().id, hold, settlement, actualNanoUsd, nowMs);
  const entryId = state.charge(hold, chargedNanoUsd, nowMs);
  end({ state: "settled", chargedNanoUsd, countedTokens: countedTokens(usage), endedAtMs: nowMs, entryId });
  state.overrun(hold.callId, overrunNanoUsd, nowMs);
  const lossNanoUsd = lossOf(hold, settlement);
  if (lossNanoUsd > 0) state.operatorBook.loss(hold.callId, lossNanoUsd, nowMs);
  state.outbox.add({
    ...eventOf(state, hold, nowMs, { trace: settlement.trace, entry: entryId }),
    upstream: settlement.servedBy.upstream,
    targetModel: settlement.servedBy.model,
    region: settlement.servedBy.region,
    outcome: settlement.outcome,
    status: settlement.status,
    source,
    ...(lowInput && { lowInput }),
    usage,
    priceNanoUsd: chargedNanoUsd,
    costNanoUsd: settlement.costNanoUsd,
    overrunNanoUsd,
    lossNanoUsd,
    latencyMs: Math.max(0, settlement.latencyMs),
    firstByteMs: settlement.firstByteMs === null ? null : Math.max(0, settlement.firstByteMs),
  });
  return { state: "settled", chargedNanoUsd };
}

/** No charge and no entry. The request stays counted, its tokens do not. */
export function release(state: AccountState, released: Release, nowMs: number): HoldEnd {
  const hold = state.holds.find(released.callId);
  if (!hold) return UNKNOWN;
  if (hold.state === "expired") return releaseLate(state, hold, released, nowMs);
  if (hold.state !== "open") return recorded(hold.state, hold);
  state.idempotency.released(released);
  return releaseAs(state, hold, released, nowMs, (ending) => state.end(hold, ending));
}

/** What the operator bears, and the event. `end` stores how the call ended. */
export function releaseAs(
  state: AccountState,
  hold: NewHold,
  released: Release,
  nowMs: number,
  end: (ending: Ending) => void,
): HoldEnd {
  const lossNanoUsd = lossOf(hold, released);
  if (lossNanoUsd > 0) state.operatorBook.loss(hold.callId, lossNanoUsd, nowMs);
  end({ state: "released", chargedNanoUsd: 0, countedTokens: 0, endedAtMs: nowMs, entryId: null });
  state.outbox.add({
    ...eventOf(state, hold, nowMs, { trace: released.trace }),
    upstream: released.servedBy?.upstream ?? null,
    targetModel: released.servedBy?.model ?? null,
    region: released.servedBy?.region ?? null,
    outcome: "failed",
    reason: released.reason,
    status: released.status,
    lossNanoUsd,
    latencyMs: Math.max(0, released.latencyMs),
  });
  return { state: "released", chargedNanoUsd: 0 };
}

/**
 * Extends an open hold, at most to its longest life, and stores the usage reported so far. Returns false if the hold
 * has ended.
 */
export function renew(
  state: AccountState,
  callId: CallId,
  progress: Progress | null,
  nowMs: number,
  { ttlMs, longestMs }: HoldTimes,
): boolean {
  const hold = state.holds.find(callId);
  if (hold?.state !== "open") return false;
  const expiresAtMs = Math.max(hold.expiresAtMs, Math.min(nowMs + ttlMs, hold.admittedAtMs + longestMs));
  if (expiresAtMs > hold.expiresAtMs || progress) state.holds.renew(callId, expiresAtMs, progress);
  return true;
}

/** One try can cost at most the held amount. */
const lossOf = (hold: NewHold, { lostTries }: Pick<Release, "lostTries">): number =>
  Math.min(lostTries * hold.amountNanoUsd, MAX_NANO_USD);

const recorded = (state: Exclude<HoldState, "open">, hold: HoldRow): HoldEnd => ({
  state,
  chargedNanoUsd: hold.chargedNanoUsd,
});

/**
 * Late ends: a settlement or release that comes after its hold has expired. It corrects the expiry's charge and loss,
 * once, with a second entry and a second event that carry the differences. Further ends get what was recorded.
 */

import { budgetRoom } from "../../core/account/budgets.ts";
import type { HoldEnd, Release, Settlement, UsageEvent } from "../../core/account/hold.ts";
import { lateCharge, moneyRoom } from "../../core/account/ledger.ts";
import { MAX_NANO_USD } from "../../core/pricing/money.ts";
import { costOf } from "../../core/pricing/prices.ts";
import { countedTokens, usageDifference } from "../../core/pricing/usage.ts";
import { durationMs, eventOf, lateEventId } from "./call-events.ts";
import type { AccountState } from "./state.ts";
import type { HoldRow } from "./tables/holds.ts";

/**
 * Brings the charge to min(actual, held). A higher charge is limited to what balance and budgets leave now; a lower one
 * gives the difference back. What the tenant does not pay stays the operator's loss.
 */
export function settleLate(state: AccountState, hold: HoldRow, settlement: Settlement, nowMs: number): HoldEnd {
  if (hold.corrected) return recorded(hold.chargedNanoUsd);
  const { callId, progress } = hold;
  const { usage } = settlement.reading;
  const actualNanoUsd = Math.min(costOf(usage, hold.prices), MAX_NANO_USD);
  const late = lateCharge(actualNanoUsd, hold, roomFor(state, hold, nowMs));
  const differenceNanoUsd = late.chargedNanoUsd - hold.chargedNanoUsd;
  // What is given back frees the budget window in which it was charged, not today's.
  const entryId = state.charge(hold, differenceNanoUsd, nowMs, differenceNanoUsd < 0 ? hold.endedAtMs : null);
  state.holds.correct(callId, late.chargedNanoUsd, entryId);
  const triesNanoUsd = settlement.lostTries * hold.amountNanoUsd;
  const lossNanoUsd = Math.min(late.unpaidNanoUsd + triesNanoUsd, MAX_NANO_USD);
  state.operatorBook.correctLoss(callId, lossNanoUsd);
  state.overrun(callId, late.overrunNanoUsd, nowMs);
  const { source, lowInput } = settlement.reading;
  if (source === "exact" && !lowInput) state.ownedIds.settled(callId, countedTokens(usage));
  state.idempotency.correct(callId, settlement);
  state.outbox.add({
    ...lateEventOf(state, hold, nowMs, { trace: settlement.trace, entry: entryId }),
    upstream: settlement.servedBy.upstream,
    targetModel: settlement.servedBy.model,
    region: settlement.servedBy.region,
    outcome: settlement.outcome,
    reason: "late",
    status: settlement.status,
    source,
    ...(lowInput && { lowInput }),
    usage: usageDifference(usage, progress?.reading.usage ?? {}),
    priceNanoUsd: differenceNanoUsd,
    costNanoUsd: settlement.costNanoUsd - (progress?.costNanoUsd ?? 0),
    overrunNanoUsd: late.overrunNanoUsd,
    lossNanoUsd: lossNanoUsd - lostAtExpiry(hold),
    latencyMs: settlement.latencyMs - latencyAtExpiry(hold),
    firstByteMs: settlement.firstByteMs === null ? null : Math.max(0, settlement.firstByteMs),
  });
  return recorded(late.chargedNanoUsd);
}

/**
 * Keeps what was charged. Without lost tries nothing more was executed, so the loss recorded at expiry becomes zero.
 */
export function releaseLate(state: AccountState, hold: HoldRow, released: Release, nowMs: number): HoldEnd {
  if (hold.corrected || released.lostTries > 0) return recorded(hold.chargedNanoUsd);
  state.holds.correct(hold.callId, hold.chargedNanoUsd, null);
  state.operatorBook.correctLoss(hold.callId, 0);
  state.idempotency.correct(hold.callId, "not_executed");
  state.outbox.add({
    ...lateEventOf(state, hold, nowMs, { trace: released.trace }),
    upstream: released.servedBy?.upstream ?? null,
    targetModel: released.servedBy?.model ?? null,
    region: released.servedBy?.region ?? null,
    reason: released.reason,
    status: released.status,
    lossNanoUsd: 0 - lostAtExpiry(hold),
    latencyMs: released.latencyMs - latencyAtExpiry(hold),
  });
  return recorded(hold.chargedNanoUsd);
}

const lateEventOf = (...[state, hold, nowMs, told]: Required<Parameters<typeof eventOf>>): UsageEvent => ({
  ...eventOf(state, hold, nowMs, told),
  eventId: lateEventId(hold.callId),
  late: true,
});

/** The loss recorded by the expiry's event. */
const lostAtExpiry = (hold: HoldRow): number => hold.amountNanoUsd - hold.chargedNanoUsd;
const latencyAtExpiry = (hold: HoldRow): number => durationMs(hold.startedAtMs, hold.endedAtMs ?? hold.startedAtMs);

const recorded = (chargedNanoUsd: number): HoldEnd => ({ state: "expired", chargedNanoUsd });

/** What the balance and every budget of the hold's levels leave now. */
function roomFor(state: AccountState, hold: HoldRow, nowMs: number): number {
  const key = state.keys.key(hold.keyId);
  const team = hold.teamId === null ? null : (state.tenants.team(hold.teamId) ?? null);
  const budgets = key ? state.budgets({ key, team }, nowMs) : [];
  return Math.min(moneyRoom(state.money()), budgetRoom(budgets));
}

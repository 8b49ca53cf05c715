/**
 * Expires holds that were never settled or released. The tenant is charged what the last renewal reported, or nothing
 * without a report. The rest of the hold is an upper bound for the operator's loss.
 */
import type { ServedBy } from "../../core/account/hold.ts";
import { splitCharge } from "../../core/account/ledger.ts";
import { OVER_MS } from "../../core/leases/slice.ts";
import { costOf } from "../../core/pricing/prices.ts";
import { durationMs, eventOf } from "./call-events.ts";
import { turnDue } from "./compute/resource-rows.ts";
import type { AccountState } from "./state.ts";
import type { HoldRow } from "./tables/holds.ts";

/** Due holds ended in one go. */
const EXPIRE_AT_ONCE = 500;

/** Called by the alarm and before money is read, so that a dead alarm cannot block an account. Rentals turn first. */
export function expireDue(state: AccountState, nowMs: number): void {
  turnDue(state, nowMs);
  if (state.nextExpiryMs === null || nowMs < state.nextExpiryMs) return;
  for (const hold of state.holds.due(nowMs, EXPIRE_AT_ONCE)) {
    expire(state, hold, hold.lease ? "lease_expired" : "hold_expired", nowMs, null);
  }
  state.readNextExpiry();
}

/**
 * Ends an open hold whose outcome is unknown. A lease's is what its isolate never reported: calls that were made count,
 * and were not charged.
 */
export function expire(
  state: AccountState,
  hold: HoldRow,
  reason: string,
  nowMs: number,
  servedBy: ServedBy | null,
): void {
  const { callId, amountNanoUsd, countedTokens, progress } = hold;
  const reportedNanoUsd = progress ? costOf(progress.reading.usage, hold.prices) : 0;
  const { chargedNanoUsd } = splitCharge(reportedNanoUsd, amountNanoUsd);
  // A report means the call was executed: it gets a ledger entry even if it came to zero.
  const entryId = progress ? state.charge(hold, chargedNanoUsd, nowMs) : null;
  const lossNanoUsd = amountNanoUsd - chargedNanoUsd;
  if (hold.lease) {
    const atMs = hold.admittedAtMs + OVER_MS;
    state.activities.lost(hold, atMs, { ...hold.lease, tokens: countedTokens });
    state.dayRequests.lost(hold, atMs, hold.lease.requests);
  }
  state.end(hold, { state: "expired", chargedNanoUsd, countedTokens, endedAtMs: nowMs, entryId });
  state.operatorBook.loss(callId, lossNanoUsd, nowMs);
  state.idempotency.lost(callId, 0);
  const served = servedBy ?? progress?.servedBy;
  state.outbox.add({
    ...eventOf(state, hold, nowMs, { entry: entryId }),
    upstream: served?.upstream ?? null,
    targetModel: served?.model ?? null,
    region: served?.region ?? null,
    outcome: "expired",
    reason,
    source: progress?.reading.source ?? "none",
    usage: progress?.reading.usage ?? {},
    priceNanoUsd: chargedNanoUsd,
    costNanoUsd: progress?.costNanoUsd ?? 0,
    lossNanoUsd,
    latencyMs: durationMs(hold.startedAtMs, nowMs),
  });
}

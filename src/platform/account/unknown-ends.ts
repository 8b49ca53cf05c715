/**
 * A settlement of a call whose hold is unknown: pruned after its end, or lost when the object was restored from
 * an older copy. Nothing is charged. If the call has an entry or a loss already, that is the answer; otherwise its cost
 * becomes the operator's loss, once, and a usage event brings it to the operator's reports.
 *
 * Entries have no index by call (it would cost a row per call for a very rare case), so the ledger is read in slices,
 * with other calls served in between. No entry of this call can be added meanwhile: only a hold makes one.
 */
import type { HoldEnd, Settlement, UsageEvent } from "../../core/account/hold.ts";
import { type AccountId, asId, type KeyId } from "../../core/ids.ts";
import { formatUsd, MAX_NANO_USD } from "../../core/pricing/money.ts";
import { log } from "../log.ts";
import { lateEventId } from "./call-events.ts";
import { UNKNOWN } from "./hold-lifecycle.ts";
import { ENTRIES_PER_SLICE, letOthersIn } from "./slices.ts";
import type { Store } from "./store.ts";
import { SETTLE_UNKNOWN } from "./tables/operator-losses.ts";

export async function settleUnknown(store: Store, settlement: Settlement): Promise<HoldEnd> {
  const { callId, costNanoUsd } = settlement;
  if (store.transact(({ operatorBook }) => operatorBook.findLoss(callId)?.unknown)) return UNKNOWN;
  const chargedNanoUsd = await findCharge(store, callId);
  const answer = store.transact((state, nowMs): HoldEnd => {
    if (chargedNanoUsd !== undefined) return { state: "settled", chargedNanoUsd };
    const loss = state.operatorBook.findLoss(callId);
    if (loss) return loss.unknown ? UNKNOWN : { state: "expired", chargedNanoUsd: 0 };
    const lostNanoUsd = Math.min(costNanoUsd, MAX_NANO_USD);
    state.operatorBook.unknownLoss(callId, lostNanoUsd, nowMs);
    const account = state.tenants.account().id;
    state.outbox.add(unknownEvent(account, settlement, lostNanoUsd, nowMs));
    log({ event: "settle_unknown", account, call: callId, cost_usd: formatUsd(lostNanoUsd) });
    return UNKNOWN;
  });
  return answer ?? UNKNOWN;
}

/** Stands for what only the hold knew. Tenants see it in their reports, so it must not be the target's model. */
const NOT_KNOWN = "unknown";

/**
 * A late event, which counts as no call: the call's first event may be in the reports already. Its usage is left out,
 * as the tenant is not charged for it.
 */
function unknownEvent(account: AccountId, settlement: Settlement, lossNanoUsd: number, nowMs: number): UsageEvent {
  const { callId, servedBy, status, costNanoUsd } = settlement;
  return {
    eventId: lateEventId(callId),
    late: true,
    account,
    team: null,
    key: asId<KeyId>(NOT_KNOWN),
    endpoint: NOT_KNOWN,
    model: NOT_KNOWN,
    alias: null,
    upstream: servedBy.upstream,
    targetModel: servedBy.model,
    region: servedBy.region,
    outcome: "failed",
    reason: SETTLE_UNKNOWN,
    status,
    source: "none",
    usage: {},
    priceNanoUsd: 0,
    costNanoUsd,
    overrunNanoUsd: 0,
    lossNanoUsd,
    priceRule: NOT_KNOWN,
    startedAtMs: nowMs,
    endedAtMs: nowMs,
    latencyMs: 0,
    firstByteMs: null,
  };
}

async function findCharge(store: Store, callId: Settlement["callId"]): Promise<number | undefined> {
  let chargedNanoUsd: number | undefined;
  const newest = store.transact(({ ledger }) => ledger.lastId) ?? 0;
  for (let throughId = newest; throughId > 0; throughId -= ENTRIES_PER_SLICE) {
    if (throughId < newest) await letOthersIn();
    const found = store.transact(({ ledger }) =>
      ledger.chargedBetween(callId, throughId - ENTRIES_PER_SLICE, throughId),
    );
    if (found !== undefined) chargedNanoUsd = (chargedNanoUsd ?? 0) + found;
  }
  return chargedNanoUsd;
}

/** Builds usage events from hold rows. */
import type { CallTrace } from "../../core/account/call-trace.ts";
import type { UsageEvent } from "../../core/account/hold.ts";
import { asId, type CallId } from "../../core/ids.ts";
import type { AccountState } from "./state.ts";
import type { NewHold } from "./tables/holds.ts";

/** The id of the second event of a call that ended after its hold had expired. */
export const lateEventId = (callId: CallId): CallId => asId<CallId>(`${callId}.late`);

/** Never negative: clocks may step back. */
export const durationMs = (fromMs: number, toMs: number): number => Math.max(0, toMs - fromMs);

/** What the end of a call tells beside its money. */
interface Told {
  readonly trace?: CallTrace | undefined;
  /** Of the ledger; null: none. */
  readonly entry?: number | null;
}

/** The event of a call of which only the hold is known, and what `told` adds. */
export function eventOf(state: AccountState, hold: NewHold, endedAtMs: number, told: Told = {}): UsageEvent {
  const { trace, entry = null } = told;
  const { stream = false, costs = null, tries = [], country = null } = trace ?? {};
  return {
    eventId: hold.callId,
    account: state.tenants.account().id,
    team: hold.teamId,
    key: hold.keyId,
    endpoint: hold.endpoint,
    model: hold.model,
    alias: hold.alias,
    upstream: null,
    targetModel: null,
    region: null,
    outcome: "failed",
    reason: null,
    status: 0,
    source: "none",
    usage: {},
    priceNanoUsd: 0,
    costNanoUsd: 0,
    overrunNanoUsd: 0,
    lossNanoUsd: 0,
    priceRule: hold.priceRule,
    startedAtMs: hold.startedAtMs,
    endedAtMs,
    latencyMs: 0,
    firstByteMs: null,
    country,
    detail: { stream, heldNanoUsd: hold.amountNanoUsd, prices: hold.prices, costs, entry, tries },
  };
}

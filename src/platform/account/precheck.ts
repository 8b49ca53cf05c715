/**
 * Questions that hold nothing: may this key call this model, and at which prices? A quote counts as a request like any
 * other, so it writes the hold row that the windows are made of, but it costs nothing, takes no slot and makes no usage
 * event.
 */

import { limitRefusal, ratesOf } from "../../core/account/limits.ts";
import type { Inquired, Inquiry } from "../../core/account/precheck.ts";
import { refused } from "../../core/outcome.ts";
import { planAt, tenantPrices } from "../../core/pricing/prices.ts";
import { authenticate, forbid, namedRefusal, refuseRepeat, sentBefore } from "./admission.ts";
import { expireDue } from "./expiry.ts";
import type { AccountState } from "./state.ts";

/**
 * Free calls that are allowed whatever the key's `free_rpm_limit`: as many as the row's own limits allow. The quotes
 * inside submissions always have room: an accepted submission is paid for and gives its count back. A refused one stays
 * counted, so a tenant without credit cannot ask for quotes without end.
 */
const alwaysFree = ({ limits }: Inquiry): number => Math.max(0, ...limits.map(({ count }) => count));

export function inquire(state: AccountState, inquiry: Inquiry, nowMs: number): Inquired {
  expireDue(state, nowMs);
  const found = authenticate(state, inquiry.keyDigest, nowMs);
  if (!found.ok) return found;
  const { caller } = found;
  const forbidden = forbid(caller, inquiry.access, inquiry.model);
  if (forbidden) return refused(forbidden);
  const { row, model, unit, purpose } = inquiry;
  const fixed = tenantPrices(row, planAt(state.tenants.account(), nowMs), model);
  if (unit !== null && !row.free && fixed.prices[unit] === undefined) {
    return refused({ kind: "model_not_priced", model });
  }
  const earlier = sentBefore(state, caller, inquiry, nowMs);
  const runs = earlier?.earlier?.state === "running";
  if (earlier && !runs) return refuseRepeat(state, caller, earlier, nowMs);
  const levels = state.levels(caller, nowMs);
  // The repeat of a running call waits for it; admission reports how it ended.
  if (purpose !== "prices" && !runs) {
    // A quote takes no slot, so full slots do not refuse it.
    const judged = purpose === "quote" ? levels.map((level) => ({ ...level, slots: 0 })) : levels;
    const refusal = limitRefusal(judged, 0, nowMs) ?? namedRefusal(state, inquiry, caller.key.id, nowMs);
    if (refusal) return { ok: false, refusal, rates: ratesOf(levels, nowMs) };
  }
  const tooMany = state.takeFree(caller, purpose === "prices" ? "local" : "upstream", nowMs, alwaysFree(inquiry));
  if (tooMany) return refused(tooMany);
  if (purpose === "quote") count(state, inquiry, caller.key.id, caller.key.team, fixed.rule, nowMs);
  return { ok: true, prices: fixed.prices, rates: ratesOf(state.levels(caller, nowMs), nowMs) };
}

function count(
  state: AccountState,
  inquiry: Inquiry,
  keyId: Parameters<AccountState["hold"]>[0]["keyId"],
  teamId: Parameters<AccountState["hold"]>[0]["teamId"],
  priceRule: string,
  nowMs: number,
): void {
  const { callId, endpoint, model, alias, startedAtMs } = inquiry;
  if (state.holds.find(callId)) return;
  state.hold({
    callId,
    keyId,
    teamId,
    endpoint,
    model,
    alias,
    amountNanoUsd: 0,
    countedTokens: 0,
    outputCap: undefined,
    prices: {},
    priceRule,
    startedAtMs,
    admittedAtMs: nowMs,
    expiresAtMs: nowMs + 60_000,
    rental: null,
  });
  const hold = state.holds.find(callId);
  if (!hold) return;
  state.end(hold, { state: "released", chargedNanoUsd: 0, countedTokens: 0, endedAtMs: nowMs, entryId: null });
}

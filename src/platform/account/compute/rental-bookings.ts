/**
 * Books what a step of a rental decided: holds, charges, corrections, losses, events. Runs in the transaction that
 * stores the resource's row, so that row and money cannot differ.
 */
import type { UsageEvent } from "../../../core/account/hold.ts";
import { gpuModel, modelOf } from "../../../core/compute/market.ts";
import type { Act } from "../../../core/compute/rental.ts";
import type { RentedRow } from "../../../core/compute/resource.ts";
import { type AccountNumber, asId, type CallId } from "../../../core/ids.ts";
import { log } from "../../log.ts";
import { eventOf } from "../call-events.ts";
import type { AccountState } from "../state.ts";
import { type HoldRow, NEVER_MS, type NewHold } from "../tables/holds.ts";
import type { PlacedInference } from "../tables/inference-rentals.ts";
import type { Placed } from "../tables/resources.ts";
import { tellRental } from "./resource-alerts.ts";

type Rented = Placed<RentedRow> | PlacedInference;

/** The id of a period's hold, entry, event and loss. */
const rentalCallId = (account: AccountNumber, resource: number, n: number): CallId =>
  asId<CallId>(`cmp-${account}-${resource}-${n}`);

/** The resource that an entry's call id names; undefined: it is no rental's. */
export function resourceIn(callId: CallId | null): number | undefined {
  const [, id] = /^cmp-\d+-(\d+)-\d+$/.exec(callId ?? "") ?? [];
  return id === undefined ? undefined : Number(id);
}

export function bookActs(state: AccountState, placed: Rented, acts: readonly Act[], nowMs: number): void {
  for (const act of acts) bookAct(state, placed, act, nowMs);
}

function bookAct(state: AccountState, placed: Rented, act: Act, nowMs: number): void {
  const { row, upstream } = placed;
  const { id: account, number } = state.tenants.account();
  if (act.act === "event") {
    const { act: _, event, ...rest } = act;
    log({ event, account, resource: row.id, upstream, ...rest });
    tellRental(state, row, upstream, act, nowMs);
    return;
  }
  const callId = rentalCallId(number, row.id, act.n);
  if (act.act === "hold") {
    state.holdRental(newHold(placed, callId, act.amountNanoUsd, nowMs));
    return;
  }
  const open = state.holds.find(callId);
  // An ended hold's row is pruned after an hour; what is booked of its period later needs its names only.
  const hold = open ?? newHold(placed, callId, 0, nowMs);
  switch (act.act) {
    case "resize":
      if (open) state.resizeRental(open, act.amountNanoUsd);
      return;
    case "release":
      if (open) release(state, open, upstream, nowMs);
      return;
    case "charge":
      if (open) charge(state, open, upstream, act, nowMs);
      return;
    case "correct":
      correct(state, hold, upstream, act, nowMs);
      return;
    case "loss": {
      const before = state.operatorBook.setLoss(callId, act.costNanoUsd, act.estimated, nowMs);
      const lossNanoUsd = act.costNanoUsd - before;
      if (lossNanoUsd === 0) return;
      const difference = {
        lossNanoUsd,
        costNanoUsd: lossNanoUsd,
        outcome: "completed",
        reason: "rental_loss",
      } as const;
      // A loss may be set twice in a millisecond: estimated, and then known.
      state.outbox.add({
        ...laterEvent(state, hold, upstream, `loss${nowMs}-${act.costNanoUsd}`, nowMs),
        ...difference,
      });
    }
  }
}

function newHold({ row, priceRule }: Rented, callId: CallId, amountNanoUsd: number, nowMs: number): NewHold {
  const { rate } = row.rental;
  return {
    callId,
    keyId: row.by.keyId,
    teamId: row.by.teamId,
    endpoint: `compute.${row.kind}`,
    model: row.kind === "inference" ? gpuModel(row.hourly.gpuType) : modelOf(row),
    alias: null,
    amountNanoUsd,
    countedTokens: 0,
    outputCap: undefined,
    prices: { [rate.unit]: rate.size === 0 ? 0 : rate.priceNanoUsd / rate.size },
    priceRule,
    startedAtMs: nowMs,
    admittedAtMs: nowMs,
    expiresAtMs: NEVER_MS,
    rental: row.id,
  };
}

type ChargeAct = Extract<Act, { act: "charge" }>;

function charge(state: AccountState, hold: HoldRow, upstream: string, act: ChargeAct, nowMs: number): void {
  const chargedNanoUsd = Math.min(act.amountNanoUsd, hold.amountNanoUsd);
  const entryId = state.charge(hold, chargedNanoUsd, nowMs);
  state.end(hold, { state: "settled", chargedNanoUsd, countedTokens: 0, endedAtMs: nowMs, entryId });
  state.outbox.add({
    ...eventOfPeriod(state, hold, upstream, nowMs, entryId),
    outcome: "completed",
    status: 200,
    source: "exact",
    usage: { [act.unit]: act.quantity },
    priceNanoUsd: chargedNanoUsd,
    costNanoUsd: act.costNanoUsd,
    startedAtMs: act.fromMs,
  });
}

function release(state: AccountState, hold: HoldRow, upstream: string, nowMs: number): void {
  state.end(hold, { state: "released", chargedNanoUsd: 0, countedTokens: 0, endedAtMs: nowMs, entryId: null });
  state.outbox.add({ ...eventOfPeriod(state, hold, upstream, nowMs), reason: "never_ran" });
}

type CorrectAct = Extract<Act, { act: "correct" }>;

function correct(state: AccountState, hold: NewHold, upstream: string, act: CorrectAct, nowMs: number): void {
  // It counts in the budget windows of the charge that it corrects.
  const countsAtMs = ("endedAtMs" in hold ? (hold as HoldRow).endedAtMs : null) ?? nowMs;
  const entryId = state.ledger.correct(hold, act.amountNanoUsd, nowMs, countsAtMs);
  state.spending.charged(hold, 0 - act.amountNanoUsd, countsAtMs, entryId);
  state.outbox.add({
    ...laterEvent(state, hold, upstream, `late${entryId}`, nowMs, entryId),
    outcome: "completed",
    status: 200,
    source: "exact",
    usage: { [act.unit]: 0 - act.quantity },
    priceNanoUsd: 0 - act.amountNanoUsd,
    costNanoUsd: 0 - act.costNanoUsd,
  });
}

/** A further event of a period: its quantities and money are differences to what was reported before. */
const laterEvent = (
  state: AccountState,
  hold: NewHold,
  upstream: string,
  name: string,
  nowMs: number,
  entry: number | null = null,
): UsageEvent => ({
  ...eventOfPeriod(state, hold, upstream, nowMs, entry),
  eventId: asId<CallId>(`${hold.callId}.${name}`),
  late: true,
});

const eventOfPeriod = (
  state: AccountState,
  hold: NewHold,
  upstream: string,
  endedAtMs: number,
  entry: number | null = null,
): UsageEvent => ({
  ...eventOf(state, hold, endedAtMs, { entry }),
  upstream,
});

/** Begins, turns and ends inference instances by the hour, each in one transaction with its money. */
import { budgetRefusal, budgetRoom } from "../../../core/account/budgets.ts";
import { creditRefusal, moneyRoom } from "../../../core/account/ledger.ts";
import type { HourlyBegin, HourlyBegun } from "../../../core/compute/calls.ts";
import {
  beginInference,
  endInference,
  inferenceDueMs,
  inferenceSetBack,
  isOver,
  isUnpaid,
  OPERATORS_KEY,
  sameHourly,
  storedInference,
  turnInference,
} from "../../../core/compute/inference.ts";
import type { Act } from "../../../core/compute/rental.ts";
import { tenantPrices } from "../../../core/pricing/prices.ts";
import type { Refusal } from "../../../core/refusal.ts";
import type { AccountState } from "../state.ts";
import type { PlacedInference } from "../tables/inference-rentals.ts";
import { LEASED_AGAIN_MS, unlessLeased } from "./leased-room.ts";
import { bookActs } from "./rental-bookings.ts";

const TURNS_AT_ONCE = 200;

const budgetsOf = (state: AccountState, nowMs: number) => state.budgets({ key: OPERATORS_KEY, team: null }, nowMs);

export function beginHourly(state: AccountState, asked: HourlyBegin, nowMs: number): HourlyBegun {
  const { instanceId, hourly, upstream, gpuRow } = asked;
  const account = state.tenants.account();
  if (account.deletedAtMs !== null) return { kind: "account_deleted" };
  turnInferenceDue(state, nowMs, TURNS_AT_ONCE);
  const known = state.inference.live().find(({ row }) => row.instanceId === instanceId);
  if (known) {
    if (!sameHourly(known.row.hourly, hourly)) return { kind: "other", hourly: known.row.hourly };
    if (asked.stored) storeInference(state, { ...known, row: storedInference(known.row) }, [], nowMs);
    return { kind: "begun", rental: known.row.id, anew: false };
  }
  const { prices, rule } = tenantPrices(gpuRow, account.plan, gpuRow.model);
  const priceNanoUsd = prices.gpu_hours ?? 0;
  if (priceNanoUsd === 0) return { kind: "unpriced" };
  const id = state.resources.nextId();
  const begun = { id, account: account.number, instanceId, hourly };
  const costNanoUsd = gpuRow.costNanoUsd.gpu_hours ?? 0;
  const { row, acts } = beginInference(begun, { priceNanoUsd, costNanoUsd }, nowMs, state.lengths);
  const neededNanoUsd = row.rental.heldNanoUsd ?? 0;
  const refusal =
    budgetRefusal(budgetsOf(state, nowMs), neededNanoUsd, nowMs) ?? creditRefusal(state.money(), neededNanoUsd);
  if (refusal) return { kind: "refused", refusal };
  storeInference(state, { upstream, priceRule: rule, row }, acts, nowMs);
  return { kind: "begun", rental: id, anew: true };
}

/** Ends it, or gives back what a beginning held that came to nothing. Repeats change nothing. */
export function endHourly(state: AccountState, rental: number, unused: boolean, nowMs: number): void {
  const placed = state.inference.find(rental);
  if (!placed || isOver(placed.row)) return;
  const row = storeInference(state, placed, [], nowMs);
  const ended = endInference(row, unused ? row.createdAtMs : nowMs, state.lengths);
  storeInference(state, { ...placed, row: ended.row }, ended.acts, nowMs);
}

/** Takes the turns that are due. */
export function turnInferenceDue(state: AccountState, nowMs: number, most: number): void {
  for (const placed of state.inference.due(nowMs, most)) storeInference(state, placed, [], nowMs);
}

/** The clock was set back: brings their money to it. */
export function setInferenceBack(state: AccountState, nowMs: number): void {
  for (const placed of state.inference.live()) {
    const { row, acts } = inferenceSetBack(placed.row, nowMs, state.lengths);
    storeInference(state, { ...placed, row }, acts, nowMs);
  }
}

/** Pays on those that are unpaid, as far as there is money again. */
export function turnUnpaidInference(state: AccountState, nowMs: number): void {
  for (const placed of state.inference.live()) if (isUnpaid(placed.row)) storeInference(state, placed, [], nowMs);
}

/** Why calls of these instances are not served: a day of one is unpaid. With money again it is paid from now on. */
export function unpaidRefusal(state: AccountState, instanceIds: readonly number[], nowMs: number): Refusal | undefined {
  if (instanceIds.length === 0) return undefined;
  const live = state.inference.live();
  const unpaid = instanceIds.some((instanceId) => {
    const placed = live.find(({ row }) => row.instanceId === instanceId);
    return !placed || (isUnpaid(placed.row) && isUnpaid(storeInference(state, placed, [], nowMs)));
  });
  return unpaid ? { kind: "instance_unpaid" } : undefined;
}

function storeInference(state: AccountState, placed: PlacedInference, acts: readonly Act[], nowMs: number) {
  bookActs(state, placed, acts, nowMs);
  const roomNanoUsd = Math.min(moneyRoom(state.money()), budgetRoom(budgetsOf(state, nowMs)));
  const facts = { ...state.lengths, roomNanoUsd, graceDays: null, mounted: false };
  const taken = unlessLeased(state, facts, nowMs, (its) => turnInference(placed.row, nowMs, its));
  const turn = taken ?? { row: placed.row, acts: [] };
  bookActs(state, { ...placed, row: turn.row }, turn.acts, nowMs);
  const dueMs = taken ? inferenceDueMs(turn.row, state.lengths) : nowMs + LEASED_AGAIN_MS;
  state.resources.put({ ...placed, row: turn.row }, !isOver(turn.row), dueMs);
  return turn.row;
}

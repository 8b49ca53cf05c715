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
import type { Books } from "../state.ts";
import type { PlacedInference } from "../tables/inference-rentals.ts";
import { bookActs } from "./rental-bookings.ts";

const TURNS_AT_ONCE = 200;

const budgetsOf = (books: Books, nowMs: number) => books.budgets({ key: OPERATORS_KEY, team: null }, nowMs);

export function beginHourly(books: Books, asked: HourlyBegin, nowMs: number): HourlyBegun {
  const { instanceId, hourly, upstream, gpuRow } = asked;
  const account = books.tenants.account();
  if (account.deletedAtMs !== null) return { kind: "account_deleted" };
  turnInferenceDue(books, nowMs, TURNS_AT_ONCE);
  const known = books.inference.live().find(({ row }) => row.instanceId === instanceId);
  if (known) {
    if (!sameHourly(known.row.hourly, hourly)) return { kind: "other", hourly: known.row.hourly };
    if (asked.stored) storeInference(books, { ...known, row: storedInference(known.row) }, [], nowMs);
    return { kind: "begun", rental: known.row.id, anew: false };
  }
  const { prices, rule } = tenantPrices(gpuRow, account.plan, gpuRow.model);
  const priceNanoUsd = prices.gpu_hours ?? 0;
  if (priceNanoUsd === 0) return { kind: "unpriced" };
  const id = books.resources.nextId();
  const begun = { id, account: account.number, instanceId, hourly };
  const costNanoUsd = gpuRow.costNanoUsd.gpu_hours ?? 0;
  const { row, acts } = beginInference(begun, { priceNanoUsd, costNanoUsd }, nowMs, books.lengths);
  const neededNanoUsd = row.rental.heldNanoUsd ?? 0;
  const refusal =
    budgetRefusal(budgetsOf(books, nowMs), neededNanoUsd, nowMs) ?? creditRefusal(books.money(), neededNanoUsd);
  if (refusal) return { kind: "refused", refusal };
  storeInference(books, { upstream, priceRule: rule, row }, acts, nowMs);
  return { kind: "begun", rental: id, anew: true };
}

/** Ends it, or gives back what a beginning held that came to nothing. Repeats change nothing. */
export function endHourly(books: Books, rental: number, unused: boolean, nowMs: number): void {
  const placed = books.inference.find(rental);
  if (!placed || isOver(placed.row)) return;
  const row = storeInference(books, placed, [], nowMs);
  const ended = endInference(row, unused ? row.createdAtMs : nowMs, books.lengths);
  storeInference(books, { ...placed, row: ended.row }, ended.acts, nowMs);
}

/** Takes the turns that are due. */
export function turnInferenceDue(books: Books, nowMs: number, most: number): void {
  for (const placed of books.inference.due(nowMs, most)) storeInference(books, placed, [], nowMs);
}

/** The clock was set back: brings their money to it. */
export function setInferenceBack(books: Books, nowMs: number): void {
  for (const placed of books.inference.live()) {
    const { row, acts } = inferenceSetBack(placed.row, nowMs, books.lengths);
    storeInference(books, { ...placed, row }, acts, nowMs);
  }
}

/** Pays on those that are unpaid, as far as there is money again. */
export function turnUnpaidInference(books: Books, nowMs: number): void {
  for (const placed of books.inference.live()) if (isUnpaid(placed.row)) storeInference(books, placed, [], nowMs);
}

/** Why calls of these instances are not served: a day of one is unpaid. With money again it is paid from now on. */
export function unpaidRefusal(books: Books, instanceIds: readonly number[], nowMs: number): Refusal | undefined {
  if (instanceIds.length === 0) return undefined;
  const live = books.inference.live();
  const unpaid = instanceIds.some((instanceId) => {
    const placed = live.find(({ row }) => row.instanceId === instanceId);
    return !placed || (isUnpaid(placed.row) && isUnpaid(storeInference(books, placed, [], nowMs)));
  });
  return unpaid ? { kind: "instance_unpaid" } : undefined;
}

function storeInference(books: Books, placed: PlacedInference, acts: readonly Act[], nowMs: number) {
  bookActs(books, placed, acts, nowMs);
  const roomNanoUsd = Math.min(moneyRoom(books.money()), budgetRoom(budgetsOf(books, nowMs)));
  const facts = { ...books.lengths, roomNanoUsd, graceDays: null, mounted: false };
  const turn = turnInference(placed.row, nowMs, facts);
  bookActs(books, { ...placed, row: turn.row }, turn.acts, nowMs);
  books.resources.put({ ...placed, row: turn.row }, !isOver(turn.row), inferenceDueMs(turn.row, books.lengths));
  return turn.row;
}

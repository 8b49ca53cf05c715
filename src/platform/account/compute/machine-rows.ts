/** Reads and stores instances and clusters: the row, its money and the time of its next turn, in one transaction. */
import { budgetRoom } from "../../../core/account/budgets.ts";
import { moneyRoom } from "../../../core/account/ledger.ts";
import type { Act, Lengths } from "../../../core/compute/rental.ts";
import { turnDueMs } from "../../../core/compute/rental-turn.ts";
import type { MachineRow } from "../../../core/compute/resource.ts";
import { next, turned } from "../../../core/compute/wants.ts";
import { earliest } from "../earliest.ts";
import type { Books } from "../state.ts";
import type { Placed } from "../tables/resources.ts";
import { bookActs } from "./rental-bookings.ts";

/** Turns taken in one go. */
const TURNS_AT_ONCE = 200;

/** Stores the row after a step, with what the step books, and takes the turn that follows. */
export function store(books: Books, placed: Placed, acts: readonly Act[], nowMs: number): MachineRow {
  bookActs(books, placed, acts, nowMs);
  const turn = turned(placed.row, nowMs, { ...books.lengths, ...turnFacts(books, placed.row, nowMs) });
  const after = { ...placed, row: turn.row };
  bookActs(books, after, turn.acts, nowMs);
  books.resources.put(after, isLive(turn.row), dueMs(turn.row, books.lengths, nowMs));
  return turn.row;
}

/** Takes the turns that are due. Called by the alarm and before money is read. */
export function turnDue(books: Books, nowMs: number): void {
  const dueMs = books.resources.nextDueMs();
  if (dueMs === null || nowMs < dueMs) return;
  for (const placed of books.resources.due(nowMs, TURNS_AT_ONCE)) store(books, placed, [], nowMs);
}

/** Room for one more hold: what money and the budgets of the launching key leave. */
function turnFacts(books: Books, row: MachineRow, nowMs: number) {
  const key = books.keys.key(row.by.keyId);
  const team = row.by.teamId === null ? null : (books.tenants.team(row.by.teamId) ?? null);
  const budgets = key ? books.budgets({ key, team }, nowMs) : [];
  const roomNanoUsd = Math.min(moneyRoom(books.money()), budgetRoom(budgets));
  return { roomNanoUsd, graceDays: null, mounted: false };
}

/** Whether anything can still happen to it: an end that is booked and not contradicted is final. */
const isLive = ({ seen, create, rental }: MachineRow): boolean =>
  create === "refused" ? false : seen.state !== "ended" || seen.haunts || rental.phase.at !== "ended";

/** When its money or its wants have something to do by themselves. */
function dueMs(row: MachineRow, lengths: Lengths, nowMs: number): number | null {
  const call = next(row, nowMs);
  const callMs = call.do === "send" ? nowMs : call.do === "wait" ? call.atMs : null;
  const { phase, hours } = row.rental;
  // From its end on a fixed run is watched closely.
  const endMs = hours !== null && phase.at === "running" && phase.paidUntilMs > nowMs ? phase.paidUntilMs : null;
  return earliest([turnDueMs(row.rental, { ...lengths, graceDays: null }), callMs, endMs]);
}

/** Reads and stores resources: the row, its money and the time of its next turn, in one transaction. */
import { budgetRoom } from "../../../core/account/budgets.ts";
import { moneyRoom } from "../../../core/account/ledger.ts";
import { rowSetBack } from "../../../core/compute/clock-back.ts";
import type { Act, Lengths, TurnFacts } from "../../../core/compute/rental.ts";
import { turn, turnDueMs } from "../../../core/compute/rental-turn.ts";
import {
  isLive,
  isMachine,
  isStorage,
  type MachineRow,
  type RentedRow,
  type ResourceRow,
  rentalOf,
  type StorageRow,
} from "../../../core/compute/resource.ts";
import {
  nextOf,
  rowInTransition,
  rowIsLive,
  rowListed,
  rowOverUnseen,
  rowSoughtUntilMs,
  rowTurned,
} from "../../../core/compute/rows.ts";
import { mountedBy } from "../../../core/compute/storage-life.ts";
import { isUnpaid } from "../../../core/compute/storage-rental.ts";
import { earliest } from "../earliest.ts";
import type { Books } from "../state.ts";
import type { Placed } from "../tables/resources.ts";
import { setInferenceBack, turnInferenceDue, turnUnpaidInference } from "./inference.ts";
import { bookActs } from "./rental-bookings.ts";
import { machineBefore, tellMachine } from "./resource-alerts.ts";

/** A turn of storage that could not go on is tried again after this. */
const BLOCKED_MS = 1_000;
/** The broker is told of a row in transition of which nothing was heard for so long, ms: its alarm is set for that. */
export const UNHEARD_MS = 120_000;
/** Turns taken in one go. */
const TURNS_AT_ONCE = 200;

/** Stores the row after a step, with what the step books, and takes the turn that follows. */
export function store(books: Books, placed: Placed, acts: readonly Act[], nowMs: number): ResourceRow {
  const { row } = placed;
  if (row.kind === "image" || row.kind === "ssh_key") {
    books.resources.put(placed, rowIsLive(row), callDueMs(row, nowMs));
    books.resources.pruneFree(nowMs);
    return row;
  }
  bookActs(books, { ...placed, row }, acts, nowMs);
  const facts = turnFacts(books, row, nowMs);
  const turn = rowTurned(row, nowMs, facts);
  const after = { ...placed, row: turn.row as RentedRow };
  bookActs(books, after, turn.acts, nowMs);
  const before = machineBefore(books, after.row);
  books.resources.put(after, rowIsLive(turn.row), dueMs(turn.row, facts, nowMs));
  if (isMachine(after.row)) tellMachine(books, before, after.row, nowMs);
  if (isMachine(after.row) && after.row.seen.state === "ended") turnUnmounted(books, after.row, nowMs);
  return turn.row;
}

/** Unpaid storage is suspended when what had it mounted is over. */
function turnUnmounted(books: Books, { launched }: MachineRow, nowMs: number): void {
  for (const { id } of [...launched.drives, ...launched.filesystems]) {
    const placed = books.resources.find(id);
    if (placed && isStorage(placed.row) && isUnpaid(placed.row.rental)) store(books, placed, [], nowMs);
  }
}

/** What a list shows of a row, as JSON (null: the list lacks it), and until when it was as it was told before. */
interface Listed {
  readonly document: string | null;
  readonly sameUntilMs: number | null;
}

/** The broker's clock may be ahead of ours: its times are now at the latest. */
export function storeListed(
  books: Books,
  placed: Placed,
  { document, sameUntilMs: saidMs }: Listed,
  listedAtMs: number,
  nowMs: number,
): ResourceRow {
  if (document === null && isMadeByLive(books, placed.row)) return placed.row;
  const askedAtMs = Math.min(listedAtMs, nowMs);
  const sameUntilMs = saidMs === null ? null : Math.min(saidMs, nowMs);
  const paid = document === null ? placed : withPaidHours(books, placed, document, askedAtMs, nowMs);
  const { row, acts } = rowListed(paid.row, document, sameUntilMs, askedAtMs, nowMs, books.lengths);
  return store(books, { ...paid, row }, acts, nowMs);
}

/** The storage of a launch that upstream made: while the machine lives, a list that lacks it proves nothing. */
function isMadeByLive(books: Books, row: ResourceRow): boolean {
  if (!isStorage(row) || row.launch === null || row.upstreamId !== null) return false;
  const machine = books.resources.find(row.launch)?.row;
  return machine !== undefined && isMachine(machine) && machine.create === "done" && isLive(machine);
}

/** A machine that is over when it is first seen: a turn as of its end pays for what its hold does not. */
export function withPaidHours(
  books: Books,
  placed: Placed,
  document: string,
  askedAtMs: number,
  nowMs: number,
): Placed {
  const over = rowOverUnseen(placed.row, document, askedAtMs, nowMs, books.lengths);
  if (!over) return placed;
  const step = turn(over.row.rental, over.atMs, turnFacts(books, over.row, nowMs));
  const row = { ...over.row, rental: step.rental };
  bookActs(books, { ...placed, row }, step.acts, nowMs);
  return { ...placed, row };
}

/** The clock was set back: brings every row to it, with its money. */
export function setRentalsBack(books: Books, nowMs: number): void {
  for (const placed of books.resources.watched()) {
    const { row, acts } = rowSetBack(placed.row, nowMs, books.lengths);
    store(books, { ...placed, row }, acts, nowMs);
  }
  setInferenceBack(books, nowMs);
}

/** Takes the turns that are due. Called by the alarm and before money is read. */
export function turnDue(books: Books, nowMs: number): void {
  const dueMs = books.resources.nextDueMs();
  if (dueMs === null || nowMs < dueMs) return;
  for (const placed of books.resources.due(nowMs, TURNS_AT_ONCE)) store(books, placed, [], nowMs);
  turnInferenceDue(books, nowMs, TURNS_AT_ONCE);
}

/** Money came in, or the account's terms changed: unpaid storage is paid, and its deletion is due at another time. */
export function turnUnpaid(books: Books, nowMs: number): void {
  for (const placed of books.resources.live()) {
    if (isStorage(placed.row) && isUnpaid(placed.row.rental)) store(books, placed, [], nowMs);
  }
  turnUnpaidInference(books, nowMs);
}

/** Room for one more hold. Money alone for storage; for a machine also the budgets of the launching key. */
function turnFacts(books: Books, row: RentedRow, nowMs: number): TurnFacts {
  const { lengths } = books;
  const room = moneyRoom(books.money());
  if (!isMachine(row)) {
    const graceDays = books.tenants.account().storageGraceDays;
    return { ...lengths, roomNanoUsd: room, graceDays, mounted: isMounted(books, row, nowMs) };
  }
  const key = books.keys.key(row.by.keyId);
  const team = row.by.teamId === null ? null : (books.tenants.team(row.by.teamId) ?? null);
  const budgets = key ? books.budgets({ key, team }, nowMs) : [];
  return { ...lengths, roomNanoUsd: Math.min(room, budgetRoom(budgets)), graceDays: null, mounted: false };
}

/** Asked only where it matters: for storage with unpaid days, or with one that begins now. */
function isMounted(books: Books, { id, rental }: StorageRow, nowMs: number): boolean {
  const dueMs = turnDueMs(rental, { ...books.lengths, graceDays: null });
  const matters = rental.unpaid.length > 0 || (dueMs !== null && nowMs >= dueMs);
  return matters && books.resources.live().some(({ row }) => isMachine(row) && mountedBy(row, id));
}

/** From its end on a fixed run is watched closely. */
function fixedEndMs({ rental: { phase, hours } }: MachineRow, nowMs: number): number | null {
  return hours !== null && phase.at === "running" && phase.paidUntilMs > nowMs ? phase.paidUntilMs : null;
}

function callDueMs(row: ResourceRow, nowMs: number): number | null {
  const call = nextOf(row, nowMs);
  return call.do === "send" ? nowMs : call.do === "wait" ? call.atMs : null;
}

/** When its money or its wants have something to do by themselves. */
function dueMs(row: ResourceRow, facts: Pick<TurnFacts, "graceDays" | keyof Lengths>, nowMs: number): number | null {
  const rental = rentalOf(row);
  const turnMs = rental && turnDueMs(rental, facts);
  // The turn was just taken: what is due all the same waits for something, as a deletion waits for an unmount.
  const laterMs = turnMs !== null && isStorage(row) ? Math.max(turnMs, nowMs + BLOCKED_MS) : turnMs;
  const unheardMs = rowInTransition(row, nowMs) ? nowMs + UNHEARD_MS : null;
  const soughtMs = rowSoughtUntilMs(row);
  return earliest([
    laterMs,
    callDueMs(row, nowMs),
    isMachine(row) ? fixedEndMs(row, nowMs) : null,
    unheardMs,
    soughtMs !== null && soughtMs > nowMs ? soughtMs : null,
  ]);
}

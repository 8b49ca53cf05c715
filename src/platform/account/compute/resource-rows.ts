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
import type { AccountState } from "../state.ts";
import type { Placed } from "../tables/resources.ts";
import { setInferenceBack, turnInferenceDue, turnUnpaidInference } from "./inference.ts";
import { LEASED_AGAIN_MS, unlessLeased } from "./leased-room.ts";
import { bookActs } from "./rental-bookings.ts";
import { machineBefore, tellMachine } from "./resource-alerts.ts";

/** A turn of storage that could not go on is tried again after this. */
const BLOCKED_MS = 1_000;
/** The broker is told of a row in transition of which nothing was heard for so long, ms: its alarm is set for that. */
export const UNHEARD_MS = 120_000;
/** Turns taken in one go. */
const TURNS_AT_ONCE = 200;

/** Stores the row after a step, with what the step books, and takes the turn that follows. */
export function store(state: AccountState, placed: Placed, acts: readonly Act[], nowMs: number): ResourceRow {
  const { row } = placed;
  if (row.kind === "image" || row.kind === "ssh_key") {
    state.resources.put(placed, rowIsLive(row), callDueMs(row, nowMs));
    state.resources.pruneFree(nowMs);
    return row;
  }
  bookActs(state, { ...placed, row }, acts, nowMs);
  const facts = turnFacts(state, row, nowMs);
  const taken = unlessLeased(state, facts, nowMs, (its) => rowTurned(row, nowMs, its));
  const turn = taken ?? { row, acts: [] };
  const after = { ...placed, row: turn.row as RentedRow };
  bookActs(state, after, turn.acts, nowMs);
  const before = machineBefore(state, after.row);
  const againMs = taken ? null : nowMs + LEASED_AGAIN_MS;
  state.resources.put(after, rowIsLive(turn.row), dueMs(turn.row, facts, nowMs, againMs));
  if (isMachine(after.row)) tellMachine(state, before, after.row, nowMs);
  if (isMachine(after.row) && after.row.seen.state === "ended") turnUnmounted(state, after.row, nowMs);
  return turn.row;
}

/** Unpaid storage is suspended when what had it mounted is over. */
function turnUnmounted(state: AccountState, { launched }: MachineRow, nowMs: number): void {
  for (const { id } of [...launched.drives, ...launched.filesystems]) {
    const placed = state.resources.find(id);
    if (placed && isStorage(placed.row) && isUnpaid(placed.row.rental)) store(state, placed, [], nowMs);
  }
}

/** What a list shows of a row, as JSON (null: the list lacks it), and until when it was as it was told before. */
interface Listed {
  readonly document: string | null;
  readonly sameUntilMs: number | null;
}

/** The broker's clock may be ahead of ours: its times are now at the latest. */
export function storeListed(
  state: AccountState,
  placed: Placed,
  { document, sameUntilMs: saidMs }: Listed,
  listedAtMs: number,
  nowMs: number,
): ResourceRow {
  if (document === null && isMadeByLive(state, placed.row)) return placed.row;
  const askedAtMs = Math.min(listedAtMs, nowMs);
  const sameUntilMs = saidMs === null ? null : Math.min(saidMs, nowMs);
  const paid = document === null ? placed : withPaidHours(state, placed, document, askedAtMs, nowMs);
  const { row, acts } = rowListed(paid.row, document, sameUntilMs, askedAtMs, nowMs, state.lengths);
  return store(state, { ...paid, row }, acts, nowMs);
}

/** The storage of a launch that upstream made: while the machine lives, a list that lacks it proves nothing. */
function isMadeByLive(state: AccountState, row: ResourceRow): boolean {
  if (!isStorage(row) || row.launch === null || row.upstreamId !== null) return false;
  const machine = state.resources.find(row.launch)?.row;
  return machine !== undefined && isMachine(machine) && machine.create === "done" && isLive(machine);
}

/** A machine that is over when it is first seen: a turn as of its end pays for what its hold does not. */
export function withPaidHours(
  state: AccountState,
  placed: Placed,
  document: string,
  askedAtMs: number,
  nowMs: number,
): Placed {
  const over = rowOverUnseen(placed.row, document, askedAtMs, nowMs, state.lengths);
  if (!over) return placed;
  const step = turn(over.row.rental, over.atMs, turnFacts(state, over.row, nowMs));
  const row = { ...over.row, rental: step.rental };
  bookActs(state, { ...placed, row }, step.acts, nowMs);
  return { ...placed, row };
}

/** The clock was set back: brings every row to it, with its money. */
export function setRentalsBack(state: AccountState, nowMs: number): void {
  for (const placed of state.resources.watched()) {
    const { row, acts } = rowSetBack(placed.row, nowMs, state.lengths);
    store(state, { ...placed, row }, acts, nowMs);
  }
  setInferenceBack(state, nowMs);
}

/** Takes the turns that are due. Called by the alarm and before money is read. */
export function turnDue(state: AccountState, nowMs: number): void {
  const dueMs = state.resources.nextDueMs();
  if (dueMs === null || nowMs < dueMs) return;
  for (const placed of state.resources.due(nowMs, TURNS_AT_ONCE)) store(state, placed, [], nowMs);
  turnInferenceDue(state, nowMs, TURNS_AT_ONCE);
}

/** Money came in, or the account's terms changed: unpaid storage is paid, and its deletion is due at another time. */
export function turnUnpaid(state: AccountState, nowMs: number): void {
  for (const placed of state.resources.live()) {
    if (isStorage(placed.row) && isUnpaid(placed.row.rental)) store(state, placed, [], nowMs);
  }
  turnUnpaidInference(state, nowMs);
}

/** Room for one more hold. Money alone for storage; for a machine also the budgets of the launching key. */
function turnFacts(state: AccountState, row: RentedRow, nowMs: number): TurnFacts {
  const { lengths } = state;
  const room = moneyRoom(state.money());
  if (!isMachine(row)) {
    const graceDays = state.tenants.account().storageGraceDays;
    return { ...lengths, roomNanoUsd: room, graceDays, mounted: isMounted(state, row, nowMs) };
  }
  const key = state.keys.key(row.by.keyId);
  const team = row.by.teamId === null ? null : (state.tenants.team(row.by.teamId) ?? null);
  const budgets = key ? state.budgets({ key, team }, nowMs) : [];
  return { ...lengths, roomNanoUsd: Math.min(room, budgetRoom(budgets)), graceDays: null, mounted: false };
}

/** Asked only where it matters: for storage with unpaid days, or with one that begins now. */
function isMounted(state: AccountState, { id, rental }: StorageRow, nowMs: number): boolean {
  const dueMs = turnDueMs(rental, { ...state.lengths, graceDays: null });
  const matters = rental.unpaid.length > 0 || (dueMs !== null && nowMs >= dueMs);
  return matters && state.resources.live().some(({ row }) => isMachine(row) && mountedBy(row, id));
}

/** From its end on a fixed run is watched closely. */
function fixedEndMs({ rental: { phase, hours } }: MachineRow, nowMs: number): number | null {
  return hours !== null && phase.at === "running" && phase.paidUntilMs > nowMs ? phase.paidUntilMs : null;
}

function callDueMs(row: ResourceRow, nowMs: number): number | null {
  const call = nextOf(row, nowMs);
  return call.do === "send" ? nowMs : call.do === "wait" ? call.atMs : null;
}

/** When its money or its wants have something to do by themselves. `againMs`: set if its turn waits until then. */
function dueMs(
  row: ResourceRow,
  facts: Pick<TurnFacts, "graceDays" | keyof Lengths>,
  nowMs: number,
  againMs: number | null,
): number | null {
  const rental = rentalOf(row);
  const turnMs = againMs ?? (rental && turnDueMs(rental, facts));
  // The turn was just taken: what is due all the same waits for something, as a deletion waits for an unmount.
  const laterMs = turnMs !== null && againMs === null && isStorage(row) ? Math.max(turnMs, nowMs + BLOCKED_MS) : turnMs;
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

/**
 * The life of a drive or filesystem: what to send upstream, what the answer means, and what lists show.
 *
 * Upstream has no read by id for storage. A list shows what became of it: available, deleting, deleted or lost. Absence
 * from a list proves nothing once it was seen; a repeated delete that is answered 404 twice, a minute apart, proves the
 * end.
 */
import type { Observed, Shown } from "./observe.ts";
import { CREATE_PROOF_MS, GONE_PROOF_MS, LISTS_FOR_PROOF } from "./observe.ts";
import type { ComputeRefusal } from "./refusals.ts";
import type { Act, EndReason, Lengths, TurnFacts } from "./rental.ts";
import { isLive, type MachineRow, type Missing, type StorageRow, type StorageSeen } from "./resource.ts";
import {
  askStorageEnd,
  beginStorage,
  closeStorage,
  createdUpstream,
  isUnpaid,
  type Kept,
  lossBeyond,
  turnStorage,
} from "./storage-rental.ts";
import { type Answered, type CallOutcome, type Next, type RowCall, refusalOf, retryDelayMs } from "./wants.ts";

/** A drive or filesystem as upstream shows it, parsed (upstream-documents.ts). */
export interface StorageDocument {
  readonly upstreamId: number;
  readonly tag: string;
  readonly state: "pending" | "available" | "deleting" | "deleted" | "lost";
  readonly createdAtMs: number | null;
  /** When it last changed its state; of one that is being deleted: when the delete came. */
  readonly updatedAtMs: number | null;
}

export const NO_STORAGE_SEEN: StorageSeen = {
  state: "none",
  sinceMs: null,
  lost: false,
  endedAtMs: null,
  askedAtMs: 0,
  missing: null,
  haunts: false,
};

/**
 * What was lost or deleted upstream unasked, and comes back, may hold a tenant's data: the operator decides about it.
 */
const isUnwanted = ({ wants, create }: StorageRow): boolean => wants.end !== null || create === "lost";

export function nextOfStorage(row: StorageRow, nowMs: number): Next {
  const { upstreamId, seen, sending } = row;
  if (upstreamId === null || !isUnwanted(row)) return { do: "none" };
  if (seen.state === "ended" && !seen.haunts) return { do: "none" };
  if (sending === null) return { do: "send", call: { verb: "stop" } };
  // While upstream shows it being deleted, repeat only once a minute.
  const atMs = sending.lastMs + (seen.state === "deleting" ? 60_000 : retryDelayMs(sending.tries));
  return nowMs >= atMs ? { do: "send", call: { verb: "stop" } } : { do: "wait", atMs };
}

/** The row to store before `call` is sent. */
export function storageSent(row: StorageRow, { verb }: RowCall, nowMs: number): StorageRow {
  if (verb !== "stop") return row;
  return { ...row, sending: { tries: (row.sending?.tries ?? 0) + 1, lastMs: nowMs }, changedAtMs: nowMs };
}

/** Wants it deleted. The first reason stays. Days that begin after `nowMs` are not charged. */
export function wantStorageEnd(row: StorageRow, reason: EndReason, nowMs: number): StorageRow {
  if ((row.seen.state === "ended" && !row.seen.haunts) || row.wants.end !== null) return row;
  const { rental } = askStorageEnd(row.rental, nowMs);
  return { ...row, rental, wants: { end: { reason, askedMs: nowMs } }, sending: null, changedAtMs: nowMs };
}

/** Runs the turn of its rental. After the grace the row wants its end. */
export function turnedStorage(row: StorageRow, nowMs: number, facts: TurnFacts): Observed<StorageRow> {
  const step = turnStorage(row.rental, nowMs, facts);
  const after = { ...row, rental: step.rental };
  if (step.stop === null || row.wants.end !== null || row.seen.state === "ended")
    return { row: after, acts: step.acts };
  return { row: { ...after, wants: { end: { reason: step.stop, askedMs: nowMs } }, sending: null }, acts: step.acts };
}

const told = (row: StorageRow, acts: readonly Act[] = [], refusal: ComputeRefusal | null = null) => ({
  row,
  acts,
  refusal,
});

/** Applies the outcome of a create or delete that was sent at `sentMs`. */
export function storageAnswered(
  row: StorageRow,
  call: RowCall,
  outcome: CallOutcome<StorageDocument>,
  sentMs: number,
  nowMs: number,
  lengths: Lengths,
): Answered<StorageRow> {
  if (call.verb === "stop") {
    if (outcome.kind === "not_found") return deleteNotFound(row, sentMs, nowMs, lengths);
    if (outcome.kind !== "done" || !outcome.document) return told(row);
    const shown = { kind: "found", document: outcome.document, sameUntilMs: null } as const;
    return { ...storageObserved(row, shown, sentMs, nowMs, lengths), refusal: null };
  }
  if (row.create !== "unknown" || outcome.kind === "unknown" || outcome.kind === "not_found") return told(row);
  if (outcome.kind === "done") {
    // Another's object tells nothing of ours: it is found by its tag.
    if (outcome.document?.tag !== row.tag) return told(row);
    const shown = { kind: "found", document: outcome.document, sameUntilMs: null } as const;
    const seen = storageObserved(row, shown, Math.max(row.changedAtMs, row.seen.askedAtMs), nowMs, lengths);
    return { ...seen, refusal: null };
  }
  const back = takeBackStorage(row, nowMs, lengths);
  return told(back.row, back.acts, refusalOf(outcome));
}

/** Nothing was created: releases the hold of day 1. Tenants never see the row. */
export function takeBackStorage(row: StorageRow, nowMs: number, lengths: Lengths): Observed<StorageRow> {
  if (row.create !== "unknown") return { row, acts: [] };
  const closed = closeStorage(row.rental, nowMs, null, lengths);
  const after = ended({ ...row, create: "refused", rental: closed.rental, hiddenAtMs: nowMs }, true, nowMs);
  return { row: after, acts: closed.acts };
}

/** `askedAtMs`: when the list or the delete was sent. */
export function storageObserved(
  row: StorageRow,
  shown: Shown<StorageDocument>,
  askedAtMs: number,
  nowMs: number,
  lengths: Lengths,
): Observed<StorageRow> {
  if (askedAtMs < row.changedAtMs || askedAtMs < row.seen.askedAtMs) return { row, acts: [] };
  if (shown.kind === "absent") return absent(row, askedAtMs, nowMs, lengths);
  if (shown.kind !== "found") return { row: { ...row, seen: { ...row.seen, askedAtMs } }, acts: [] };
  const { document } = shown;
  // Another one with our tag: our own came first and stays.
  if (row.upstreamId !== null && row.upstreamId !== document.upstreamId) return { row, acts: [] };
  const adopted = row.upstreamId === null ? adopt(row, document, nowMs) : row;
  if (row.seen.state === "ended") return haunted(adopted, document, row.upstreamId === null, askedAtMs, nowMs, lengths);
  const known: StorageRow = { ...adopted, create: "done" };
  const { state } = document;
  if (state === "deleted" || state === "lost") {
    const kept: Kept = { untilMs: goneMs(row, document, askedAtMs, nowMs), estimated: false };
    return close(known, state === "lost", kept, askedAtMs, nowMs, lengths);
  }
  const deletedMs = state === "deleting" ? goneMs(row, document, askedAtMs, nowMs) : askedAtMs;
  const sinceMs = state === row.seen.state ? row.seen.sinceMs : deletedMs;
  const seen: StorageSeen = { ...row.seen, state, sinceMs, askedAtMs, missing: null };
  const begun = state === "pending" ? { rental: known.rental, acts: [] } : beginStorage(known.rental, lengths);
  return { row: { ...known, seen, rental: begun.rental }, acts: begun.acts };
}

/** Takes upstream's id and its time of creation, which lies between our call and now. */
function adopt(row: StorageRow, { upstreamId, createdAtMs }: StorageDocument, nowMs: number): StorageRow {
  const atMs = Math.max(row.createdAtMs, Math.min(createdAtMs ?? row.createdAtMs, nowMs));
  return { ...row, upstreamId, rental: createdUpstream(row.rental, atMs) };
}

/**
 * When upstream took the delete, or lost it: no day that begins later is billed there. At the latest, where it was not
 * seen being deleted: then upstream shows when it was over, and we know when we last asked.
 */
function goneMs(row: StorageRow, { state, updatedAtMs }: StorageDocument, askedAtMs: number, nowMs: number): number {
  const { seen, wants, sending } = row;
  if (seen.state === "deleting" && seen.sinceMs !== null) return seen.sinceMs;
  const sentMs = state === "deleted" && sending ? sending.lastMs : nowMs;
  return Math.max(wants.end?.askedMs ?? row.createdAtMs, Math.min(updatedAtMs ?? askedAtMs, sentMs, nowMs));
}

function close(row: StorageRow, lost: boolean, kept: Kept, askedAtMs: number, nowMs: number, lengths: Lengths) {
  // A deleted one existed, so its first day is charged even if no list showed it available.
  const begun = lost ? { rental: row.rental, acts: [] } : beginStorage(row.rental, lengths);
  const closed = closeStorage(begun.rental, row.wants.end?.askedMs ?? nowMs, kept, lengths);
  const after = ended({ ...row, rental: closed.rental, seen: { ...row.seen, askedAtMs } }, lost, nowMs);
  return { row: after, acts: [...begun.acts, ...closed.acts] };
}

function ended(row: StorageRow, lost: boolean, nowMs: number): StorageRow {
  return { ...row, sending: null, seen: { ...row.seen, state: "ended", lost, endedAtMs: nowMs, missing: null } };
}

function absent(row: StorageRow, askedAtMs: number, nowMs: number, lengths: Lengths): Observed<StorageRow> {
  const { seen } = row;
  if (seen.state === "ended" || row.upstreamId !== null) return { row, acts: [] };
  if (row.create !== "unknown" || askedAtMs < row.createdAtMs + CREATE_PROOF_MS) return { row, acts: [] };
  const before: Missing = seen.missing ?? { lists: 0, notFoundMs: null };
  // The same list counts once.
  const lists = askedAtMs > seen.askedAtMs ? before.lists + 1 : before.lists;
  const counted: StorageRow = { ...row, seen: { ...seen, askedAtMs, missing: { ...before, lists } } };
  if (lists < LISTS_FOR_PROOF) return { row: counted, acts: [] };
  const closed = closeStorage(row.rental, nowMs, null, lengths);
  return { row: ended({ ...counted, create: "lost", rental: closed.rental }, true, nowMs), acts: closed.acts };
}

/** Two 404s on the delete, a minute apart, prove that it is gone. */
function deleteNotFound(row: StorageRow, sentMs: number, nowMs: number, lengths: Lengths): Answered<StorageRow> {
  const { seen } = row;
  if (seen.state === "ended") return told({ ...row, sending: null, seen: { ...seen, haunts: false } });
  const firstMs = seen.missing?.notFoundMs ?? sentMs;
  const missing: Missing = { lists: seen.missing?.lists ?? 0, notFoundMs: firstMs };
  const waiting: StorageRow = { ...row, seen: { ...seen, missing } };
  if (sentMs < firstMs + GONE_PROOF_MS) return told(waiting);
  const kept: Kept =
    seen.state === "deleting" && seen.sinceMs !== null
      ? { untilMs: seen.sinceMs, estimated: false }
      : { untilMs: firstMs, estimated: true };
  const gone = close(waiting, false, kept, sentMs, nowMs, lengths);
  return told(gone.row, gone.acts);
}

/** An ended row is seen again. If it still exists, it is deleted, and its days are the operator's loss. */
function haunted(
  row: StorageRow,
  document: StorageDocument,
  isNew: boolean,
  askedAtMs: number,
  nowMs: number,
  { dayMs }: Lengths,
): Observed<StorageRow> {
  const { seen, rental } = row;
  const haunts = document.state === "pending" || document.state === "available";
  const after: StorageRow = { ...row, seen: { ...seen, askedAtMs, haunts } };
  if (haunts === seen.haunts && !isNew) return { row: haunts ? after : { ...after, sending: null }, acts: [] };
  if (!haunts) {
    const kept: Kept = { untilMs: goneMs(row, document, askedAtMs, nowMs), estimated: false };
    return { row: { ...after, sending: null }, acts: lossBeyond(rental, kept, dayMs) };
  }
  const acts: Act[] = [
    { act: "event", event: row.create === "done" ? "ended_runs" : "late_orphan" },
    ...lossBeyond(rental, { untilMs: nowMs, estimated: true }, dayMs),
  ];
  return { row: { ...after, sending: null }, acts };
}

/** The contract's statuses. */
export type StorageStatus = "pending" | "available" | "in_use" | "suspended" | "deleting" | "deleted" | "lost";

export function storageStatus({ seen, wants, rental }: StorageRow, mounted: boolean): StorageStatus {
  if (seen.state === "ended") return seen.lost ? "lost" : "deleted";
  if (wants.end !== null || seen.state === "deleting") return "deleting";
  if (seen.state !== "available") return "pending";
  if (mounted) return "in_use";
  return isUnpaid(rental) ? "suspended" : "available";
}

const MOUNTED: ReadonlySet<MachineRow["seen"]["state"]> = new Set(["running", "degraded", "stopping"]);

/** Whether the machine runs with it mounted. */
export const mountedBy = (machine: MachineRow, id: number): boolean =>
  MOUNTED.has(machine.seen.state) && attaches(machine, id);

/** Whether the machine has it attached: from its launch until its end is seen. */
export const attachedTo = (machine: MachineRow, id: number): boolean => isLive(machine) && attaches(machine, id);

const attaches = ({ launched }: MachineRow, id: number): boolean =>
  [...launched.drives, ...launched.filesystems].some((one) => one.id === id);

/** Whether to check upstream every 5 s for this row, instead of every 60 s. */
export function storageInTransition(row: StorageRow): boolean {
  const { seen, wants, create } = row;
  if (create === "refused") return false;
  if (seen.state === "ended") return seen.haunts && isUnwanted(row);
  return seen.state !== "available" || wants.end !== null;
}

/** Whether anything can still happen to it: unpaid days of an ended one are retried or become a loss. */
export const storageIsLive = ({ seen, create, rental }: StorageRow): boolean =>
  create !== "refused" && (seen.state !== "ended" || seen.haunts || rental.unpaid.length > 0);

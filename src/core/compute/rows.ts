/**
 * What the account object does with a row of any kind, whatever the kind's own rules: the next call, its answer, what a
 * list shows, its turn. The files of each kind decide.
 */
import type { ControlAnswer } from "./control.ts";
import type { AnyCall } from "./facts.ts";
import {
  imageAnswered,
  imageInTransition,
  imageObserved,
  imageSent,
  isImageCall,
  isLocal,
  nextOfImage,
} from "./image-life.ts";
import { inTransition, type Observed, observed, overUnseen, type Shown } from "./observe.ts";
import type { Lengths, TurnFacts } from "./rental.ts";
import { isMachine, isStorage, type RentedRow, type ResourceRow } from "./resource.ts";
import {
  nextOfStorage,
  storageAnswered,
  storageInTransition,
  storageIsLive,
  storageObserved,
  storageSent,
  turnedStorage,
} from "./storage-life.ts";
import { readMachine, readStorage } from "./upstream-documents.ts";
import { readImage } from "./upstream-images.ts";
import { scrubbed } from "./upstream-text.ts";
import { type Answered, answered, type Next, next, outcomeOf, type RowCall, sent, turned } from "./wants.ts";

/** The one call that moves the row towards what it wants. */
export function nextOf(row: ResourceRow, nowMs: number): Next<AnyCall> {
  if (isMachine(row)) return next(row, nowMs);
  if (isStorage(row)) return nextOfStorage(row, nowMs);
  return row.kind === "image" ? nextOfImage(row, nowMs) : { do: "none" };
}

/** The row to store before `call` is sent. */
export function rowSent(row: ResourceRow, call: AnyCall, nowMs: number): ResourceRow {
  if (isImageCall(call)) return row.kind === "image" ? imageSent(row, call, nowMs) : row;
  if (isMachine(row)) return sent(row, call, nowMs);
  return isStorage(row) ? storageSent(row, call, nowMs) : row;
}

/** `follow`: a call to send at once; whoever waits for the answer waits for it too. */
export type RowAnswered = Answered<ResourceRow> & { readonly follow?: AnyCall | null };

/** Applies the broker's answer to `call`, which was sent at `sentMs`. */
export function rowAnswered(
  row: ResourceRow,
  call: AnyCall,
  answer: ControlAnswer,
  nowMs: number,
  lengths: Lengths,
): RowAnswered {
  if (isImageCall(call)) {
    return row.kind === "image"
      ? { acts: [], ...imageAnswered(row, call, answer, nowMs) }
      : { row, acts: [], refusal: null };
  }
  if (row.kind === "image" || row.kind === "ssh_key") return { row, acts: [], refusal: null };
  const after = rentedAnswered(row, call, answer, nowMs, lengths);
  const { refusal } = after;
  if (refusal?.kind !== "upstream_refused") return after;
  return { ...after, refusal: { ...refusal, text: scrubbed(refusal.text, row) } };
}

function rentedAnswered(
  row: RentedRow,
  call: RowCall,
  answer: ControlAnswer,
  nowMs: number,
  lengths: Lengths,
): Answered<RentedRow> {
  // The broker's clock may be ahead of ours.
  const sentMs = answer.kind === "not_sent" ? nowMs : Math.min(answer.sentAtMs, nowMs);
  if (isMachine(row)) {
    const outcome = outcomeOf(call.verb, answer, (body) => readMachine(body) ?? null);
    return answered(row, call, outcome, sentMs, nowMs, lengths);
  }
  const outcome = outcomeOf(call.verb, answer, (body) => readStorage(body) ?? null);
  return storageAnswered(row, call, outcome, sentMs, nowMs, lengths);
}

/** Applies what a list shows of the row. `document`: as the broker gave it; null: the list lacks it. */
export function rowListed(
  row: ResourceRow,
  document: string | null,
  sameUntilMs: number | null,
  askedAtMs: number,
  nowMs: number,
  lengths: Lengths,
): Observed<ResourceRow> {
  if (isMachine(row)) {
    const shown = shownBy(document, sameUntilMs, readMachine);
    return shown ? observed(row, shown, askedAtMs, nowMs, lengths) : { row, acts: [] };
  }
  if (isStorage(row)) {
    const shown = shownBy(document, sameUntilMs, readStorage);
    return shown ? storageObserved(row, shown, askedAtMs, nowMs, lengths) : { row, acts: [] };
  }
  if (row.kind === "image") {
    const shown = document === null ? null : readImage(document);
    return { row: shown === undefined ? row : imageObserved(row, shown, askedAtMs, nowMs), acts: [] };
  }
  return { row, acts: [] };
}

/** See `overUnseen`; undefined for what is no machine. */
export function rowOverUnseen(
  row: ResourceRow,
  document: string,
  askedAtMs: number,
  nowMs: number,
  lengths: Lengths,
): ReturnType<typeof overUnseen> {
  const shown = isMachine(row) ? shownBy(document, null, readMachine) : undefined;
  return shown && isMachine(row) ? overUnseen(row, shown, askedAtMs, nowMs, lengths) : undefined;
}

/** Undefined for a document that cannot be read. */
function shownBy<Document>(
  text: string | null,
  sameUntilMs: number | null,
  read: (body: string) => Document | undefined,
): Shown<Document> | undefined {
  if (text === null) return { kind: "absent", sameUntilMs };
  const document = read(text);
  return document && { kind: "found", document, sameUntilMs };
}

/** Runs the turn of the row's money, if it has any. */
export function rowTurned(row: ResourceRow, nowMs: number, facts: TurnFacts): Observed<ResourceRow> {
  if (isMachine(row)) return turned(row, nowMs, facts);
  return isStorage(row) ? turnedStorage(row, nowMs, facts) : { row, acts: [] };
}

/** Whether anything can still happen to it: an end that is booked and not contradicted is final. */
export function rowIsLive(row: ResourceRow): boolean {
  if (isMachine(row)) {
    const { seen, create, rental } = row;
    return create !== "refused" && (seen.state !== "ended" || seen.haunts || rental.phase.at !== "ended");
  }
  if (isStorage(row)) return storageIsLive(row);
  return row.kind === "image" ? !row.gone : row.deletedAtMs === null;
}

/** What was given up may be late: lists are read on for so long, ms. */
const SOUGHT_MS = 24 * 3_600_000;
/** An end may have been shown by mistake: lists are read on for so long, ms. */
const DOUBTED_MS = 3_600_000;

/** Until when what was given up, or has ended, is looked for all the same; null: it is not. */
export function rowSoughtUntilMs(row: ResourceRow): number | null {
  if (!(isMachine(row) || isStorage(row)) || row.create === "refused" || row.seen.state !== "ended") return null;
  const wasNeverSeen = row.create === "lost" && row.upstreamId === null;
  return (row.seen.endedAtMs ?? row.createdAtMs) + (wasNeverSeen ? SOUGHT_MS : DOUBTED_MS);
}

/** Whether tenants see it. A list leaves out hidden ones too. */
export function rowIsShown(row: ResourceRow): boolean {
  if (row.kind === "image" || row.kind === "ssh_key") return row.create === "done" && row.deletedAtMs === null;
  return row.create !== "refused";
}

/** Whether the broker lists its kind every 5 s. */
export function rowInTransition(row: ResourceRow, nowMs: number): boolean {
  if (isMachine(row)) return inTransition(row, nowMs);
  if (isStorage(row)) return storageInTransition(row);
  return row.kind === "image" && imageInTransition(row);
}

/** Whether the broker is to list its kind at all: an SSH key, and an image on a shared seat, are in our rows only. */
export const rowIsWatched = (row: ResourceRow): boolean =>
  row.kind !== "ssh_key" && (row.kind !== "image" || !isLocal(row));

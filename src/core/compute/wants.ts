/**
 * Decides what to send upstream so that a row reaches its wanted state, and what the answer means.
 *
 * `next` gives one call at a time. The caller stores `sent(row, call)` before sending, and passes the outcome to
 * `answered`. Stops, scales and PATCHes name an end state, so they are repeated. An extend is sent at most twice, the
 * second time only if upstream's end did not move. A create is never repeated, so no row asks for one.
 */
import { changeDone, changeNotDone } from "./change-answers.ts";
import type { ControlAnswer } from "./control.ts";
import { askEnd } from "./machine-books.ts";
import { EXTEND_PROOF_MS, type MachineDocument, MOST_EXTENDS, type Observed, observed } from "./observe.ts";
import type { ComputeRefusal } from "./refusals.ts";
import type { Act, EndReason, Lengths, TurnFacts } from "./rental.ts";
import { turn } from "./rental-turn.ts";
import type { MachineRow, Sending, Setup } from "./resource.ts";

/** A control call for a row. The broker knows route and body by the row's kind. `read`: GET by id. */
export type RowCall =
  | { readonly verb: "create" | "stop" | "read" }
  | { readonly verb: "extend"; readonly hours: number }
  | { readonly verb: "scale"; readonly replicas: number }
  | { readonly verb: "patch"; readonly setup: Setup };

/** `wait`: nothing to send before `atMs`. `none`: nothing to send until something happens. */
export type Next<Call = RowCall> =
  | { readonly do: "send"; readonly call: Call }
  | { readonly do: "wait"; readonly atMs: number }
  | { readonly do: "none" };

const NONE: Next = { do: "none" };
const LONGEST_WAIT_MS = 60_000;
const READ_AGAIN_MS = 60_000;
/** A read without an answer is repeated after this long. */
const UNREAD_MS = 5_000;

/** Waits between tries: 1 s, doubling to 60 s. */
export const retryDelayMs = (tries: number): number => Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** Math.min(tries - 1, 6));

/** The one call that moves the seen state towards the wanted one. A stop comes first. */
export function next(row: MachineRow, nowMs: number): Next {
  if (row.upstreamId === null) return NONE;
  const { seen, wants, rental } = row;
  if (seen.state === "ended") return seen.haunts ? repeated(row, { verb: "stop" }, nowMs) : NONE;
  if (seen.missing !== null) return readAgain(row, nowMs);
  if (wants.end) return repeated(row, { verb: "stop" }, nowMs);
  if (wants.rebuild && wants.rebuild.answeredMs === null) {
    return repeated(row, { verb: "patch", setup: wants.setup }, nowMs);
  }
  if (seen.hours !== null && rental.hours !== null && rental.hours > seen.hours) {
    return extending(row, rental.hours - seen.hours, nowMs);
  }
  if (seen.replicas !== null && seen.replicas !== wants.replicas) {
    return repeated(row, { verb: "scale", replicas: wants.replicas }, nowMs);
  }
  return NONE;
}

function repeated(row: MachineRow, call: RowCall, nowMs: number): Next {
  const { sending } = row;
  if (sending?.verb !== call.verb) return { do: "send", call };
  // While upstream shows the stop in progress, repeat it only once a minute.
  const delayMs = call.verb === "stop" && row.seen.state === "stopping" ? LONGEST_WAIT_MS : retryDelayMs(sending.tries);
  const atMs = sending.lastMs + delayMs;
  return nowMs >= atMs ? { do: "send", call } : { do: "wait", atMs };
}

function extending(row: MachineRow, hours: number, nowMs: number): Next {
  const { sending, seen } = row;
  if (sending?.verb !== "extend") return { do: "send", call: { verb: "extend", hours } };
  if (sending.tries >= MOST_EXTENDS) return NONE;
  const atMs = sending.lastMs + EXTEND_PROOF_MS;
  // Only a document requested after the wait proves that nothing moved.
  if (nowMs < atMs) return { do: "wait", atMs };
  if (seen.askedAtMs < atMs) return NONE;
  return { do: "send", call: { verb: "extend", hours } };
}

/**
 * A list lacks it, so read it by id, at most once a minute: lists may go on lying about what a read has just shown.
 * After the first 404 the second read follows a minute later.
 */
function readAgain({ seen }: MachineRow, nowMs: number): Next {
  const { notFoundMs: firstMs = null, triedMs = 0 } = seen.missing ?? {};
  const dueMs =
    firstMs === null
      ? Math.max(seen.askedAtMs, (seen.lastRunningMs ?? 0) + READ_AGAIN_MS)
      : Math.max(firstMs + READ_AGAIN_MS, seen.askedAtMs + 1_000);
  const atMs = Math.max(dueMs, triedMs + UNREAD_MS);
  return nowMs >= atMs ? { do: "send", call: { verb: "read" } } : { do: "wait", atMs };
}

/** The row to store before `call` is sent. `former`: what to restore if upstream certainly does not execute it. */
export function sent(row: MachineRow, call: RowCall, nowMs: number, former = formerOf(row)): MachineRow {
  if (call.verb === "create") return row;
  if (call.verb === "read") {
    const missing = row.seen.missing && { ...row.seen.missing, triedMs: nowMs };
    return { ...row, seen: { ...row.seen, missing } };
  }
  const again = row.sending?.verb === call.verb ? row.sending : null;
  const sending: Sending = {
    verb: call.verb,
    tries: (again?.tries ?? 0) + 1,
    lastMs: nowMs,
    former: again?.former ?? former,
  };
  return { ...row, sending, changedAtMs: nowMs };
}

/** What a row wants now, kept before a rule changes it. */
export const formerOf = ({ wants, rental }: MachineRow): Sending["former"] => ({
  replicas: wants.replicas,
  setup: wants.setup,
  hours: rental.hours,
});

/**
 * The outcome of a call. `done`: 2xx, with the object if the answer had one. `refused`: upstream refused; `text` is
 * free of its names and ids. `not_executed`: refused connection, 503, 429. `unknown`: other 5xx, reset, 20 s of
 * silence. `not_found`: 404 on a row's id.
 */
export type CallOutcome<Document = MachineDocument> =
  | { readonly kind: "done"; readonly document: Document | null }
  | { readonly kind: "refused"; readonly status: 400 | 409; readonly text: string }
  /** 401, 402, 403 and, on a create, 404: the operator's account is at fault. */
  | { readonly kind: "operator_fault"; readonly status: number }
  /** `sameUntilMs`: as the broker's. */
  | { readonly kind: "not_found"; readonly sameUntilMs?: number | null }
  | { readonly kind: "not_executed"; readonly retryAfterMs: number | null }
  | { readonly kind: "unknown" };

/** Reads the outcome from the broker's answer. `read`: parses the object in the body of a 2xx; null if it has none. */
export function outcomeOf<Document>(
  verb: RowCall["verb"],
  answer: ControlAnswer,
  read: (body: string) => Document | null,
): CallOutcome<Document> {
  if (answer.kind === "unknown") return { kind: "unknown" };
  if (answer.kind === "not_sent") return { kind: "not_executed", retryAfterMs: answer.retryAfterMs };
  const { status, body } = answer;
  if (status >= 200 && status < 300) {
    const document = read(body);
    // A create without a readable object made something with an unknown id.
    return verb === "create" && document === null ? { kind: "unknown" } : { kind: "done", document };
  }
  if (status === 503 || status === 429) return { kind: "not_executed", retryAfterMs: null };
  if (status === 404 && verb !== "create") return { kind: "not_found", sameUntilMs: answer.sameUntilMs ?? null };
  if (status === 401 || status === 402 || status === 403 || status === 404) return { kind: "operator_fault", status };
  if (status === 409) return { kind: "refused", status: 409, text: body };
  return status >= 400 && status < 500 ? { kind: "refused", status: 400, text: body } : { kind: "unknown" };
}

/** `refusal`: the answer to the tenant who waits for this call. Null: accepted, see the row. */
export interface Answered<Row> extends Observed<Row> {
  readonly refusal: ComputeRefusal | null;
}

/** Applies the outcome of `call`, which was sent at `sentMs`. */
export function answered(
  row: MachineRow,
  call: RowCall,
  outcome: CallOutcome,
  sentMs: number,
  nowMs: number,
  lengths: Lengths,
): Answered<MachineRow> {
  switch (call.verb) {
    case "create":
      return createAnswered(row, outcome, nowMs, lengths);
    case "read":
      return readAnswered(row, outcome, sentMs, nowMs, lengths);
    case "stop":
      return stopAnswered(row, outcome, sentMs, nowMs, lengths);
    default:
      return changeAnswered(row, outcome, sentMs, nowMs, lengths);
  }
}

const told = (row: MachineRow, acts: readonly Act[] = [], refusal: ComputeRefusal | null = null) => ({
  row,
  acts,
  refusal,
});

function createAnswered(row: MachineRow, outcome: CallOutcome, nowMs: number, lengths: Lengths): Answered<MachineRow> {
  // A list may have found it, or proven it lost, before the answer came.
  if (row.create !== "unknown" || outcome.kind === "unknown" || outcome.kind === "not_found") return told(row);
  if (outcome.kind === "done") {
    // Another's object tells nothing of ours: it is found by its tag.
    if (outcome.document?.tag !== row.tag) return told(row);
    const shown = { kind: "found", document: outcome.document, sameUntilMs: null } as const;
    const seen = observed(row, shown, Math.max(row.changedAtMs, row.seen.askedAtMs), nowMs, lengths);
    return told(seen.row, seen.acts);
  }
  const money = takeBackLaunch(row, nowMs);
  const refused: MachineRow = { ...money.row, create: "refused" };
  return told(refused, money.acts, refusalOf(outcome));
}

/** Nothing was created: releases the hold. Tenants never see the row. */
function takeBackLaunch(row: MachineRow, nowMs: number): Observed<MachineRow> {
  const { rental } = row;
  const acts: Act[] = rental.heldNanoUsd === null ? [] : [{ act: "release", n: rental.n }];
  const closed = { ...rental, heldNanoUsd: null, phase: { at: "ended", endMs: nowMs } } as const;
  const seen = { ...row.seen, state: "ended", reason: "failed", endedAtMs: nowMs } as const;
  return { row: { ...row, rental: closed, seen, hiddenAtMs: nowMs }, acts };
}

/** What the tenant is told of a call that upstream did not execute. */
export function refusalOf(
  outcome: Exclude<CallOutcome<unknown>, { kind: "done" | "unknown" | "not_found" }>,
): ComputeRefusal {
  switch (outcome.kind) {
    case "refused":
      return { kind: "upstream_refused", status: outcome.status, text: outcome.text };
    case "not_executed":
      return { kind: "unavailable", retryAfterMs: outcome.retryAfterMs };
    case "operator_fault":
      return { kind: "unavailable", retryAfterMs: null };
  }
}

function readAnswered(
  row: MachineRow,
  outcome: CallOutcome,
  sentMs: number,
  nowMs: number,
  lengths: Lengths,
): Answered<MachineRow> {
  if (outcome.kind === "not_found") {
    const seen = observed(row, outcome, sentMs, nowMs, lengths);
    return told(seen.row, seen.acts);
  }
  if (outcome.kind !== "done" || !outcome.document) return told(row);
  const seen = observed(row, { kind: "found", document: outcome.document, sameUntilMs: null }, sentMs, nowMs, lengths);
  return told(seen.row, seen.acts);
}

/**
 * A stop is repeated until its end is seen, whatever the answer. After a 404, a second one must prove that it is gone.
 */
function stopAnswered(
  row: MachineRow,
  outcome: CallOutcome,
  sentMs: number,
  nowMs: number,
  lengths: Lengths,
): Answered<MachineRow> {
  return outcome.kind === "not_found" || outcome.kind === "done"
    ? readAnswered(row, outcome, sentMs, nowMs, lengths)
    : told(row);
}

function changeAnswered(
  row: MachineRow,
  outcome: CallOutcome,
  sentMs: number,
  nowMs: number,
  lengths: Lengths,
): Answered<MachineRow> {
  if (!row.sending || row.sending.verb === "stop" || outcome.kind === "unknown") return told(row);
  if (outcome.kind === "done") {
    const { document } = outcome;
    // The answer shows that it still runs, as a list would that was asked for with the call.
    const runs = document?.state === "running" && row.seen.state === "running";
    const askedAtMs = Math.max(row.changedAtMs, sentMs);
    const shown = runs ? observed(row, { kind: "same" }, askedAtMs, nowMs, lengths).row : row;
    return { ...changeDone(shown, document, nowMs), refusal: null };
  }
  const notDone = changeNotDone(row, outcome.kind === "refused" ? outcome.status : null, nowMs, lengths);
  if (!notDone) return told(row);
  const refusal: ComputeRefusal =
    outcome.kind === "not_found" ? { kind: "unavailable", retryAfterMs: null } : refusalOf(outcome);
  return { ...notDone, refusal };
}

/** Wants the end from now on. The first reason stays. Nothing is charged after `nowMs`. */
export function wantEnd(row: MachineRow, reason: EndReason, nowMs: number): MachineRow {
  if (row.seen.state === "ended" || row.wants.end !== null) return row;
  const rental = askEnd(row.rental, nowMs).rental;
  // Changes in progress no longer matter.
  const wants = { ...row.wants, end: { reason, askedMs: nowMs }, rebuild: null };
  return { ...row, rental, wants, sending: null, changedAtMs: nowMs };
}

/** Runs the turn of a row's rental. If it asks for a stop, the row wants its end. */
export function turned(row: MachineRow, nowMs: number, facts: TurnFacts): Observed<MachineRow> {
  const step = turn(row.rental, nowMs, facts);
  const after = { ...row, rental: step.rental };
  if (step.stop === null || row.wants.end !== null || row.seen.state === "ended")
    return { row: after, acts: step.acts };
  const wants = { ...row.wants, end: { reason: step.stop, askedMs: nowMs }, rebuild: null };
  return { row: { ...after, wants, sending: null }, acts: step.acts };
}

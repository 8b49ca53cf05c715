/**
 * Applies what upstream shows of a machine: documents from lists and reads, in any order, repeated, late, or missing.
 *
 * A document requested before the row last changed is ignored, and so is one older than the last. An ended row stays
 * ended. Upstream's times are limited to the range that our own records allow. Absence from a list proves nothing; two
 * 404s by id a minute apart do.
 */
import { closeMachine, forgetBefore } from "./machine-books.ts";
import { awaySinceMs, begin, preempt, resume, takeBackExtension } from "./machine-rental.ts";
import type { Act, EndReason, Lengths, MachineRental, Step } from "./rental.ts";
import type { MachineRow, MachineState, Missing, SshAccess } from "./resource.ts";
import { comparePrice, extendedTwice, haunted, knownStart } from "./surprises.ts";

/** An instance or cluster as upstream shows it, parsed (upstream-documents.ts). */
export interface MachineDocument {
  readonly upstreamId: number;
  readonly tag: string;
  readonly state: Exclude<MachineState, "none">;
  readonly reason: EndReason | null;
  readonly rateNanoUsd: number | null;
  readonly startedAtMs: number | null;
  readonly terminatedAtMs: number | null;
  readonly hours: number | null;
  readonly replicas: number | null;
  readonly ssh: SshAccess | null;
  readonly jupyterUrl: string | null;
}

/**
 * `same`: a list shows it as before. `absent`: a list lacks it. `not_found`: a read by id was answered 404.
 * `sameUntilMs`: when the last list was requested that still showed the document before this one; null: not known.
 */
export type Shown<Document = MachineDocument> =
  | { readonly kind: "found"; readonly document: Document; readonly sameUntilMs: number | null }
  | { readonly kind: "absent" | "not_found"; readonly sameUntilMs?: number | null }
  | { readonly kind: "same" };

/** The row after the change, and what to book and log. The row's turn must follow in the same transaction. */
export interface Observed<Row> {
  readonly row: Row;
  readonly acts: readonly Act[];
}

/** A create without an answer has failed if two lists lack it that were requested this long after it was sent. */
export const CREATE_PROOF_MS = 120_000;
export const LISTS_FOR_PROOF = 2;
/** Two reads with 404, this far apart, prove that it is gone. */
export const GONE_PROOF_MS = 60_000;
/** How long an extension may take to show, and how many times it is sent. */
export const EXTEND_PROOF_MS = 60_000;
export const MOST_EXTENDS = 2;
/** An instance that runs without an SSH command is read often for this long. */
const SSH_WAIT_MS = 300_000;

/** `askedAtMs`: when the list or read was sent. */
export function observed(
  row: MachineRow,
  shown: Shown,
  askedAtMs: number,
  nowMs: number,
  lengths: Lengths,
): Observed<MachineRow> {
  if (isOld(row, askedAtMs)) return { row, acts: [] };
  switch (shown.kind) {
    case "found":
      return found(before(row, shown.sameUntilMs), shown.document, askedAtMs, nowMs, lengths);
    case "same":
      return same(row, askedAtMs);
    case "absent":
      return absent(before(row, shown.sameUntilMs ?? null), askedAtMs, nowMs, lengths);
    case "not_found":
      return notFound(before(row, shown.sameUntilMs ?? null), askedAtMs, nowMs, lengths);
  }
}

/** The row as the last list showed it that did not differ from what was told before. */
function before(row: MachineRow, sameUntilMs: number | null): MachineRow {
  if (sameUntilMs === null) return row;
  return sameUntilMs > row.seen.askedAtMs ? same(row, sameUntilMs).row : beforeItsStop(row, sameUntilMs);
}

/** A stop was answered since: the list before the stop still showed it running. */
function beforeItsStop(row: MachineRow, sameUntilMs: number): MachineRow {
  const { seen, rental } = row;
  const { phase } = rental;
  const ran = phase.at === "ending" && phase.fromMs !== null && sameUntilMs < phase.askedMs;
  if (!ran || seen.lastRunningMs === null || sameUntilMs <= seen.lastRunningMs) return row;
  return { ...row, rental: forgetBefore(rental, sameUntilMs), seen: { ...seen, lastRunningMs: sameUntilMs } };
}

/** Requested before one of our calls changed the row, or before what was seen last. */
const isOld = (row: MachineRow, askedAtMs: number): boolean =>
  askedAtMs < row.changedAtMs || askedAtMs < row.seen.askedAtMs;

function found(row: MachineRow, document: MachineDocument, askedAtMs: number, nowMs: number, lengths: Lengths) {
  // Another machine with our tag: our own came first and stays.
  if (row.upstreamId !== null && row.upstreamId !== document.upstreamId) return { row, acts: [] };
  const adopted: MachineRow = { ...row, upstreamId: document.upstreamId };
  if (row.seen.state === "ended") return haunted(adopted, document, askedAtMs, lengths);
  const known: MachineRow = { ...adopted, create: "done" };
  const priced = comparePrice(known, document);
  const shown = showing(priced.row, document, askedAtMs, nowMs);
  const { rental, acts } = moneyOf(shown, document, askedAtMs, nowMs, lengths);
  const change = resolveChange(settled({ ...shown, rental }, document, nowMs), lengths);
  return { row: change.row, acts: [...priced.acts, ...acts, ...change.acts, ...extendedTwice(row, change.row)] };
}

const runs = (state: MachineState): boolean => state === "running" || state === "degraded";

function showing(row: MachineRow, document: MachineDocument, askedAtMs: number, nowMs: number): MachineRow {
  const { seen } = row;
  const begun = seen.firstRunningMs !== null;
  // Pending after running means a rebuild or a scale: it still runs and is charged.
  const alive = runs(document.state) || (begun && document.state === "pending" && seen.state !== "preempted");
  return {
    ...row,
    seen: {
      ...seen,
      // Kept until its end is booked.
      state: document.state === "ended" ? seen.state : document.state,
      askedAtMs,
      startedAtMs: knownStart(row, document, nowMs),
      firstRunningMs: seen.firstRunningMs ?? (runs(document.state) ? askedAtMs : null),
      lastRunningMs: alive ? askedAtMs : seen.lastRunningMs,
      // Upstream only adds hours; a document from before an accepted extension must not ask for it again.
      hours: document.hours === null ? seen.hours : Math.max(document.hours, seen.hours ?? 0),
      replicas: document.replicas ?? seen.replicas,
      ssh: document.ssh,
      jupyterUrl: document.jupyterUrl,
      missing: null,
    },
  };
}

/** When it started: upstream's time, limited to between the launch and now. Null: it never ran, whatever time it has. */
function startOf(row: MachineRow, document: MachineDocument, nowMs: number): number | null {
  if (document.state === "pending" && row.seen.firstRunningMs === null) return null;
  const startedAtMs = document.startedAtMs ?? (runs(document.state) ? nowMs : null);
  return startedAtMs === null ? null : Math.min(Math.max(startedAtMs, row.createdAtMs), nowMs);
}

function moneyOf(
  row: MachineRow,
  document: MachineDocument,
  askedAtMs: number,
  nowMs: number,
  lengths: Lengths,
): Pick<Step<MachineRental>, "rental" | "acts"> {
  const startMs = startOf(row, document, nowMs);
  const { lastRunningMs } = row.seen;
  const begun = startMs === null ? row.rental : begin(row.rental, startMs, lengths).rental;
  switch (document.state) {
    case "running":
    case "degraded": {
      const sinceMs = awaySinceMs(begun);
      if (sinceMs === null) return { rental: forgetBefore(begun, askedAtMs), acts: [] };
      // A start after the preemption is the time of resumption; without one, use the time it was first seen again.
      const again = startMs !== null && startMs > sinceMs ? startMs : askedAtMs;
      return resumed(begun, Math.min(again, nowMs), lengths);
    }
    case "preempted":
      return preempt(begun, lastRunningMs ?? startMs ?? nowMs, lengths);
    case "ended": {
      const least = lastRunningMs ?? startMs ?? nowMs;
      const endMs = Math.min(Math.max(document.terminatedAtMs ?? least, least), nowMs);
      return closeMachine(begun, { endMs, ranUntilMs: startMs === null ? null : endMs }, nowMs, lengths);
    }
    default:
      return { rental: begun, acts: [] };
  }
}

const resumed = (rental: MachineRental, fromMs: number, lengths: Lengths) => resume(rental, fromMs, lengths);

/** Changes to the row that follow from the document: an end, a stop, a finished rebuild. */
function settled(row: MachineRow, document: MachineDocument, nowMs: number): MachineRow {
  if (document.state === "ended") {
    const reason = row.wants.end?.reason ?? shownReason(document.reason);
    return ended(row, reason, row.rental.phase.at === "ended" ? row.rental.phase.endMs : nowMs);
  }
  const { phase } = row.rental;
  if (phase.at === "ending" && row.wants.end === null) {
    // Its money ended in this step: it resumed after its hold was released.
    return { ...row, wants: { ...row.wants, end: { reason: "preempted", askedMs: nowMs } } };
  }
  return rebuilt(row);
}

/** A PATCH is done when a document requested after it was accepted shows it running. */
function rebuilt(row: MachineRow): MachineRow {
  const { rebuild } = row.wants;
  if (!rebuild || rebuild.answeredMs === null || row.seen.askedAtMs <= rebuild.answeredMs) return row;
  return runs(row.seen.state) ? { ...row, wants: { ...row.wants, rebuild: null } } : row;
}

/**
 * An unanswered change is over when its effect is seen. An extension that was sent twice and shows no effect a minute
 * later was not executed, so its hold is released.
 */
function resolveChange(row: MachineRow, lengths: Lengths): Observed<MachineRow> {
  const { sending, seen, wants, rental } = row;
  const done = { row: { ...row, sending: null }, acts: [] };
  if (sending?.verb === "scale") return seen.replicas === wants.replicas ? done : { row, acts: [] };
  if (sending?.verb !== "extend" || seen.hours === null || rental.hours === null) return { row, acts: [] };
  if (seen.hours >= rental.hours) return done;
  if (sending.tries < MOST_EXTENDS || seen.askedAtMs < sending.lastMs + EXTEND_PROOF_MS) return { row, acts: [] };
  const back = takeBackExtension(rental, rental.hours - seen.hours, lengths);
  return { row: { ...row, sending: null, rental: back.rental }, acts: back.acts };
}

/** Tenants do not see upstream's other reasons. */
function shownReason(reason: EndReason | null): EndReason {
  return reason === "duration_expired" || reason === "failed" || reason === "preempted" ? reason : "admin";
}

function ended(row: MachineRow, reason: EndReason, endedAtMs: number): MachineRow {
  const seen = { ...row.seen, state: "ended", reason, endedAtMs, missing: null, ssh: null } as const;
  return { ...row, seen, sending: null, wants: { ...row.wants, rebuild: null } };
}

/** A list shows it unchanged: it still ran when the list was requested. */
function same(row: MachineRow, askedAtMs: number): Observed<MachineRow> {
  const { seen } = row;
  if (!runs(seen.state)) return { row: { ...row, seen: { ...seen, askedAtMs } }, acts: [] };
  const rental = forgetBefore(row.rental, askedAtMs);
  const after = { ...row, rental, seen: { ...seen, askedAtMs, lastRunningMs: askedAtMs, missing: null } };
  return { row: rebuilt(after), acts: [] };
}

function absent(row: MachineRow, askedAtMs: number, nowMs: number, lengths: Lengths): Observed<MachineRow> {
  const { seen } = row;
  if (seen.state === "ended") return { row, acts: [] };
  const missing: Missing = seen.missing ?? { lists: 0, notFoundMs: null };
  if (row.upstreamId !== null) return { row: { ...row, seen: { ...seen, askedAtMs, missing } }, acts: [] };
  if (row.create !== "unknown" || askedAtMs < row.createdAtMs + CREATE_PROOF_MS) return { row, acts: [] };
  // The same list counts once.
  const lists = askedAtMs > seen.askedAtMs ? missing.lists + 1 : missing.lists;
  const counted = { ...row, seen: { ...seen, askedAtMs, missing: { ...missing, lists } } };
  if (lists < LISTS_FOR_PROOF) return { row: counted, acts: [] };
  const closed = closeMachine(row.rental, { endMs: nowMs, ranUntilMs: null }, nowMs, lengths);
  const lost: MachineRow = { ...counted, create: "lost", rental: closed.rental };
  return { row: ended(lost, row.wants.end?.reason ?? "failed", nowMs), acts: closed.acts };
}

function notFound(row: MachineRow, askedAtMs: number, nowMs: number, lengths: Lengths): Observed<MachineRow> {
  const { seen } = row;
  if (seen.state === "ended") return { row: { ...row, seen: { ...seen, askedAtMs, haunts: false } }, acts: [] };
  const firstMs = seen.missing?.notFoundMs ?? askedAtMs;
  const missing: Missing = { lists: seen.missing?.lists ?? 0, notFoundMs: firstMs };
  const waiting = { ...row, seen: { ...seen, askedAtMs, missing } };
  if (askedAtMs < firstMs + GONE_PROOF_MS) return { row: waiting, acts: [] };
  const endMs = seen.lastRunningMs ?? seen.startedAtMs ?? nowMs;
  const started = seen.lastRunningMs !== null || seen.startedAtMs !== null;
  const closed = closeMachine(row.rental, { endMs, ranUntilMs: started ? endMs : null }, nowMs, lengths);
  return {
    row: ended({ ...waiting, rental: closed.rental }, row.wants.end?.reason ?? "failed", endMs),
    acts: closed.acts,
  };
}

/**
 * A machine that upstream first shows when it is over, though it ran longer than its hold pays for: the row as it was
 * at that end. A turn at `atMs` pays for the hours that nobody saw, before the end itself is observed.
 */
export function overUnseen(
  row: MachineRow,
  shown: Shown,
  askedAtMs: number,
  nowMs: number,
  lengths: Lengths,
): { readonly row: MachineRow; readonly atMs: number } | undefined {
  if (shown.kind !== "found" || shown.document.state !== "ended" || row.rental.phase.at !== "waiting") return undefined;
  if (isOld(row, askedAtMs)) return undefined;
  const { document } = shown;
  const startMs = startOf(row, document, nowMs);
  if (startMs === null || document.terminatedAtMs === null) return undefined;
  const { rental } = begin(row.rental, startMs, lengths);
  const atMs = Math.min(document.terminatedAtMs, nowMs);
  return rental.phase.at === "running" && rental.phase.paidUntilMs < atMs
    ? { row: { ...row, rental }, atMs }
    : undefined;
}

/** Whether to check upstream every 5 s for this row, instead of every 60 s. */
export function inTransition(row: MachineRow, nowMs: number): boolean {
  const { seen, wants, launched } = row;
  if (seen.state === "ended") return seen.haunts;
  if (!runs(seen.state) || wants.end !== null || wants.rebuild !== null || row.sending !== null) return true;
  if (seen.missing !== null) return true;
  const { phase, hours } = row.rental;
  // A fixed run that is over ends upstream by itself.
  if (hours !== null && phase.at === "running" && nowMs >= phase.paidUntilMs) return true;
  const waitsForSsh = launched.sshEnabled && launched.sshPublicKey !== null && !seen.ssh?.command;
  return waitsForSsh && nowMs < (seen.firstRunningMs ?? nowMs) + SSH_WAIT_MS;
}

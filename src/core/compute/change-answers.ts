/** What becomes of a row when upstream answers an extension, a scale or a PATCH. */
import { takeBackExtension } from "./machine-rental.ts";
import type { Act, Lengths } from "./rental.ts";
import type { MachineRow, Sending } from "./resource.ts";
import { extendedTwice } from "./surprises.ts";

interface Told {
  readonly row: MachineRow;
  readonly acts: readonly Act[];
}
/** What of upstream's document matters here. */
interface Document {
  readonly hours: number | null;
  readonly replicas: number | null;
}

/** By this try of a scale, a minute after the first, lists have shown whether an earlier one was executed. */
const PROVEN_SCALE_TRIES = 7;

/** Upstream accepted it. `document`: the object in its answer. */
export function changeDone(row: MachineRow, document: Document | null, nowMs: number): Told {
  const after = accepted(row, document, nowMs);
  return { row: after, acts: extendedTwice(row, after) };
}

function accepted(row: MachineRow, document: Document | null, nowMs: number): MachineRow {
  const { wants, seen, rental } = row;
  const after: MachineRow = { ...row, sending: null, changedAtMs: nowMs };
  switch (row.sending?.verb) {
    case "patch":
      return { ...after, wants: { ...wants, rebuild: wants.rebuild && { answeredMs: nowMs } } };
    case "scale":
      return { ...after, seen: { ...seen, replicas: document?.replicas ?? wants.replicas } };
    default:
      // An accepted extend counts as done, even if the object does not show it yet.
      return { ...after, seen: { ...seen, hours: Math.max(document?.hours ?? 0, rental.hours ?? 0) } };
  }
}

/**
 * The former state, if upstream certainly did not execute it; null if an earlier try may have been executed. `refused`:
 * the status of upstream's own refusal; null: it failed otherwise.
 */
export function changeNotDone(
  row: MachineRow,
  refused: 400 | 409 | null,
  nowMs: number,
  lengths: Lengths,
): Told | null {
  const { sending, wants } = row;
  if (!sending || (sending.tries > 1 && mayBeExecuted(row, sending, refused))) return null;
  const { former } = sending;
  const restored: MachineRow = { ...row, sending: null, changedAtMs: nowMs };
  switch (sending.verb) {
    case "scale":
      return { row: { ...restored, wants: { ...wants, replicas: former.replicas } }, acts: [] };
    case "patch":
      return { row: { ...restored, wants: { ...wants, setup: former.setup, rebuild: null } }, acts: [] };
    case "extend": {
      const hours = (row.rental.hours ?? 0) - (former.hours ?? 0);
      const back = takeBackExtension(row.rental, hours, lengths);
      return { row: { ...restored, rental: back.rental }, acts: back.acts };
    }
    case "stop":
      return null;
  }
}

/**
 * Whether an earlier try may have been executed although this one was not: the next document decides, or the next try.
 * A 409 may be its very effect, since a machine that is being rebuilt cannot be changed.
 */
function mayBeExecuted({ seen }: MachineRow, { verb, tries, former }: Sending, refused: 400 | 409 | null): boolean {
  if (refused === null || verb === "extend") return true;
  if (refused === 400) return false;
  return !(verb === "scale" && tries >= PROVEN_SCALE_TRIES && seen.replicas === former.replicas);
}

/**
 * Which lines of a ledger make the next part, and when old lines may leave the account object.
 *
 * A line belongs to the hour in which it was booked. Where a clock was set back, lines are booked in hours that may be
 * closed: they go into the hour of the line before them, or the first one after the last closed hour. So the hours of
 * parts never fall, and a closed hour never changes.
 */
import { HOUR_MS, hourOf, PART_LINES } from "./part.ts";

/** What the next part goes on from. */
export interface LastPart {
  readonly hourMs: number;
  /** True: it was full, and its hour has more lines. */
  readonly more: boolean;
}

/** The hour of a part whose first line was booked at `atMs`. */
export function hourOfNext(last: LastPart | null, atMs: number): number {
  if (last === null) return hourOf(atMs);
  return Math.max(hourOf(atMs), last.more ? last.hourMs : last.hourMs + HOUR_MS);
}

/** When the hour of the next line is over. */
export const closesAtMs = (last: LastPart | null, atMs: number): number => hourOfNext(last, atMs) + HOUR_MS;

/** How many of the lines booked at these times, in order, belong to a part of this hour that has `lines` already. */
export function fitting(hourMs: number, lines: number, times: readonly number[]): number {
  const room = Math.min(times.length, PART_LINES - lines);
  const beyond = times.findIndex((atMs) => hourOf(atMs) > hourMs);
  return beyond === -1 ? room : Math.min(room, beyond);
}

/** When charges are folded. */
export interface DetailLimits {
  /** Lines older than this leave. */
  readonly ms: number;
  /** The oldest lines leave sooner while all of them have more bytes than this. */
  readonly bytes: number;
}
/** What a ledger line takes in the account object, as bench/bytes.ts measures it. */
const LINE_BYTES = 121;
/** No younger line leaves, ms: repeated ends look up their call id for a day. */
const LEAST_AGE_MS = 26 * HOUR_MS;
/** Lines that one transaction folds. */
export const FOLDED_AT_ONCE = 2_000;

/** When a part may be folded whose hour begins at `hourMs`, while `lines` stand in the object. */
export function foldsAtMs(hourMs: number, lines: number, { ms, bytes }: DetailLimits): number {
  return hourMs + HOUR_MS + (lines * LINE_BYTES > bytes ? LEAST_AGE_MS : Math.max(ms, LEAST_AGE_MS));
}

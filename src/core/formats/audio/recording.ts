/**
 * The length of a whole recording in any of the contract's formats. A truncated file counts as far as it goes. No byte
 * is copied. `docs/decisions/0004-lengths-are-walked.md` says why no library is used.
 */
import { isoMs } from "./iso.ts";
import { AudioMeasure } from "./measure.ts";
import { webmMs } from "./webm.ts";

/** Whole ms, above zero; null if it is not audio of a known format. */
export function recordingLengthMs(bytes: Uint8Array): number | null {
  const ms = Math.round(lengthOf(bytes) ?? 0);
  return ms > 0 ? ms : null;
}

function lengthOf(bytes: Uint8Array): number | null {
  const tag = (at: number) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (tag(4) === "ftyp") return isoMs(bytes);
  if (tag(0) === "\x1a\x45\xdf\xa3") return webmMs(bytes);
  const measure = new AudioMeasure();
  measure.push(bytes);
  return measure.ms;
}

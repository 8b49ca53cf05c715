/**
 * Measures a wav: the bytes of sound that arrived, divided by what its format needs per second.
 *
 * Sizes in headers are not trusted: a streamed wav claims 0 or 4 GB, and a forged one anything. The bytes per second
 * follow from rate, channels and depth, as in a decoder; the byte rate in the header is ignored.
 */
import type { AudioWindow, Tally, Walk } from "./window.ts";

/** PCM, float, A-law, mu-law. */
const PLAIN = new Set([1, 3, 6, 7]);
const EXTENSIBLE = 0xfffe;
const UNKNOWN_SIZES = new Set([0, 0xffffffff]);
/** Chunks that may follow the sound and are not part of it. */
const NOTES = ["LIST", "id3 ", "ID3 ", "bext", "cue ", "iXML", "_PMX", "smpl", "PEAK", "fact", "JUNK", "data"];
const CHUNK_HEADER_BYTES = 8;

/** `RIFF` only; `RIFX` is not supported. */
export const isWav = (window: AudioWindow): boolean =>
  (window.tag("RIFF") || window.tag("RF64") || window.tag("BW64")) && window.tag("WAVE", 8);

export function* walkWav(window: AudioWindow, tally: Tally): Walk {
  let msPerByte = 0;
  window.skip(12);
  for (;;) {
    while (!window.has(CHUNK_HEADER_BYTES)) yield;
    const size = window.u32le(4);
    if (window.tag("data")) {
      if (msPerByte === 0) break;
      window.skip(CHUNK_HEADER_BYTES);
      yield* walkData(window, tally, size, msPerByte);
      continue;
    }
    if (window.tag("fmt ")) {
      while (!window.has(CHUNK_HEADER_BYTES + Math.min(size, 40))) yield;
      msPerByte = formatOf(window, size);
      if (msPerByte === 0) break;
    }
    window.skip(CHUNK_HEADER_BYTES + size + (size % 2));
  }
  tally.unreadable = true;
}

/** Duration of one byte of sound; 0 if the format is unknown. */
function formatOf(window: AudioWindow, size: number): number {
  const tag = window.u16le(8);
  const format = tag === EXTENSIBLE && size >= 40 ? window.u16le(8 + 24) : tag;
  const bytesPerSecond = window.u16le(10) * window.u32le(12) * Math.ceil(window.u16le(22) / 8);
  return PLAIN.has(format) && bytesPerSecond > 0 ? 1000 / bytesPerSecond : 0;
}

/** Counts everything as sound, except a known chunk at the position where the sound claims to end. */
function* walkData(window: AudioWindow, tally: Tally, claimed: number, msPerByte: number): Walk {
  const startMs = tally.ms;
  let bytes = 0;
  for (let open = UNKNOWN_SIZES.has(claimed) ? Number.POSITIVE_INFINITY : claimed; ; ) {
    if (open === 0) {
      const pad = claimed % 2;
      while (!window.has(pad + 4)) {
        // These few bytes may be the last: count them now, and subtract them if they begin a chunk.
        tally.ms = startMs + (bytes + Math.max(0, window.left - pad)) * msPerByte;
        yield;
      }
      if (NOTES.some((note) => window.tag(note, pad))) {
        tally.ms = startMs + bytes * msPerByte;
        window.skip(pad);
        return;
      }
      open = Number.POSITIVE_INFINITY;
    }
    const some = Math.min(open, Math.max(0, window.left));
    bytes += some;
    open -= some;
    window.skip(some);
    tally.ms = startMs + bytes * msPerByte;
    if (open > 0) yield;
  }
}

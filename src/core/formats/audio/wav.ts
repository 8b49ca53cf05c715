/**
 * The length of a wav: the bytes of sound that came, over what its format plays a second.
 *
 * Sizes in headers are not believed: a streamed wav claims 0 or 4 GB, and a false one whatever suits its sender. What a
 * second holds follows from rate, channels and depth, as a decoder takes it; the byte rate in the header is not read.
 */
import type { AudioWindow, Tally, Walk } from "./window.ts";

/** PCM, float, A-law, mu-law. */
const PLAIN = new Set([1, 3, 6, 7]);
const EXTENSIBLE = 0xfffe;
const UNKNOWN_SIZES = new Set([0, 0xffffffff]);
/** Chunks that may stand behind the sound and are none of it. */
const NOTES = ["LIST", "id3 ", "ID3 ", "bext", "cue ", "iXML", "_PMX", "smpl", "PEAK", "fact", "JUNK", "data"];
const CHUNK_HEADER_BYTES = 8;

/** `RIFF`, `RIFX` is not known. */
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

/** How long one byte of sound lasts; 0 where it cannot be said. */
function formatOf(window: AudioWindow, size: number): number {
  const tag = window.u16le(8);
  const format = tag === EXTENSIBLE && size >= 40 ? window.u16le(8 + 24) : tag;
  const bytesPerSecond = window.u16le(10) * window.u32le(12) * Math.ceil(window.u16le(22) / 8);
  return PLAIN.has(format) && bytesPerSecond > 0 ? 1000 / bytesPerSecond : 0;
}

/** All that comes is sound, but for a known chunk where the sound is said to end. */
function* walkData(window: AudioWindow, tally: Tally, claimed: number, msPerByte: number): Walk {
  const startMs = tally.ms;
  let bytes = 0;
  for (let open = UNKNOWN_SIZES.has(claimed) ? Number.POSITIVE_INFINITY : claimed; ; ) {
    if (open === 0) {
      const pad = claimed % 2;
      while (!window.has(pad + 4)) {
        // A few bytes may be the last there are: count them, and take them back if they begin a chunk.
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

/**
 * Measures an mp3 by its frames, of layers I to III of MPEG 1, 2 and 2.5. The claims of an index frame (Xing, Info,
 * VBRI) are ignored, and the frame itself does not count as sound. Tags are skipped.
 */
import { type AudioWindow, MAX_FALSE_STARTS, type Tally, type Walk } from "./window.ts";

/** kbit/s by bitrate index: layers I, II and III of MPEG 1, then layer I and layers II and III of the others. */
const KBITS = {
  first: [
    [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  ],
  other: [
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  ],
} as const;
const RATES = [44_100, 48_000, 32_000];
const HEADER_BYTES = 4;
/** Header bits for version, layer and sample rate, which are equal in all frames of a file. */
const KIND_MASK = 0x1e0c00;
/** An index is within this many bytes of its frame's start, after side information of any size. */
const INDEX_WITHIN_BYTES = 44;

interface Frame {
  readonly bytes: number;
  readonly ms: number;
  readonly kind: number;
}

const hasId3 = (window: AudioWindow): boolean => window.tag("ID3");
export const isMp3 = (window: AudioWindow): boolean => hasId3(window) || frameAt(window, 0) !== undefined;

export function* walkMp3(window: AudioWindow, tally: Tally): Walk {
  let falseStarts = 0;
  let frames = 0;
  let inStep = true;
  while (falseStarts < MAX_FALSE_STARTS) {
    while (!window.has(HEADER_BYTES)) yield;
    if (hasId3(window)) {
      while (!window.has(10)) yield;
      window.skip(10 + [6, 7, 8, 9].reduce((size, at) => size * 128 + (window.u8(at) & 0x7f), 0));
      continue;
    }
    const frame = frameAt(window, 0);
    if (frame) {
      while (!window.has(inStep ? frame.bytes : frame.bytes + HEADER_BYTES)) yield;
      // After garbage, a frame counts only if another of its kind follows.
      if (inStep || frameAt(window, frame.bytes)?.kind === frame.kind) {
        if (frames++ > 0 || !isIndex(window, frame)) tally.ms += frame.ms;
        window.skip(frame.bytes);
        inStep = true;
        continue;
      }
    }
    falseStarts++;
    inStep = false;
    window.skip(1);
    while (!window.find(0xff, 0xe0, 0xe0)) yield;
  }
  tally.unreadable = true;
}

/** Free-format frames (bitrate 0) are not supported: their length is not written anywhere. */
function frameAt(window: AudioWindow, offset: number): Frame | undefined {
  const header = window.u32be(offset);
  const version = (header >>> 19) & 3;
  const layer = 4 - ((header >>> 17) & 3);
  if (header >>> 21 !== 0x7ff || version === 1 || layer === 4) return undefined;
  const isFirst = version === 3;
  const kbits = KBITS[isFirst ? "first" : "other"][layer - 1]?.[(header >>> 12) & 15] ?? 0;
  const rate = (RATES[(header >>> 10) & 3] ?? 0) / (isFirst ? 1 : version === 2 ? 2 : 4);
  if (kbits === 0 || rate === 0) return undefined;
  const samples = layer === 1 ? 384 : layer === 3 && !isFirst ? 576 : 1152;
  const padding = (header >>> 9) & 1;
  // Layer I counts in slots of four bytes.
  const slot = layer === 1 ? 4 : 1;
  const bytes = (Math.floor((samples / 8 / slot) * ((kbits * 1000) / rate)) + padding) * slot;
  return { bytes, ms: (samples / rate) * 1000, kind: header & KIND_MASK };
}

function isIndex(window: AudioWindow, frame: Frame): boolean {
  for (let at = HEADER_BYTES; at < Math.min(INDEX_WITHIN_BYTES, frame.bytes - 4); at++) {
    if (window.tag("Xing", at) || window.tag("Info", at) || window.tag("VBRI", at)) return true;
  }
  return false;
}

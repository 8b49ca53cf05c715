/**
 * Measures a flac by its frames, each found by its sync code and the checksum of its header (RFC 9639, section 9.1).
 * The claims in the file's first block (total samples, frame size) are ignored; only its sample rate is used, for
 * frames without their own.
 */
import { type AudioWindow, MAX_FALSE_STARTS, type Tally, type Walk } from "./window.ts";

const BLOCK_HEADER_BYTES = 4;
/** The shortest possible frame, including its header. */
const SHORTEST_FRAME_BYTES = 9;
/** Hz by the frame header's code. 0: the file's rate. 12 to 14: written after the header. */
const RATES = [0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000];

export const isFlac = (window: AudioWindow): boolean => window.tag("fLaC");

export function* walkFlac(window: AudioWindow, tally: Tally): Walk {
  window.skip(4);
  let fileRate = 0;
  for (let last = false; !last; ) {
    while (!window.has(BLOCK_HEADER_BYTES)) yield;
    const head = window.u32be(0);
    last = head >>> 31 === 1;
    const bytes = head & 0xffffff;
    if (head >>> 24 === 0 || head >>> 24 === 0x80) {
      while (!window.has(BLOCK_HEADER_BYTES + Math.min(bytes, 18))) yield;
      fileRate = window.u32be(BLOCK_HEADER_BYTES + 10) >>> 12;
    }
    window.skip(BLOCK_HEADER_BYTES + bytes);
  }
  for (let falseStarts = 0; falseStarts < MAX_FALSE_STARTS; ) {
    while (!window.find(0xff, 0xfe, 0xf8)) yield;
    while (!window.has(5)) yield;
    const bytes = headerBytes(window);
    while (!window.has(Math.max(bytes, SHORTEST_FRAME_BYTES))) yield;
    const ms = frameMs(window, bytes, fileRate);
    if (ms === undefined) falseStarts++;
    else tally.ms += ms;
    window.skip(ms === undefined ? 1 : SHORTEST_FRAME_BYTES);
  }
  tally.unreadable = true;
}

/**
 * Length of a frame's header: four bytes, the frame's number in UTF-8 style, the extra bytes that the codes ask for,
 * and the checksum.
 */
function headerBytes(window: AudioWindow): number {
  const [sizeCode, rateCode, first] = [window.u8(2) >> 4, window.u8(2) & 15, window.u8(4)];
  const numberBytes = first < 0x80 ? 1 : Math.clz32(~(first << 24));
  const sizeBytes = sizeCode === 6 ? 1 : sizeCode === 7 ? 2 : 0;
  const rateBytes = rateCode === 12 ? 1 : rateCode === 13 || rateCode === 14 ? 2 : 0;
  return 4 + numberBytes + sizeBytes + rateBytes + 1;
}

/** Duration of a frame; undefined if it is not a frame. */
function frameMs(window: AudioWindow, bytes: number, fileRate: number): number | undefined {
  const [sizeCode, rateCode] = [window.u8(2) >> 4, window.u8(2) & 15];
  const reserved = sizeCode === 0 || rateCode === 15 || window.u8(3) >> 4 > 10 || (window.u8(3) & 1) === 1;
  if (reserved || bytes > 16 || crc8(window, bytes - 1) !== window.u8(bytes - 1)) return undefined;
  const rateBytes = rateCode === 12 ? 1 : rateCode > 12 ? 2 : 0;
  const rateAt = bytes - 1 - rateBytes;
  const sizeAt = rateAt - (sizeCode === 6 ? 1 : 2);
  const rate = [window.u8(rateAt) * 1000, window.u16be(rateAt), window.u16be(rateAt) * 10][rateCode - 12];
  const hertz = rate ?? (RATES[rateCode] || fileRate);
  return hertz > 0 ? (samplesOf(window, sizeCode, sizeAt) / hertz) * 1000 : undefined;
}

function samplesOf(window: AudioWindow, code: number, at: number): number {
  if (code === 1) return 192;
  if (code <= 5) return 576 << (code - 2);
  if (code === 6) return window.u8(at) + 1;
  return code === 7 ? window.u16be(at) + 1 : 256 << (code - 8);
}

function crc8(window: AudioWindow, bytes: number): number {
  let crc = 0;
  for (let at = 0; at < bytes; at++) {
    crc ^= window.u8(at);
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x80 ? 0x07 : 0)) & 0xff;
  }
  return crc;
}

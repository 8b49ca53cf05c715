/** The length of a flac: where its last frame ends. Frames are found from the end, by sync code and checksum. */

const STREAM_INFO = 8;
const SHORTEST_HEADER = 6;

export function measureFlac(view: DataView): number | undefined {
  const rate = view.getUint32(STREAM_INFO + 10) >>> 12;
  const blockSize = view.getUint16(STREAM_INFO);
  if (rate === 0) return undefined;
  for (let at = view.byteLength - SHORTEST_HEADER; at > STREAM_INFO; at--) {
    const sync = view.getUint16(at);
    if (sync !== 0xfff8 && sync !== 0xfff9) continue;
    const frame = frameAt(view, at);
    if (!frame) continue;
    // Streams with a fixed block size number their frames, the others their samples.
    const begins = sync === 0xfff8 ? frame.number * blockSize : frame.number;
    return ((begins + frame.samples) / rate) * 1000;
  }
  return undefined;
}

/** A frame's header, if its checksum is right. */
function frameAt(view: DataView, at: number): { number: number; samples: number } | undefined {
  try {
    const codes = view.getUint8(at + 2);
    const first = view.getUint8(at + 4);
    const extra = first < 0x80 ? 0 : Math.clz32(~(first << 24)) - 1;
    let number = first < 0x80 ? first : first & (0x3f >> extra);
    for (let index = 1; index <= extra; index++) number = number * 64 + (view.getUint8(at + 4 + index) & 0x3f);
    const after = at + 5 + extra;
    const sizeCode = codes >> 4;
    const sizeBytes = sizeCode === 6 ? 1 : sizeCode === 7 ? 2 : 0;
    const rateBytes = { 12: 1, 13: 2, 14: 2 }[codes & 15] ?? 0;
    const end = after + sizeBytes + rateBytes;
    if (crc8(view, at, end) !== view.getUint8(end)) return undefined;
    return { number, samples: blockSamples(view, sizeCode, after) };
  } catch (error) {
    // A sync code in the last bytes, with no room for a header after it.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function blockSamples(view: DataView, code: number, at: number): number {
  if (code === 1) return 192;
  if (code >= 2 && code <= 5) return 576 << (code - 2);
  if (code === 6) return view.getUint8(at) + 1;
  if (code === 7) return view.getUint16(at) + 1;
  return 256 << (code - 8);
}

function crc8(view: DataView, from: number, to: number): number {
  let crc = 0;
  for (let at = from; at < to; at++) {
    crc ^= view.getUint8(at);
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x80 ? 0x07 : 0)) & 0xff;
  }
  return crc;
}

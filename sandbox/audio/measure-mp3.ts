/** The length of an mp3: the sum of its frames. An index frame (Xing, Info) does not count. */
type Tag = (at: number, length?: number) => string;

const KBITS_V1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const KBITS_V2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
const RATES_V1 = [44_100, 48_000, 32_000];

interface Frame {
  readonly bytes: number;
  readonly ms: number;
}

export function measureMp3(view: DataView, tag: Tag): number | undefined {
  let at = tag(0, 3) === "ID3" ? 10 + synchsafe(view, 6) : 0;
  let ms = 0;
  let frames = 0;
  while (at + 4 <= view.byteLength) {
    const frame = frameAt(view, at);
    if (!frame) {
      at += 1;
      continue;
    }
    const index = frames === 0 && /Xing|Info/.test(tag(at, Math.min(frame.bytes, 64)));
    if (!index) ms += frame.ms;
    frames += 1;
    at += frame.bytes;
  }
  return frames > 0 ? ms : undefined;
}

/** Layer III of MPEG 1, 2 and 2.5. */
function frameAt(view: DataView, at: number): Frame | undefined {
  const header = view.getUint32(at);
  const version = (header >>> 19) & 3;
  const layer = (header >>> 17) & 3;
  if (header >>> 21 !== 0x7ff || version === 1 || layer !== 1) return undefined;
  const first = version === 3;
  const kbits = (first ? KBITS_V1 : KBITS_V2)[(header >>> 12) & 15] ?? 0;
  const rate = (RATES_V1[(header >>> 10) & 3] ?? 0) / (first ? 1 : version === 2 ? 2 : 4);
  if (kbits === 0 || rate === 0) return undefined;
  const samples = first ? 1_152 : 576;
  const padding = (header >>> 9) & 1;
  return { bytes: Math.floor((samples / 8) * ((kbits * 1000) / rate)) + padding, ms: (samples / rate) * 1000 };
}

const synchsafe = (view: DataView, at: number): number =>
  [0, 1, 2, 3].reduce((value, index) => (value << 7) | (view.getUint8(at + index) & 0x7f), 0);

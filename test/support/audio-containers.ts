/** Small writers of m4a, webm and flac; see `audio.ts`. */
import { ascii, bigEndian, concat } from "../../sandbox/bytes.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const zeros = (length: number): Bytes => new Uint8Array(length);
const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));

const box = (type: string, ...body: readonly Bytes[]): Bytes => {
  const inner = concat(body);
  return concat([bigEndian(4, inner.length + 8), ascii(type), inner]);
};

export interface M4aOptions {
  /** AAC frames of 1024 samples. */
  readonly frames: number;
  /** Of the decoder's configuration; 48 kHz or 24 kHz. */
  readonly rate?: 48_000 | 24_000;
  /** What movie and media headers claim, in seconds (nothing). */
  readonly claimedSeconds?: number;
  /** Units a second (the rate). */
  readonly timescale?: number;
  /** Units a frame in the sample table (1024). */
  readonly delta?: number;
  /** Bytes a frame (200). */
  readonly frameBytes?: number;
  /** Frames a chunk (10). */
  readonly perChunk?: number;
  /** True: one size for all frames instead of a table. */
  readonly constantSize?: boolean;
  /** True: the tables come before the sound. */
  readonly fastStart?: boolean;
}

export function m4a(options: M4aOptions): Bytes {
  const { frames, perChunk = 10, frameBytes = 200, constantSize = false } = options;
  const ftyp = box("ftyp", ascii("M4A "), bigEndian(4, 0));
  const mdat = box("mdat", zeros(frames * frameBytes));
  const chunks = Math.ceil(frames / perChunk);
  const moovAt = (first: number) => {
    const offsets = times(chunks, (chunk) => first + chunk * perChunk * frameBytes);
    const lastCount = frames - (chunks - 1) * perChunk;
    const sizes = constantSize ? [frameBytes, frames] : [0, frames, ...times(frames, () => frameBytes)];
    const tables = [
      box("stts", bigEndian(4, 0, 1, frames, options.delta ?? 1024)),
      box("stsc", bigEndian(4, 0, 2, 1, perChunk, 1, chunks, lastCount, 1)),
      box("stsz", bigEndian(4, 0, ...sizes)),
      box("stco", bigEndian(4, 0, chunks, ...offsets)),
    ];
    return moov(options, tables);
  };
  const headBytes = ftyp.length + 8;
  if (!options.fastStart) return concat([ftyp, mdat, moovAt(headBytes)]);
  return concat([ftyp, moovAt(headBytes + moovAt(0).length), mdat]);
}

/** Fragments of `perFragment` frames; each frame's duration and size by the fragment's defaults or by its run. */
export function fragmentedM4a(options: M4aOptions & { readonly inRuns?: boolean }): Bytes {
  const { frames, perChunk = 10, frameBytes = 200, delta = 1024, inRuns = false } = options;
  const empty = ["stts", "stsc", "stco"].map((type) => box(type, bigEndian(4, 0, 0)));
  const movie = moov(
    options,
    [...empty, box("stsz", bigEndian(4, 0, 0, 0))],
    box("trex", bigEndian(4, 0, 1, 1, delta, frameBytes, 0)),
  );
  const fragments = times(Math.ceil(frames / perChunk), (fragment) => {
    const count = Math.min(perChunk, frames - fragment * perChunk);
    const entries = times(count, () => bigEndian(4, delta, frameBytes));
    const moof = (offset: number) =>
      box(
        "moof",
        box("mfhd", bigEndian(4, 0, fragment + 1)),
        box(
          "traf",
          box("tfhd", bigEndian(4, 0x20000, 1)),
          box("trun", bigEndian(4, inRuns ? 0x301 : 1, count, offset), ...(inRuns ? entries : [])),
        ),
      );
    return concat([moof(moof(0).length + 8), box("mdat", zeros(count * frameBytes))]);
  });
  return concat([box("ftyp", ascii("M4A "), bigEndian(4, 0)), movie, ...fragments]);
}

function moov(options: M4aOptions, tables: readonly Bytes[], extends_?: Bytes): Bytes {
  const { rate = 48_000, claimedSeconds = 0, timescale = rate } = options;
  const config = Uint8Array.of(...(rate === 48_000 ? [0x11, 0x90] : [0x13, 0x10]));
  const decoder = descriptor(4, concat([Uint8Array.of(0x40, 0x15), zeros(11), descriptor(5, config)]));
  const esds = box("esds", zeros(4), descriptor(3, concat([zeros(3), decoder])));
  const entry = box("mp4a", zeros(6), bigEndian(2, 1), zeros(8), bigEndian(2, 1, 16, 0, 0, rate, 0), esds);
  return box(
    "moov",
    box("mvhd", bigEndian(4, 0, 0, 0, 1000, claimedSeconds * 1000), zeros(80)),
    box(
      "trak",
      box("tkhd", bigEndian(4, 7, 0, 0, 1, 0, claimedSeconds * 1000), zeros(60)),
      box(
        "mdia",
        box("mdhd", bigEndian(4, 0, 0, 0, timescale, claimedSeconds * timescale, 0)),
        box("hdlr", bigEndian(4, 0, 0), ascii("soun"), zeros(13)),
        box("minf", box("stbl", box("stsd", bigEndian(4, 0, 1), entry), ...tables)),
      ),
    ),
    ...(extends_ ? [box("mvex", extends_)] : []),
  );
}

const descriptor = (tag: number, body: Bytes): Bytes => concat([Uint8Array.of(tag, body.length), body]);

/** An element: id as written, content. `open`: of unknown size, as live recorders write them. */
export const ebml = (id: number, body: Bytes, open = false): Bytes => {
  const idBytes = bigEndian(4, id);
  const first = idBytes.findIndex((byte) => byte !== 0);
  const size = open ? [bigEndian(4, 0x01ffffff), bigEndian(4, 0xffffffff)] : [bigEndian(4, 0x10000000 + body.length)];
  return concat([idBytes.subarray(first), ...size, body]);
};

export interface WebmOptions {
  readonly codec: "A_OPUS" | "A_VORBIS" | "A_PCM/INT/LIT";
  readonly packets: readonly Bytes[];
  /** What a block's timestamp claims, in ms. */
  readonly claimedMs: (packet: number) => number;
  readonly privateData?: Bytes;
  readonly open?: boolean;
  readonly perCluster?: number;
}

export function webm(options: WebmOptions): Bytes {
  const { codec, packets, claimedMs, open = false, perCluster = 50 } = options;
  const track = concat([
    ebml(0xd7, Uint8Array.of(1)),
    ebml(0x83, Uint8Array.of(2)),
    ebml(0x86, ascii(codec)),
    ...(options.privateData ? [ebml(0x63a2, options.privateData)] : []),
  ]);
  const clusters = times(Math.ceil(packets.length / perCluster), (cluster) => {
    const first = cluster * perCluster;
    const base = claimedMs(first);
    const blocks = packets.slice(first, first + perCluster).map((packet, at) => {
      const relative = claimedMs(first + at) - base;
      return ebml(0xa3, concat([Uint8Array.of(0x81), bigEndian(2, relative), Uint8Array.of(0x80), packet]));
    });
    return ebml(0x1f43b675, concat([ebml(0xe7, bigEndian(4, base)), ...blocks]), open);
  });
  const info = ebml(0x1549a966, ebml(0x2ad7b1, bigEndian(4, 1_000_000)));
  const head = ebml(0x1a45dfa3, concat([ebml(0x4282, ascii("webm"))]));
  const segment = concat([info, ebml(0x1654ae6b, ebml(0xae, track)), ...clusters]);
  return concat([head, ebml(0x18538067, segment, open)]);
}

/** Frames of 4096 samples at 48 kHz, mono, 16 bits, each 14 bytes long; the header claims `claimedSamples`. */
export function flac(frames: number, claimedSamples = 0, minFrameBytes = 0): Bytes {
  const info = concat([
    bigEndian(2, 4096, 4096),
    bigEndian(4, minFrameBytes << 8),
    zeros(2),
    // 20 bits rate, 3 bits channels - 1, 5 bits depth - 1, 36 bits samples.
    bigEndian(4, (48_000 << 12) | (15 << 4), claimedSamples),
    zeros(16),
  ]);
  return concat([ascii("fLaC"), Uint8Array.of(0x80, 0, 0, info.length), info, ...times(frames, flacFrame)]);
}

function flacFrame(number: number): Bytes {
  const coded =
    number < 0x80
      ? [number]
      : number < 0x800
        ? [0xc0 | (number >> 6), 0x80 | (number & 0x3f)]
        : [0xe0 | (number >> 12), 0x80 | ((number >> 6) & 0x3f), 0x80 | (number & 0x3f)];
  const header = [0xff, 0xf8, 0xca, 0x08, ...coded];
  return Uint8Array.of(...header, crc8(header), 0, 0, 0, 0, 0);
}

function crc8(bytes: readonly number[]): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x80 ? 0x07 : 0)) & 0xff;
  }
  return crc;
}

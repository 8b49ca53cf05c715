/**
 * Small writers of recordings: each file is as long as its frames, packets or sample table say, and its headers may be
 * told to claim something else.
 */
import { ascii, bigEndian, concat, littleEndian } from "../../sandbox/bytes.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const zeros = (length: number): Bytes => new Uint8Array(length);
const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));

export interface WavOptions {
  readonly ms: number;
  readonly rate?: number;
  readonly channels?: number;
  readonly bits?: number;
  readonly format?: number;
  /** What the data chunk's header claims, in bytes (the truth). */
  readonly claimedBytes?: number;
  /** What the header claims to be read a second (the truth). */
  readonly claimedByteRate?: number;
  /** WAVE_FORMAT_EXTENSIBLE around the format. */
  readonly extensible?: boolean;
  /** Chunks between fmt and data, whole or of odd length. */
  readonly before?: readonly Bytes[];
  /** What stands behind the data. */
  readonly after?: Bytes;
}

export function wav(options: WavOptions): Bytes {
  const { ms, rate = 24_000, channels = 1, bits = 16, format = 1, extensible = false } = options;
  const dataBytes = ((ms * rate) / 1000) * channels * (bits / 8);
  const fmt = [
    littleEndian(2, extensible ? 0xfffe : format, channels),
    littleEndian(4, rate, options.claimedByteRate ?? rate * channels * (bits / 8)),
    littleEndian(2, channels * (bits / 8), bits),
    ...(extensible ? [littleEndian(2, 22, bits), littleEndian(4, 0), littleEndian(2, format), zeros(14)] : []),
  ];
  const data = concat([ascii("data"), littleEndian(4, options.claimedBytes ?? dataBytes), zeros(dataBytes)]);
  const body = [ascii("WAVE"), riffChunk("fmt ", concat(fmt)), ...(options.before ?? []), data];
  const whole = concat([...body, options.after ?? zeros(0)]);
  return concat([ascii("RIFF"), littleEndian(4, whole.length), whole]);
}

/** A chunk and, after an odd one, its pad byte. */
export const riffChunk = (id: string, body: Bytes): Bytes =>
  concat([ascii(id), littleEndian(4, body.length), body, zeros(body.length % 2)]);

/** Layer III frames of silence. `kind`: MPEG version and rate in Hz. */
export const MP3_KINDS = {
  /** 128 kbit/s, 44.1 kHz, stereo: 417 bytes, 1152 samples. */
  mpeg1: { header: [0xff, 0xfb, 0x90, 0x00], bytes: 417, ms: (1152 / 44_100) * 1000 },
  /** 32 kbit/s, 24 kHz, mono: 96 bytes, 576 samples. */
  mpeg2: { header: [0xff, 0xf3, 0x44, 0xc0], bytes: 96, ms: 24 },
  /** 8 kbit/s, 8 kHz, mono: 72 bytes, 576 samples. */
  mpeg25: { header: [0xff, 0xe3, 0x18, 0xc0], bytes: 72, ms: 72 },
  /** Layer I, 32 kbit/s, 32 kHz: 48 bytes, 384 samples. */
  layer1: { header: [0xff, 0xff, 0x18, 0xc0], bytes: 48, ms: 12 },
  /** Layer II, 64 kbit/s, 48 kHz: 192 bytes, 1152 samples. */
  layer2: { header: [0xff, 0xfd, 0x44, 0xc0], bytes: 192, ms: 24 },
} as const;
export type Mp3Kind = keyof typeof MP3_KINDS;

export function mp3Frames(kind: Mp3Kind, count: number): Bytes {
  const { header, bytes } = MP3_KINDS[kind];
  return concat(times(count, () => concat([Uint8Array.from(header), zeros(bytes - 4)])));
}

/** An index frame that claims a number of frames. */
export function xingFrame(claimedFrames: number): Bytes {
  const frame = mp3Frames("mpeg1", 1);
  frame.set(concat([ascii("Xing"), bigEndian(4, 1, claimedFrames)]), 36);
  return frame;
}

export function id3(bodyBytes: number): Bytes {
  const size = [21, 14, 7, 0].map((shift) => (bodyBytes >> shift) & 0x7f);
  // A body that looks like frames: it is to be skipped, not read.
  return concat([ascii("ID3"), Uint8Array.of(4, 0, 0, ...size), new Uint8Array(bodyBytes).fill(0xff)]);
}

/** One Ogg page for each list of packets. `granule`: what a page claims to end at. */
export function ogg(pages: readonly (readonly Bytes[])[], granule: (page: number) => number): Bytes {
  return concat(
    pages.map((packets, sequence) => {
      const lacing = packets.flatMap(({ length }) => [...times(Math.floor(length / 255), () => 255), length % 255]);
      const at = granule(sequence);
      return concat([
        ascii("OggS"),
        Uint8Array.of(0, sequence === 0 ? 2 : sequence === pages.length - 1 ? 4 : 0),
        littleEndian(4, at % 2 ** 32, Math.floor(at / 2 ** 32), 7, sequence, 0),
        Uint8Array.of(lacing.length, ...lacing),
        ...packets,
      ]);
    }),
  );
}

const OPUS_HEAD = concat([
  ascii("OpusHead"),
  Uint8Array.of(1, 1),
  littleEndian(2, 312),
  littleEndian(4, 48_000),
  zeros(3),
]);
const OPUS_TAGS = concat([ascii("OpusTags"), littleEndian(4, 3), ascii("tst"), littleEndian(4, 0)]);
/** CELT, full band, 20 ms, one frame. */
export const OPUS_20_MS = Uint8Array.of(0xf8, 0xff, 0xfe);
/** CELT, full band, 20 ms, three frames: 60 ms. */
export const OPUS_60_MS = Uint8Array.of(0xfb, 3, 0xff, 0xfe);
/** SILK, narrow band, 60 ms, two frames of one size: 120 ms. */
export const OPUS_120_MS = Uint8Array.of(0x19, 0, 0);

/** Pages of `perPage` packets; granule positions claim `claimedMs` at the end (nothing at all). */
export function oggOpus(packets: readonly Bytes[], perPage = 50, claimedMs = 0): Bytes {
  const pages = times(Math.ceil(packets.length / perPage), (at) => packets.slice(at * perPage, (at + 1) * perPage));
  return ogg([[OPUS_HEAD], [OPUS_TAGS], ...pages], (page) => (page < 2 ? 0 : claimedMs * 48));
}

/** Two modes: 0 has short blocks (256), 1 has long ones (2048). Only what a length needs is really there. */
export const VORBIS_HEADERS: readonly Bytes[] = [
  concat([
    Uint8Array.of(1),
    ascii("vorbis"),
    littleEndian(4, 0),
    Uint8Array.of(1),
    littleEndian(4, 48_000),
    zeros(12),
    Uint8Array.of(0xb8, 1),
  ]),
  concat([Uint8Array.of(3), ascii("vorbis"), littleEndian(4, 0, 0), Uint8Array.of(1)]),
  concat([Uint8Array.of(5), ascii("vorbis"), zeros(40), vorbisModes([0, 1])]),
];

/** The last fields of a setup header: 6 bits of count - 1, then 41 bits a mode, then the framing bit. */
function vorbisModes(blockFlags: readonly number[]): Bytes {
  const bits: number[] = [];
  const put = (value: number, width: number) => bits.push(...times(width, (bit) => (value >> bit) & 1));
  put(blockFlags.length - 1, 6);
  for (const flag of blockFlags) {
    put(flag, 1);
    put(0, 16);
    put(0, 16);
    put(0, 8);
  }
  put(1, 1);
  const bytes = zeros(Math.ceil(bits.length / 8));
  for (const [at, bit] of bits.entries()) bytes[at >> 3] = (bytes[at >> 3] ?? 0) | (bit << (at & 7));
  return bytes;
}
/** An audio packet of mode 0 or 1. */
export const vorbisPacket = (mode: 0 | 1): Bytes => Uint8Array.of(mode << 1, 0, 0, 0);

export function oggVorbis(packets: readonly Bytes[], claimedSamples = 0): Bytes {
  const pages = times(Math.ceil(packets.length / 50), (at) => packets.slice(at * 50, (at + 1) * 50));
  const [first, ...others] = VORBIS_HEADERS as [Bytes, ...Bytes[]];
  return ogg([[first], others, ...pages], (page) => (page < 2 ? 0 : claimedSamples));
}

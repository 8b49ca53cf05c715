/** Reads samples per frame and samples per second of AAC and ALAC from a track's sample description. */
import { type Box, type ByteReader, boxIn } from "./iso-box.ts";

export interface FrameLength {
  readonly samples: number;
  /** Hz. */
  readonly rate: number;
}

/** Bytes of an audio entry before its boxes, by its version (QuickTime's are longer). */
const ENTRY_BYTES = [28, 44, 64];

/** The box of this type in an audio entry, or in the `wave` box that QuickTime puts around it. */
function entryBox(file: ByteReader, entry: Box, type: string): Box | undefined {
  const parts = { ...entry, body: entry.body + (ENTRY_BYTES[file.u16(entry.body + 8)] ?? 28) };
  return boxIn(file, parts, type) ?? boxIn(file, boxIn(file, parts, "wave"), type);
}

const RATES = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
/** The index that means that the rate is written out. */
const OWN_RATE = 15;
/** MPEG-4 audio, and AAC as MPEG-2 has it. */
const AAC_TYPES = new Set([0x40, 0x66, 0x67, 0x68]);
/** Audio object types (ISO/IEC 14496-3, table 1.17). */
const SPECTRAL_BAND_REPLICATION = [5, 29];
const LOW_DELAY = [23, 39];

/** From the decoder's configuration; undefined if the entry is not AAC. */
export function aacFrame(file: ByteReader, entry: Box): FrameLength | undefined {
  const esds = entryBox(file, entry, "esds");
  const config = esds && decoderConfig(file, esds);
  if (config === undefined) return undefined;
  const bits = bitsFrom(file, config);
  const readType = () => {
    const type = bits(5);
    return type === 31 ? 32 + bits(6) : type;
  };
  const readRate = () => {
    const index = bits(4);
    return index === OWN_RATE ? bits(24) : (RATES[index] ?? 0);
  };
  let type = readType();
  const rate = readRate();
  bits(4);
  if (SPECTRAL_BAND_REPLICATION.includes(type)) {
    readRate();
    type = readType();
  }
  const isShort = bits(1) === 1;
  const samples = LOW_DELAY.includes(type) ? (isShort ? 480 : 512) : isShort ? 960 : 1024;
  return rate > 0 ? { samples, rate } : undefined;
}

/** The offset of the configuration, nested in descriptors 3, 4 and 5. */
function decoderConfig(file: ByteReader, esds: Box): number | undefined {
  const stream = descriptor(file, esds.body + 4, 3);
  if (stream === undefined) return undefined;
  const flags = file.u8(stream + 2);
  const url = flags & 0x40 ? 1 + file.u8(stream + 3 + (flags & 0x80 ? 2 : 0)) : 0;
  const decoder = descriptor(file, stream + 3 + (flags & 0x80 ? 2 : 0) + url + (flags & 0x20 ? 2 : 0), 4);
  if (decoder === undefined || !AAC_TYPES.has(file.u8(decoder))) return undefined;
  return descriptor(file, decoder + 13, 5);
}

/** The offset of a descriptor's content, after its tag and a length of one to four bytes. */
function descriptor(file: ByteReader, at: number, tag: number): number | undefined {
  if (file.u8(at) !== tag) return undefined;
  for (let length = 1; length <= 4; length++) {
    if (file.u8(at + length) < 0x80) return at + length + 1;
  }
  return undefined;
}

function bitsFrom(file: ByteReader, start: number): (count: number) => number {
  let at = start * 8;
  return (count) => {
    let value = 0;
    for (let index = 0; index < count; index++, at++) value = value * 2 + ((file.u8(at >> 3) >> (7 - (at & 7))) & 1);
    return value;
  };
}

/** From its `alac` box; undefined if there is none. */
export function alacFrame(file: ByteReader, entry: Box): FrameLength | undefined {
  const config = entryBox(file, entry, "alac");
  if (!config) return undefined;
  const [samples, rate] = [file.u32(config.body + 4), file.u32(config.body + 24)];
  return samples > 0 && rate > 0 ? { samples, rate } : undefined;
}

/**
 * Audio of a given length: wav with a real tone, mp3 and Opus in Ogg with silence, each in pieces as they are made.
 *
 * The file really has that length: wav to the millisecond, mp3 in frames of 24 ms, Opus in packets of 20 ms, both
 * rounded up. Granule positions, packets and frames agree.
 */
import { ascii, bigEndian, concat, littleEndian } from "../bytes.ts";

export type AudioFormat = "wav" | "mp3" | "opus";
export const CONTENT_TYPES: Readonly<Record<AudioFormat, string>> = {
  wav: "audio/wav",
  mp3: "audio/mpeg",
  opus: "audio/ogg",
};

export interface AudioPiece {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** How much audio has been made including this piece, ms. */
  readonly madeMs: number;
}

/** `streamed`: the wav's header is written before the length is known, so it carries the greatest possible length. */
export function encodeAudio(format: AudioFormat, ms: number, streamed: boolean): Iterable<AudioPiece> {
  if (format === "wav") return wav(ms, streamed);
  return format === "mp3" ? mp3(ms) : opus(ms);
}

const RATE = 24_000;
const SAMPLES_PER_MS = RATE / 1000;
const WAV_PIECE_MS = 250;
const UNKNOWN_SIZE = 0xffffffff;

function* wav(ms: number, streamed: boolean): Iterable<AudioPiece> {
  const dataBytes = ms * SAMPLES_PER_MS * 2;
  yield { bytes: wavHeader(streamed ? null : dataBytes), madeMs: 0 };
  const piece = tone(WAV_PIECE_MS);
  for (let at = 0; at < ms; at += WAV_PIECE_MS) {
    const length = Math.min(WAV_PIECE_MS, ms - at);
    yield { bytes: piece.slice(0, length * SAMPLES_PER_MS * 2), madeMs: at + length };
  }
}

/** 16 bits, mono. */
function wavHeader(dataBytes: number | null): Uint8Array<ArrayBuffer> {
  const riff = dataBytes === null ? UNKNOWN_SIZE : dataBytes + 36;
  return concat([
    ascii("RIFF"),
    littleEndian(4, riff),
    ascii("WAVEfmt "),
    littleEndian(4, 16),
    littleEndian(2, 1, 1),
    littleEndian(4, RATE, RATE * 2),
    littleEndian(2, 2, 16),
    ascii("data"),
    littleEndian(4, dataBytes ?? UNKNOWN_SIZE),
  ]);
}

/** A = 440 Hz, quiet. */
function tone(ms: number): Uint8Array<ArrayBuffer> {
  const samples = new DataView(new ArrayBuffer(ms * SAMPLES_PER_MS * 2));
  for (let index = 0; index < ms * SAMPLES_PER_MS; index++) {
    samples.setInt16(index * 2, Math.round(6_000 * Math.sin((2 * Math.PI * 440 * index) / RATE)), true);
  }
  return new Uint8Array(samples.buffer);
}

const MP3_FRAME_MS = 24;
const MP3_FRAMES_A_PIECE = 10;
/** MPEG-2 layer III, 32 kbit/s, 24 kHz, mono, no CRC. Empty side information means silence. */
const MP3_FRAME = concat([Uint8Array.of(0xff, 0xf3, 0x44, 0xc0), new Uint8Array(92)]);

function* mp3(ms: number): Iterable<AudioPiece> {
  const frames = Math.ceil(ms / MP3_FRAME_MS);
  for (let at = 0; at < frames; at += MP3_FRAMES_A_PIECE) {
    const count = Math.min(MP3_FRAMES_A_PIECE, frames - at);
    const bytes = concat(Array.from({ length: count }, () => MP3_FRAME));
    yield { bytes, madeMs: (at + count) * MP3_FRAME_MS };
  }
}

const OPUS_PACKET_MS = 20;
const OPUS_PACKETS_A_PAGE = 25;
/** Granule positions count samples at 48 kHz, whatever the input rate. */
const GRANULES_PER_MS = 48;
/** CELT, full band, 20 ms, mono: silence. */
const OPUS_SILENCE = Uint8Array.of(0xf8, 0xff, 0xfe);
const OGG_SERIAL = 0x746f6c6c;

function* opus(ms: number): Iterable<AudioPiece> {
  const head = concat([
    ascii("OpusHead"),
    Uint8Array.of(1, 1),
    littleEndian(2, 0),
    littleEndian(4, RATE),
    Uint8Array.of(0, 0, 0),
  ]);
  const vendor = ascii("sandbox");
  const tags = concat([ascii("OpusTags"), littleEndian(4, vendor.length), vendor, littleEndian(4, 0)]);
  yield { bytes: concat([oggPage([head], 0, 0, 2), oggPage([tags], 0, 1, 0)]), madeMs: 0 };
  const packets = Math.ceil(ms / OPUS_PACKET_MS);
  for (let at = 0, sequence = 2; at < packets; at += OPUS_PACKETS_A_PAGE, sequence++) {
    const count = Math.min(OPUS_PACKETS_A_PAGE, packets - at);
    const madeMs = (at + count) * OPUS_PACKET_MS;
    const last = at + count === packets ? 4 : 0;
    const page = Array.from({ length: count }, () => OPUS_SILENCE);
    yield { bytes: oggPage(page, madeMs * GRANULES_PER_MS, sequence, last), madeMs };
  }
}

/** One page of whole packets, each shorter than 255 bytes. `flags`: 2 begins the stream, 4 ends it. */
function oggPage(packets: readonly Uint8Array[], granule: number, sequence: number, flags: number) {
  const page = concat([
    ascii("OggS"),
    Uint8Array.of(0, flags),
    littleEndian(4, granule % 2 ** 32, Math.floor(granule / 2 ** 32)),
    littleEndian(4, OGG_SERIAL, sequence, 0),
    bigEndian(1, packets.length, ...packets.map((packet) => packet.length)),
    ...packets,
  ]);
  new DataView(page.buffer).setUint32(22, oggCrc(page), true);
  return page;
}

const OGG_CRC_TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index << 24;
  for (let bit = 0; bit < 8; bit++) value = value & 0x80000000 ? (value << 1) ^ 0x04c11db7 : value << 1;
  return value >>> 0;
});

function oggCrc(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) crc = ((crc << 8) ^ (OGG_CRC_TABLE[((crc >>> 24) ^ byte) & 0xff] ?? 0)) >>> 0;
  return crc;
}

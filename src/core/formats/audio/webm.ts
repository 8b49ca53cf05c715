/**
 * Measures a webm by its packets of Opus or Vorbis, or from its first timestamp to its last packet's end if that is
 * longer (a recorder may leave out silence). Durations in headers are ignored.
 */
import { opusPacketMs, VORBIS_TAIL_BYTES, VorbisClock } from "./packets.ts";

const ID = {
  segment: 0x18538067,
  info: 0x1549a966,
  timestampScale: 0x2ad7b1,
  tracks: 0x1654ae6b,
  track: 0xae,
  trackNumber: 0xd7,
  trackType: 0x83,
  codec: 0x86,
  codecPrivate: 0x63a2,
  contentEncodings: 0x6d80,
  cluster: 0x1f43b675,
  timestamp: 0xe7,
  simpleBlock: 0xa3,
  blockGroup: 0xa0,
  block: 0xa1,
} as const;
/** Elements to enter. Their contents are read as if they followed, so their sizes need not be known. */
const ENTERED: ReadonlySet<number> = new Set([ID.segment, ID.info, ID.tracks, ID.track, ID.cluster, ID.blockGroup]);
const AUDIO = 2;
const MAX_TRACKS = 64;
/** The first bytes of a cluster, to find the next one after broken data. */
const CLUSTER_BYTES = [0x1f, 0x43, 0xb6, 0x75];

interface Track {
  number: number;
  type: number;
  codec: string;
  /** Its packets are compressed or encrypted, which is not undone here. */
  encoded: boolean;
  vorbis: VorbisClock | undefined;
  packetsMs: number;
  /** Duration of its last packet. */
  packetMs: number;
  /** Timestamps of its first and last block and of the one before the last, in the file's units. */
  first: number | undefined;
  last: number;
  before: number;
}

const newTrack = (): Track => ({
  number: 0,
  type: AUDIO,
  codec: "",
  encoded: false,
  vorbis: undefined,
  packetsMs: 0,
  packetMs: 0,
  first: undefined,
  last: 0,
  before: 0,
});

/** Length in ms; null if it has no sound in a webm codec. */
export function webmMs(bytes: Uint8Array): number | null {
  const tracks: Track[] = [];
  let scaleNs = 1_000_000;
  let cluster = 0;
  for (let at = 0; at < bytes.length; ) {
    const id = vint(bytes, at, true);
    const size = id && vint(bytes, at + id.bytes, false);
    if (!id || !size) {
      at = nextCluster(bytes, at + 1);
      continue;
    }
    const body = at + id.bytes + size.bytes;
    const end = ENTERED.has(id.value) ? body : body + size.value;
    // An incomplete element cannot be played.
    if (end > bytes.length) break;
    if (id.value === ID.track && tracks.length < MAX_TRACKS) tracks.push(newTrack());
    else if (id.value === ID.timestampScale) scaleNs = unsigned(bytes, body, end);
    else if (id.value === ID.timestamp) cluster = unsigned(bytes, body, end);
    else if (id.value === ID.simpleBlock || id.value === ID.block) readBlock(bytes, body, end, cluster, tracks);
    else readTrackField(bytes, id.value, body, end, tracks.at(-1));
    at = end;
  }
  const longest = Math.max(0, ...tracks.filter(({ type }) => type === AUDIO).map((track) => trackMs(track, scaleNs)));
  return longest > 0 && Number.isFinite(longest) ? longest : null;
}

function trackMs({ codec, encoded, packetsMs, packetMs, first, last, before }: Track, scaleNs: number): number {
  if (first === undefined || encoded) return 0;
  const toMs = (units: number) => (units * scaleNs) / 1_000_000;
  if (codec === "A_OPUS" || codec === "A_VORBIS") return Math.max(packetsMs, toMs(last - first) + packetMs);
  // Codec unknown: the last block is assumed to last as long as the one before it.
  return codec === "" ? toMs(last - first + Math.max(0, last - before)) : 0;
}

function readTrackField(bytes: Uint8Array, id: number, from: number, to: number, track: Track | undefined): void {
  if (!track) return;
  if (id === ID.trackNumber) track.number = unsigned(bytes, from, to);
  if (id === ID.trackType) track.type = unsigned(bytes, from, to);
  if (id === ID.codec) track.codec = String.fromCharCode(...bytes.subarray(from, Math.min(to, from + 32)));
  if (id === ID.contentEncodings) track.encoded = true;
  if (id === ID.codecPrivate) track.vorbis = vorbisOf(bytes.subarray(from, to));
}

/** The three Vorbis headers in one block: their number minus one, the lengths of the first two, then the headers. */
function vorbisOf(data: Uint8Array): VorbisClock | undefined {
  if (data[0] !== 2) return undefined;
  const lengths: number[] = [];
  let at = 1;
  while (lengths.length < 2 && at < data.length) {
    const length = xiphSize(data, at);
    lengths.push(length.value);
    at += length.bytes;
  }
  const [first = 0] = lengths;
  return VorbisClock.from(data.subarray(at, at + first), data.subarray(Math.max(at, data.length - VORBIS_TAIL_BYTES)));
}

/** Reads a block: track number, timestamp within its cluster, flags, then one packet or several in laces. */
function readBlock(bytes: Uint8Array, from: number, end: number, cluster: number, tracks: Track[]): void {
  const number = vint(bytes, from, false);
  if (!number || from + number.bytes + 3 > end) return;
  let track = tracks.find((candidate) => candidate.number === number.value);
  if (!track) {
    if (tracks.length >= MAX_TRACKS) return;
    track = { ...newTrack(), number: number.value };
    tracks.push(track);
  }
  const at = from + number.bytes;
  const relative = (((bytes[at] ?? 0) << 24) | ((bytes[at + 1] ?? 0) << 16)) >> 16;
  track.before = track.last;
  track.last = cluster + relative;
  track.first ??= track.last;
  const lacing = ((bytes[at + 2] ?? 0) >> 1) & 3;
  for (const packet of packetsOf(bytes, at + 3, end, lacing)) {
    if (packet >= end) return;
    const [head = 0, second = 0] = [bytes[packet], bytes[packet + 1]];
    track.packetMs = track.codec === "A_OPUS" ? opusPacketMs(head, second) : (track.vorbis?.packetMs(head) ?? 0);
    track.packetsMs += track.packetMs;
  }
}

const XIPH_LACES = 1;
const FIXED_LACES = 2;
const EBML_LACES = 3;

/** The offsets of the packets in a block. */
function packetsOf(bytes: Uint8Array, from: number, end: number, lacing: number): number[] {
  if (lacing === 0) return [from];
  const count = (bytes[from] ?? 0) + 1;
  let at = from + 1;
  const sizes: number[] = [];
  if (lacing === FIXED_LACES) sizes.push(...Array.from({ length: count - 1 }, () => Math.floor((end - at) / count)));
  while (sizes.length < count - 1 && at < end) {
    const next = lacing === XIPH_LACES ? xiphSize(bytes, at) : vint(bytes, at, false);
    if (!next) break;
    // EBML laces: the first size, then differences, stored with an offset of half their range.
    const difference = next.value - (2 ** (7 * next.bytes - 1) - 1);
    const before = sizes.at(-1);
    sizes.push(lacing === EBML_LACES && before !== undefined ? Math.max(0, before + difference) : next.value);
    at += next.bytes;
  }
  const starts = [at];
  for (const size of sizes) starts.push((starts.at(-1) ?? at) + size);
  return starts;
}

/** A Xiph size: bytes of 255 and one below it, added up. */
function xiphSize(bytes: Uint8Array, at: number): { value: number; bytes: number } {
  let length = 1;
  while (bytes[at + length - 1] === 255) length++;
  return { value: (length - 1) * 255 + (bytes[at + length - 1] ?? 0), bytes: length };
}

/** A number of variable length; undefined if there is none. `keepMarker`: ids keep their length marker. */
function vint(bytes: Uint8Array, at: number, keepMarker: boolean): { value: number; bytes: number } | undefined {
  const first = bytes[at] ?? 0;
  const length = Math.clz32(first) - 23;
  if (length > (keepMarker ? 4 : 8) || at + length > bytes.length) return undefined;
  let value = keepMarker ? first : first & (0xff >> length);
  for (let index = 1; index < length; index++) value = value * 256 + (bytes[at + index] ?? 0);
  return { value, bytes: length };
}

function unsigned(bytes: Uint8Array, from: number, to: number): number {
  let value = 0;
  for (let at = from; at < Math.min(to, from + 8); at++) value = value * 256 + (bytes[at] ?? 0);
  return value;
}

function nextCluster(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(0x1f, from); at !== -1; at = bytes.indexOf(0x1f, at + 1)) {
    if (CLUSTER_BYTES.every((byte, index) => bytes[at + index] === byte)) return at;
  }
  return bytes.length;
}

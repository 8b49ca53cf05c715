/**
 * Measures an m4a (ISO media): the durations in its sample tables or fragments, of those samples whose bytes are in the
 * file. Durations in movie, track and media headers are ignored. The time scale comes from a header too, so it could be
 * false: if AAC or ALAC give their own rate, and the tables give less than the frames do, the frames count.
 */

import { type Box, type ByteReader, boxesOf, boxIn, readerOf } from "./iso-box.ts";
import { aacFrame, alacFrame, type FrameLength } from "./iso-codec.ts";

/** What is collected about one track. */
interface Track {
  readonly id: number;
  timescale: number;
  isAudio: boolean;
  /** A sample's length by the decoder's configuration; undefined for other codecs. */
  frame: FrameLength | undefined;
  /** Samples whose bytes are in the file, and their duration by the tables, in units of the time scale. */
  samples: number;
  units: number;
}
const MAX_TRACKS = 64;
interface FragmentDefaults {
  readonly duration: number;
  readonly size: number;
}

/** Whole length in ms; null if there is no sound. */
export function isoMs(bytes: Uint8Array): number | null {
  const file = readerOf(bytes);
  const tracks: Track[] = [];
  const defaults = new Map<number, FragmentDefaults>();
  for (const top of boxesOf(file, 0, file.length)) {
    if (top.type === "moov") readMovie(file, top, tracks, defaults);
    if (top.type === "moof") readFragment(file, top, tracks, defaults);
  }
  const longest = Math.max(0, ...tracks.filter(({ isAudio }) => isAudio).map(trackMs));
  return longest > 0 && Number.isFinite(longest) ? longest : null;
}

function trackMs({ timescale, units, samples, frame }: Track): number {
  const tableMs = timescale > 0 ? (units / timescale) * 1000 : 0;
  if (!frame) return tableMs;
  const frameMs = (frame.samples / frame.rate) * 1000;
  // The last frame may be played only in part.
  return samples * frameMs - tableMs > frameMs ? samples * frameMs : tableMs;
}

function readMovie(file: ByteReader, movie: Box, tracks: Track[], defaults: Map<number, FragmentDefaults>): void {
  for (const part of boxesOf(file, movie.body, movie.end)) {
    if (part.type === "trak" && tracks.length < MAX_TRACKS) tracks.push(readTrack(file, part));
    if (part.type !== "mvex") continue;
    for (const { type, body } of boxesOf(file, part.body, part.end)) {
      if (type !== "trex" || defaults.size >= MAX_TRACKS) continue;
      defaults.set(file.u32(body + 4), { duration: file.u32(body + 12), size: file.u32(body + 16) });
    }
  }
}

function readTrack(file: ByteReader, trak: Box): Track {
  const media = boxIn(file, trak, "mdia");
  const tables = boxIn(file, boxIn(file, media, "minf"), "stbl");
  const header = boxIn(file, trak, "tkhd")?.body;
  const mediaHeader = boxIn(file, media, "mdhd")?.body;
  const handler = boxIn(file, media, "hdlr")?.body;
  const isWide = (body: number) => file.u8(body) === 1;
  return {
    id: header === undefined ? 0 : file.u32(header + (isWide(header) ? 20 : 12)),
    timescale: mediaHeader === undefined ? 0 : file.u32(mediaHeader + (isWide(mediaHeader) ? 20 : 12)),
    isAudio: handler === undefined || file.tag(handler + 8) === "soun",
    frame: frameOf(file, boxIn(file, tables, "stsd")),
    ...countSamples(file, tables),
  };
}

function frameOf(file: ByteReader, description: Box | undefined): FrameLength | undefined {
  if (!description) return undefined;
  const [entry] = boxesOf(file, description.body + 8, description.end);
  if (!entry) return undefined;
  if (entry.type === "mp4a") return aacFrame(file, entry);
  return entry.type === "alac" ? alacFrame(file, entry) : undefined;
}

/** Walks the chunks. A sample counts if its bytes are within the file. */
function countSamples(file: ByteReader, tables: Box | undefined): { samples: number; units: number } {
  const table = (...types: string[]) => boxIn(file, tables, ...types);
  const durations = new Durations(file, table("stts"));
  const [sizes, chunks, runs] = [table("stsz"), table("stco", "co64"), table("stsc")];
  if (!sizes || !chunks || !runs) return durations.take(Number.POSITIVE_INFINITY);
  const fixedSize = file.u32(sizes.body + 4);
  const claimed = file.u32(sizes.body + 8);
  const sampleCount = fixedSize > 0 ? claimed : Math.min(claimed, entriesOf(sizes, 12, 4));
  const isWide = chunks.type === "co64";
  const chunkCount = Math.min(file.u32(chunks.body + 4), entriesOf(chunks, 8, isWide ? 8 : 4));
  const runCount = Math.min(file.u32(runs.body + 4), entriesOf(runs, 8, 12));
  const total = { samples: 0, units: 0 };
  let sample = 0;
  let run = 0;
  for (let chunk = 0; chunk < chunkCount && sample < sampleCount; chunk++) {
    while (run + 1 < runCount && file.u32(runs.body + 8 + (run + 1) * 12) <= chunk + 1) run++;
    const inChunk = Math.min(file.u32(runs.body + 8 + run * 12 + 4), sampleCount - sample);
    const offset = isWide ? file.u64(chunks.body + 8 + chunk * 8) : file.u32(chunks.body + 8 + chunk * 4);
    const sizeAt = (index: number) => file.u32(sizes.body + 12 + (sample + index) * 4);
    const there = samplesThere(file.length - offset, inChunk, fixedSize, sizeAt);
    const played = durations.take(there);
    total.samples += there;
    total.units += played.units;
    durations.take(inChunk - there);
    sample += inChunk;
  }
  return total;
}

/** How many consecutive samples fit into `room` bytes. */
function samplesThere(room: number, count: number, fixedSize: number, sizeAt: (index: number) => number): number {
  if (fixedSize > 0) return Math.max(0, Math.min(count, Math.floor(room / fixedSize)));
  let there = 0;
  for (let left = room; there < count; there++) {
    left -= sizeAt(there);
    if (left < 0) break;
  }
  return there;
}

const entriesOf = (box: Box, headBytes: number, entryBytes: number): number =>
  Math.max(0, Math.floor((box.end - box.body - headBytes) / entryBytes));

/** The table of durations, as runs of samples of equal duration. */
class Durations {
  readonly #file: ByteReader;
  readonly #at: number;
  readonly #runs: number;
  #run = 0;
  #taken = 0;

  constructor(file: ByteReader, table: Box | undefined) {
    this.#file = file;
    this.#at = (table?.body ?? 0) + 8;
    this.#runs = table ? Math.min(file.u32(table.body + 4), entriesOf(table, 8, 8)) : 0;
  }

  /** Takes the next samples; gives their number and duration. */
  take(samples: number): { samples: number; units: number } {
    let units = 0;
    let left = samples;
    for (; left > 0 && this.#run < this.#runs; ) {
      const at = this.#at + this.#run * 8;
      const some = Math.min(left, this.#file.u32(at) - this.#taken);
      units += some * this.#file.u32(at + 4);
      left -= some;
      this.#taken += some;
      if (this.#taken === this.#file.u32(at)) {
        this.#run++;
        this.#taken = 0;
      }
    }
    return { samples: Number.isFinite(samples) ? samples - left : 0, units };
  }
}

function readFragment(file: ByteReader, moof: Box, tracks: Track[], defaults: Map<number, FragmentDefaults>): void {
  for (const traf of boxesOf(file, moof.body, moof.end)) {
    if (traf.type !== "traf") continue;
    const header = boxIn(file, traf, "tfhd");
    const track = header && tracks.find(({ id }) => id === file.u32(header.body + 4));
    if (!header || !track) continue;
    const flags = file.u32(header.body) & 0xffffff;
    let at = header.body + 8;
    const field = (flag: number, bytes: number) => {
      if (!(flags & flag)) return undefined;
      at += bytes;
      return bytes === 8 ? file.u64(at - 8) : file.u32(at - 4);
    };
    const base = field(1, 8) ?? moof.start;
    field(2, 4);
    const preset = defaults.get(track.id);
    const duration = field(8, 4) ?? preset?.duration ?? 0;
    const size = field(0x10, 4) ?? preset?.size ?? 0;
    let data = base;
    for (const run of boxesOf(file, traf.body, traf.end)) {
      if (run.type === "trun") data = readRun(file, run, track, { base, data, duration, size });
    }
  }
}

/** Reads one run; returns where the next run's bytes begin. */
function readRun(
  file: ByteReader,
  { body, end }: Box,
  track: Track,
  preset: { base: number; data: number; duration: number; size: number },
): number {
  const flags = file.u32(body) & 0xffffff;
  const claimed = file.u32(body + 4);
  const stride = 4 * [0x100, 0x200, 0x400, 0x800].filter((flag) => flags & flag).length;
  let at = body + 8;
  let data = preset.data;
  if (flags & 1) {
    data = preset.base + (file.u32(at) | 0);
    at += 4;
  }
  if (flags & 4) at += 4;
  if (stride === 0) {
    const there = samplesThere(file.length - data, claimed, Math.max(1, preset.size), () => 0);
    track.samples += there;
    track.units += there * preset.duration;
    return data + claimed * preset.size;
  }
  const count = Math.min(claimed, Math.max(0, Math.floor((end - at) / stride)));
  for (let sample = 0; sample < count; sample++, at += stride) {
    data += flags & 0x200 ? file.u32(at + (flags & 0x100 ? 4 : 0)) : preset.size;
    if (data > file.length) break;
    track.samples++;
    track.units += flags & 0x100 ? file.u32(at) : preset.duration;
  }
  return data;
}

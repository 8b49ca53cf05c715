/**
 * Measures an Ogg file by its packets, in Opus or Vorbis. Granule positions, which say where a page ends, are not
 * trusted: a sender can write any value. Only the one of a last page may shorten its last packet. Chained streams add
 * up.
 */
import { joinBytes } from "../bytes.ts";
import { opusPacketMs, VORBIS_TAIL_BYTES, VorbisClock } from "./packets.ts";
import { type AudioWindow, MAX_FALSE_STARTS, type Tally, type Walk } from "./window.ts";

const PAGE_HEADER_BYTES = 27;
const BEGINS = 2;
const ENDS = 4;
/** The most streams open at once; the oldest is forgotten. */
const MAX_OPEN_STREAMS = 16;
/** The most streams in total. */
const MAX_STREAMS = 1024;
const NO_BYTES = new Uint8Array();

export const isOgg = (window: AudioWindow): boolean => window.tag("OggS");

export function* walkOgg(window: AudioWindow, tally: Tally): Walk {
  const streams = new Map<number, OggStream>();
  for (let falseStarts = 0, begun = 0; falseStarts < MAX_FALSE_STARTS && begun <= MAX_STREAMS; ) {
    while (!window.has(PAGE_HEADER_BYTES)) yield;
    if (!isOgg(window)) {
      falseStarts++;
      window.skip(1);
      while (!window.find(0x4f, 0xff, 0x67)) yield;
      continue;
    }
    const segments = window.u8(26);
    while (!window.has(PAGE_HEADER_BYTES + segments)) yield;
    let bodyBytes = 0;
    for (let at = 0; at < segments; at++) bodyBytes += window.u8(PAGE_HEADER_BYTES + at);
    // An incomplete page cannot be played.
    while (!window.has(PAGE_HEADER_BYTES + segments + bodyBytes)) yield;
    if (window.u8(5) & BEGINS) begun++;
    tally.ms += streamOf(window, streams)?.page(window, segments) ?? 0;
    window.skip(PAGE_HEADER_BYTES + segments + bodyBytes);
  }
  tally.unreadable = true;
}

function streamOf(window: AudioWindow, streams: Map<number, OggStream>): OggStream | undefined {
  const serial = window.u32le(14);
  if (window.u8(5) & BEGINS) {
    streams.delete(serial);
    const [oldest] = streams.keys();
    if (streams.size === MAX_OPEN_STREAMS && oldest !== undefined) streams.delete(oldest);
    streams.set(serial, new OggStream());
  }
  return streams.get(serial);
}

/** One logical stream: two header packets of Opus or three of Vorbis, then sound. */
class OggStream {
  #packets = 0;
  /** A packet continues from the previous page. */
  #open = false;
  /** Duration of the open packet. */
  #packetMs = 0;
  #codec: "opus" | "vorbis" | undefined;
  #identification: Uint8Array = NO_BYTES;
  #tail: Uint8Array = NO_BYTES;
  #vorbis: VorbisClock | undefined;

  /** Duration of the packets that end on the page ahead. */
  page(window: AudioWindow, segments: number): number {
    let ms = 0;
    let at = PAGE_HEADER_BYTES + segments;
    for (let segment = 0; segment < segments; segment++) {
      const size = window.u8(PAGE_HEADER_BYTES + segment);
      if (!this.#open) this.#begin(window, at, size);
      if (this.#packets === 2 && this.#codec === "vorbis") this.#keepTail(window.view(at, at + size));
      at += size;
      this.#open = size === 255;
      if (!this.#open) ms += this.#end();
    }
    if (this.#vorbis && window.u8(5) & ENDS) ms -= this.#vorbis.trimmedMs(window.u32le(6));
    return ms;
  }

  #begin(window: AudioWindow, at: number, size: number): void {
    this.#packetMs = 0;
    if (this.#packets === 0) {
      this.#identification = window.view(at, at + size).slice();
      this.#codec = window.tag("OpusHead", at) ? "opus" : window.tag("\x01vorbis", at) ? "vorbis" : undefined;
    } else if (this.#codec === "opus" && this.#packets >= 2 && size > 0) {
      this.#packetMs = opusPacketMs(window.u8(at), size > 1 ? window.u8(at + 1) : 0);
    } else if (this.#vorbis && size > 0) {
      this.#packetMs = this.#vorbis.packetMs(window.u8(at));
    }
  }

  #end(): number {
    if (this.#packets === 2 && this.#codec === "vorbis") {
      this.#vorbis = VorbisClock.from(this.#identification, this.#tail);
    }
    this.#packets++;
    return this.#packetMs;
  }

  #keepTail(piece: Uint8Array): void {
    this.#tail = joinBytes([this.#tail, piece]).slice(-VORBIS_TAIL_BYTES);
  }
}

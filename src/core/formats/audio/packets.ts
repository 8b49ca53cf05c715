/** Durations of Opus and Vorbis packets, from their own first bytes. */

/** An Opus packet plays at most this long (RFC 6716, section 3.2.5). */
const LONGEST_OPUS_MS = 120;

/** Duration by the packet's first two bytes (RFC 6716, section 3.1); an empty packet has none. */
export function opusPacketMs(first: number, second: number): number {
  const config = first >> 3;
  let frameMs = [2.5, 5, 10, 20][config & 3] ?? 0;
  if (config < 12) frameMs = [10, 20, 40, 60][config & 3] ?? 0;
  else if (config < 16) frameMs = config & 1 ? 20 : 10;
  const code = first & 3;
  const frames = code === 0 ? 1 : code === 3 ? second & 0x3f : 2;
  return Math.min(LONGEST_OPUS_MS, frames * frameMs);
}

/** The needed part of a Vorbis setup header is in its last bytes: at most 64 modes of 41 bits each. */
export const VORBIS_TAIL_BYTES = 400;

/** Adds up Vorbis packets: each overlaps half of the previous one (Vorbis I specification, section 1.3.2). */
export class VorbisClock {
  readonly #rate: number;
  readonly #blocks: readonly [number, number];
  readonly #longModes: readonly boolean[];
  #before: number | undefined;
  #samples = 0;

  private constructor(rate: number, blocks: readonly [number, number], longModes: readonly boolean[]) {
    this.#rate = rate;
    this.#blocks = blocks;
    this.#longModes = longModes;
  }

  /** From the identification header and the end of the setup header; undefined if they are invalid. */
  static from(identification: Uint8Array, setupTail: Uint8Array): VorbisClock | undefined {
    const view = new DataView(identification.buffer, identification.byteOffset, identification.length);
    if (identification.length < 29) return undefined;
    const rate = view.getUint32(12, true);
    const sizes = view.getUint8(28);
    const modes = readModes(setupTail);
    if (rate === 0 || !modes) return undefined;
    return new VorbisClock(rate, [1 << (sizes & 15), 1 << (sizes >> 4)], modes);
  }

  /** Duration of this packet by its first byte. The first packet has none: it only prepares the next. */
  packetMs(first: number): number {
    // The lowest bit marks headers. The mode's number follows, in as many bits as the number of modes needs.
    if (first & 1) return 0;
    const bits = 32 - Math.clz32(this.#longModes.length - 1);
    const mode = (first >> 1) & ((1 << bits) - 1);
    const block = this.#blocks[this.#longModes[mode] ? 1 : 0];
    const samples = this.#before === undefined ? 0 : (this.#before + block) / 4;
    this.#before = block;
    this.#samples += samples;
    return (samples / this.#rate) * 1000;
  }

  /** The part of the last packet that is cut off by a stream that ends at `endSample`. Larger cuts are ignored. */
  trimmedMs(endSample: number): number {
    const excess = this.#samples - endSample;
    return excess > 0 && excess < this.#blocks[1] ? (excess / this.#rate) * 1000 : 0;
  }
}

const MODE_BITS = 41;
const MOST_MODES = 64;

/**
 * Which modes have long blocks. The modes are at the end of the setup header, so they are found backwards, without
 * reading all before them: a framing bit, before it the modes (a flag, 32 zero bits and a mapping below 64 each),
 * before them their count in six bits. The longest run that agrees with its count is taken.
 */
function readModes(tail: Uint8Array): boolean[] | undefined {
  const bit = (at: number) => ((tail[at >> 3] ?? 0) >> (at & 7)) & 1;
  const number = (at: number, width: number) => {
    let value = 0;
    for (let index = 0; index < width; index++) value += bit(at + index) * 2 ** index;
    return value;
  };
  let end = tail.length * 8 - 1;
  while (end >= 0 && bit(end) === 0) end--;
  let found: boolean[] | undefined;
  const flags: boolean[] = [];
  for (let at = end - MODE_BITS; at >= 6 && flags.length < MOST_MODES; at -= MODE_BITS) {
    if (number(at + 1, 32) !== 0 || number(at + 33, 8) > 63) break;
    flags.unshift(bit(at) === 1);
    if (number(at - 6, 6) === flags.length - 1) found = [...flags];
  }
  return found;
}

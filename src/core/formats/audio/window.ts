/**
 * The part of an audio stream that is being looked at: what a chunk left over and the chunk that came.
 *
 * A walker is a generator over a window: it reads ahead, skips, and yields when it needs more bytes than are there. What
 * it keeps from one chunk to the next is at most the few bytes it is waiting to complete (an Ogg page: 65 KB), so that
 * any length of audio passes in constant memory.
 */

/** Yields to wait for the next chunk; returns when nothing more can be told. */
export type Walk = Generator<undefined, void, void>;

/** What a walker has found so far. */
export interface Tally {
  /** Length of the audio that came, ms, not rounded. */
  ms: number;
  /** True once it is known not to be audio that can be measured. */
  unreadable: boolean;
}

/** After so many places that looked like the beginning of a frame and were none, it is no audio. */
export const MAX_FALSE_STARTS = 65_536;

const EMPTY = new Uint8Array();

export class AudioWindow {
  #bytes: Uint8Array = EMPTY;
  /** May lie beyond the bytes: those in between are skipped when they come. */
  #at = 0;

  add(chunk: Uint8Array): void {
    const left = this.left;
    if (left > 0) {
      const whole = new Uint8Array(left + chunk.length);
      whole.set(this.#bytes.subarray(this.#at));
      whole.set(chunk, left);
      this.#bytes = whole;
      this.#at = 0;
      return;
    }
    this.#bytes = chunk;
    this.#at = -left;
  }

  /** Lets the chunk go; what is still waited with is copied. */
  release(): void {
    const left = this.left;
    this.#bytes = left > 0 ? this.#bytes.slice(this.#at) : EMPTY;
    this.#at = left > 0 ? 0 : -left;
  }

  /** Bytes ahead; negative where bytes that have not come are to be skipped. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  has(bytes: number): boolean {
    return this.left >= bytes;
  }

  skip(bytes: number): void {
    this.#at += bytes;
  }

  /** A byte ahead; zero where none is. */
  u8(offset: number): number {
    return this.#bytes[this.#at + offset] ?? 0;
  }
  u16le(offset: number): number {
    return this.u8(offset) | (this.u8(offset + 1) << 8);
  }
  u32le(offset: number): number {
    return this.u16le(offset) + this.u16le(offset + 2) * 0x10000;
  }
  u16be(offset: number): number {
    return (this.u8(offset) << 8) | this.u8(offset + 1);
  }
  u32be(offset: number): number {
    return this.u16be(offset) * 0x10000 + this.u16be(offset + 2);
  }

  /** Whether this text stands ahead. */
  tag(text: string, offset = 0): boolean {
    for (let index = 0; index < text.length; index++) {
      if (this.u8(offset + index) !== text.charCodeAt(index)) return false;
    }
    return true;
  }

  view(from: number, to: number): Uint8Array {
    return this.#bytes.subarray(this.#at + from, this.#at + to);
  }

  /**
   * Skips to the next byte `first` whose successor has the bits `value` under `mask`. False where none is there: then all
   * is skipped but for a last byte that may begin one.
   */
  find(first: number, mask: number, value: number): boolean {
    const last = this.#bytes.length - 1;
    if (this.left <= 0) return false;
    for (let at = this.#bytes.indexOf(first, this.#at); at !== -1; at = this.#bytes.indexOf(first, at + 1)) {
      this.#at = at;
      if (at === last) return false;
      if (((this.#bytes[at + 1] ?? 0) & mask) === value) return true;
    }
    this.#at = last + 1;
    return false;
  }
}

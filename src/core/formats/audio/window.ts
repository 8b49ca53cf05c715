/**
 * The part of an audio stream in memory: what is left of earlier chunks, and the current chunk.
 *
 * A walker is a generator over a window: it reads ahead, skips, and yields when it needs more bytes. From one chunk to
 * the next it keeps only the few bytes that it is waiting to complete (at most an Ogg page: 65 KB), so audio of any
 * length needs constant memory.
 */

/** Yields to wait for the next chunk; returns when nothing more can be measured. */
export type Walk = Generator<undefined, void, void>;

/** What a walker has found so far. */
export interface Tally {
  /** Length of the audio so far, ms, not rounded. */
  ms: number;
  /** True once it is known not to be measurable audio. */
  unreadable: boolean;
}

/** After this many false frame starts, the data is not audio. */
export const MAX_FALSE_STARTS = 65_536;

const EMPTY = new Uint8Array();

export class AudioWindow {
  #bytes: Uint8Array = EMPTY;
  /** The read position. It may be beyond the bytes: those in between are skipped when they arrive. */
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

  /** Releases the chunk's buffer; bytes still needed are copied. */
  release(): void {
    const left = this.left;
    this.#bytes = left > 0 ? this.#bytes.slice(this.#at) : EMPTY;
    this.#at = left > 0 ? 0 : -left;
  }

  /** Bytes ahead; negative if bytes yet to arrive will be skipped. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  has(bytes: number): boolean {
    return this.left >= bytes;
  }

  skip(bytes: number): void {
    this.#at += bytes;
  }

  /** The byte at an offset ahead; zero if there is none. */
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

  /** Whether this text is ahead. */
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
   * Skips to the next byte equal to `first` whose successor has the bits `value` under `mask`. If there is none, skips
   * everything except a last byte that may be a match, and returns false.
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

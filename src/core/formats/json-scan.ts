/**
 * Parses a JSON object from a stream of chunks, split anywhere, and reports where its top-level members begin and end.
 * It keeps only a stack of brackets and one short name, and looks at each byte once.
 *
 * Accepts what `JSON.parse` accepts, with or without a byte order mark, if it is an object at most `DEEPEST` deep.
 */
import { afterDigit, afterSign, INTEGER, isDigit, MINUS, ZERO } from "./json-number.ts";
import { ESCAPES, hexOf, isHex, readName } from "./json-text.ts";

export const DEEPEST = 512;
/** A longer top-level name is reported as null: it matches no known name. */
const LONGEST_NAME = 64;

/** Receives the events of the top-level object. `at` is an offset in the current chunk. */
export interface TopLevel {
  /** Its brace opens at `at`. */
  open(at: number): void;
  /** A member's name ends before `at`. */
  name(name: string | null, at: number): void;
  /** The member's value begins at `at` with the byte `first`. */
  begin(first: number, at: number): void;
  /** The member's value ends before `at`. */
  end(at: number): void;
  /** An object or array of the watched name, below the top, begins at `at`. */
  beginInside(at: number): void;
  /** It ends before `at`. One inside it is not reported. */
  endInside(at: number): void;
  /** Its brace closes at `at`. */
  close(at: number): void;
}

// States: what is expected next.
const START = 0;
const FIRST_NAME = 1;
const NAME = 2;
const COLON = 3;
const VALUE = 4;
const FIRST_ELEMENT = 5;
const AFTER_VALUE = 6;
const DONE = 7;
/** After the watched name. */
const WATCHED_VALUE = 8;
const LITERAL = 9;
const ESCAPE = 10;
const HEX = 11;
const TEXT = 12;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
export const OPEN_ARRAY = 0x5b;
export const OPEN_OBJECT = 0x7b;
const CLOSE_ARRAY = 0x5d;
const CLOSE_OBJECT = 0x7d;
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const LITERALS: Readonly<Record<number, string>> = { 116: "true", 102: "false", 110: "null" };

const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

export class JsonScan {
  readonly #listener: TopLevel;
  readonly #watched: string;
  /** A value that ends at this depth is reported: 1, or the depth of the watched member that is open. */
  #floor = 1;
  #state = START;
  #broken = false;
  /** Open brackets, outermost first. */
  readonly #brackets = new Uint8Array(DEEPEST);
  #depth = 0;
  #marked = 0;
  #inName = false;
  /** The current top-level name as written in the document; null once it is too long. */
  #name: string | null = "";
  /** How many characters of the watched name the current one begins with, below the top; -1: it differs. */
  #matched = 0;
  #literal = "";
  #literalAt = 0;
  #hexDue = 0;
  #hex = 0;
  /** Values of any type that have begun. */
  values = 0;
  /** Values directly inside the current top-level member. */
  elements = 0;
  /** Bytes of strings at any depth inside that member, except names. */
  textBytes = 0;

  /** `watched`: a name of ASCII that is looked for at any depth. */
  constructor(listener: TopLevel, watched: string) {
    this.#listener = listener;
    this.#watched = watched;
  }

  /** False once the input cannot be a JSON object. */
  push(chunk: Uint8Array): boolean {
    let at = 0;
    while (at < chunk.length && !this.#broken) {
      if (this.#state === TEXT) at = this.#text(chunk, at);
      else if (this.#state > TEXT) at = this.#number(chunk, at);
      else if (this.#state >= LITERAL) at = this.#inside(chunk, at);
      else at = this.#between(chunk[at] as number, at);
    }
    return !this.#broken;
  }

  /** True once the document is complete. */
  get done(): boolean {
    return this.#state === DONE && !this.#broken;
  }

  #break(at: number): number {
    this.#broken = true;
    return at;
  }

  /** Handles one byte between values. */
  #between(byte: number, at: number): number {
    if (isSpace(byte) && this.#marked % BYTE_ORDER_MARK.length === 0) return at + 1;
    switch (this.#state) {
      case START:
        return this.#start(byte, at);
      case FIRST_NAME:
        return byte === CLOSE_OBJECT ? this.#close(at) : this.#openName(byte, at);
      case NAME:
        return this.#openName(byte, at);
      case COLON:
        if (byte !== 0x3a) return this.#break(at);
        this.#state = this.#matched === this.#watched.length && this.#floor === 1 ? WATCHED_VALUE : VALUE;
        return at + 1;
      case FIRST_ELEMENT:
        return byte === CLOSE_ARRAY ? this.#close(at) : this.#value(byte, at);
      case WATCHED_VALUE:
        if (this.#depth > 1 && (byte === OPEN_OBJECT || byte === OPEN_ARRAY)) this.#openWatched(at);
        return this.#value(byte, at);
      case VALUE:
        return this.#value(byte, at);
      case AFTER_VALUE:
        return this.#afterValue(byte, at);
      default:
        return this.#break(at);
    }
  }

  #start(byte: number, at: number): number {
    if (byte === BYTE_ORDER_MARK[this.#marked]) {
      this.#marked++;
      return at + 1;
    }
    if (byte !== OPEN_OBJECT || this.#marked % BYTE_ORDER_MARK.length !== 0) return this.#break(at);
    this.values++;
    this.#listener.open(at);
    return this.#open(byte, at);
  }

  #open(bracket: number, at: number): number {
    if (this.#depth === DEEPEST) return this.#break(at);
    this.#brackets[this.#depth++] = bracket;
    this.#state = bracket === OPEN_OBJECT ? FIRST_NAME : FIRST_ELEMENT;
    return at + 1;
  }

  #close(at: number): number {
    this.#depth--;
    if (this.#depth > 0) return this.#ended(at + 1);
    this.#state = DONE;
    this.#listener.close(at);
    return at + 1;
  }

  #openName(byte: number, at: number): number {
    if (byte !== QUOTE) return this.#break(at);
    this.#inName = true;
    this.#name = "";
    this.#matched = 0;
    this.#state = TEXT;
    return at + 1;
  }

  #value(byte: number, at: number): number {
    this.values++;
    if (this.#depth === 1) this.#listener.begin(byte, at);
    else if (this.#depth === 2) this.elements++;
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) return this.#open(byte, at);
    if (byte === QUOTE) {
      this.#state = TEXT;
      return at + 1;
    }
    if (byte === 0x2d || isDigit(byte)) {
      this.#state = byte === 0x2d ? MINUS : byte === 0x30 ? ZERO : INTEGER;
      return at + 1;
    }
    const literal = LITERALS[byte];
    if (literal === undefined) return this.#break(at);
    this.#literal = literal;
    this.#literalAt = 1;
    this.#state = LITERAL;
    return at + 1;
  }

  /** A value ended before `at`. */
  #ended(at: number): number {
    this.#state = AFTER_VALUE;
    if (this.#depth <= this.#floor) this.#report(at);
    return at;
  }

  #report(at: number): void {
    this.#floor = 1;
    if (this.#depth === 1) this.#listener.end(at);
    else this.#listener.endInside(at);
  }

  #openWatched(at: number): void {
    this.#floor = this.#depth;
    this.#listener.beginInside(at);
  }

  #afterValue(byte: number, at: number): number {
    const inObject = this.#brackets[this.#depth - 1] === OPEN_OBJECT;
    if (byte === 0x2c) {
      this.#state = inObject ? NAME : VALUE;
      return at + 1;
    }
    return byte === (inObject ? CLOSE_OBJECT : CLOSE_ARRAY) ? this.#close(at) : this.#break(at);
  }

  /** Handles one byte of a literal or an escape. */
  #inside(chunk: Uint8Array, at: number): number {
    const byte = chunk[at] as number;
    if (this.#state === LITERAL) {
      if (byte !== this.#literal.charCodeAt(this.#literalAt++)) return this.#break(at);
      return this.#literalAt === this.#literal.length ? this.#ended(at + 1) : at + 1;
    }
    if (this.#inName && this.#depth === 1) this.#nameGoesOn(chunk, at, at + 1);
    if (this.#state === ESCAPE) {
      this.#hexDue = 4;
      this.#hex = 0;
      this.#state = byte === 0x75 ? HEX : TEXT;
      if (byte === 0x75) return at + 1;
      // What the short escapes stand for is in no name that is watched.
      this.#matched = -1;
      return ESCAPES.has(byte) ? at + 1 : this.#break(at);
    }
    if (!isHex(byte)) return this.#break(at);
    this.#hex = this.#hex * 16 + hexOf(byte);
    if (--this.#hexDue > 0) return at + 1;
    this.#match(this.#hex);
    this.#state = TEXT;
    return at + 1;
  }

  #text(chunk: Uint8Array, start: number): number {
    let at = start;
    let byte = 0;
    for (; at < chunk.length; at++) {
      byte = chunk[at] as number;
      if (byte === QUOTE || byte === BACKSLASH || byte < 0x20) break;
    }
    if (this.#inName) this.#nameGoesOn(chunk, start, at);
    else this.textBytes += at - start;
    if (at === chunk.length) return at;
    if (byte === BACKSLASH) {
      if (!this.#inName) this.textBytes++;
      else if (this.#depth === 1) this.#nameGoesOn(chunk, at, at + 1);
      this.#state = ESCAPE;
      return at + 1;
    }
    if (byte !== QUOTE) return this.#break(at);
    if (!this.#inName) return this.#ended(at + 1);
    this.#inName = false;
    this.#state = COLON;
    if (this.#depth > 1) return at + 1;
    this.elements = 0;
    this.textBytes = 0;
    this.#listener.name(readName(this.#name), at + 1);
    return at + 1;
  }

  /** Takes a piece of a name as it is written. Below the top it makes no strings: they cost more than all else. */
  #nameGoesOn(chunk: Uint8Array, from: number, to: number): void {
    if (this.#depth > 1) {
      for (let at = from; at < to && this.#matched >= 0; at++) this.#match(chunk[at] as number);
    } else if (this.#name !== null) {
      const fits = this.#name.length + to - from <= LONGEST_NAME;
      this.#name = fits ? this.#name + String.fromCharCode(...chunk.subarray(from, to)) : null;
    }
  }

  #match(character: number): void {
    this.#matched = character === this.#watched.charCodeAt(this.#matched) ? this.#matched + 1 : -1;
  }

  #number(chunk: Uint8Array, start: number): number {
    for (let at = start; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      const next = isDigit(byte) ? afterDigit(this.#state, byte) : afterSign(this.#state, byte);
      if (next === undefined) return this.#state >= ZERO ? this.#ended(at) : this.#break(at);
      this.#state = next;
    }
    return chunk.length;
  }
}

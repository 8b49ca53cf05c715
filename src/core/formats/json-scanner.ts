/**
 * One walk over a JSON document's bytes that checks values, names, depth and numbers, and cuts a large one into pieces.
 * Bytes above ASCII occur only in strings, so the encoding does not matter here. It uses local indexes and plain
 * comparisons because it runs for every byte that a client sends.
 */
import type { Steps } from "../steps.ts";
import { PIECE_SIZES, type PieceSizes, Pieces } from "./json-pieces.ts";

export const MAX_DEPTH = 64;
/** The most top-level fields: an object with a hundred thousand names is slow to build and copy. */
export const MAX_FIELDS = 1_000;
export const NOT_JSON = "The request body is not valid JSON.";

/** So many bytes are scanned in one step; a value counts as some more. */
const STEP_BYTES = 256 * 1024;
const BYTES_PER_VALUE = 16;

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

export class Scanner {
  readonly #bytes: Uint8Array;
  readonly #maxValues: number;
  readonly #longBytes: number;
  /** Null for a short document: it is parsed whole. */
  readonly #cuts: Pieces | null;
  values = 0;
  #names = 0;
  #fields = 0;
  /** Once it has run: the pieces of a large document. */
  pieces: ReturnType<Pieces["end"]> = null;

  constructor(bytes: Uint8Array, maxValues: number, sizes: PieceSizes = PIECE_SIZES) {
    this.#bytes = bytes;
    this.#maxValues = maxValues;
    this.#longBytes = sizes.longBytes;
    this.#cuts = bytes.length > sizes.wholeBytes ? new Pieces(sizes) : null;
  }

  /** Yields the work of each step; returns the refusal's message, or undefined. */
  *run(): Steps<string | undefined> {
    const bytes = this.#bytes;
    const length = bytes.length;
    const cuts = this.#cuts;
    let depth = 0;
    /** Where the last token began if it was a string, else -1. */
    let string = -1;
    let stringEnd = -1;
    let stepEnd = STEP_BYTES;
    for (let at = 0; at < length; at++) {
      if (at >= stepEnd) {
        yield STEP_BYTES;
        stepEnd = at + STEP_BYTES;
      }
      const code = bytes[at] as number;
      if (code <= SPACE) continue;
      if (code === COLON) {
        const fault = this.#name(string, stringEnd, depth);
        if (fault !== undefined) return fault;
        string = -1;
        continue;
      }
      if (string >= 0) {
        if (!this.#string(string, stringEnd)) return NOT_JSON;
        string = -1;
      }
      if (code === COMMA) {
        if (cuts && depth > 0) cuts.comma(at, this.#counted);
        continue;
      }
      if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
        if (--depth < 0 || cuts?.close(code, at, this.#counted) === false) return NOT_JSON;
        continue;
      }
      if (++this.values > this.#maxValues) return this.#tooMany();
      stepEnd -= BYTES_PER_VALUE;
      if (code === QUOTE) {
        string = at;
        at = this.#endOfString(at);
        stringEnd = at;
      } else if (code === OPEN_LIST || code === OPEN_OBJECT) {
        if (++depth > MAX_DEPTH) return `The request body is nested deeper than ${MAX_DEPTH} levels.`;
        cuts?.open(code, at, this.#counted);
      } else {
        const end = this.#endOfWord(at);
        const isNumber = code === MINUS || isDigit(code);
        if (isNumber && !survives(bytes, at, end)) {
          return `The number at position ${at} of the request body (in bytes) is too large to be kept exactly; send it as text.`;
        }
        if (end - at > LONGEST_WORD_BYTES) return NOT_JSON;
        at = end - 1;
      }
    }
    if (string >= 0 && !this.#string(string, stringEnd)) return NOT_JSON;
    this.pieces = cuts ? cuts.end(length, this.#counted) : null;
    return this.pieces === undefined ? "The request body is not valid JSON: it ends too early." : undefined;
  }

  get #counted(): number {
    return this.values + this.#names;
  }

  /** A colon says that the string before it, if there was one, is a name. */
  #name(start: number, end: number, depth: number): string | undefined {
    if (start < 0) return NOT_JSON;
    if (end - start > this.#longBytes) {
      return `A name in the request body is longer than ${this.#longBytes.toLocaleString("en-US")} bytes.`;
    }
    this.values--;
    if (++this.#names > this.#maxValues) return this.#tooMany();
    if (depth === 1 && ++this.#fields > MAX_FIELDS) return `The request body has more than ${MAX_FIELDS} fields.`;
    return undefined;
  }

  /** The string that opens at `start` is a value. False where it is no JSON. */
  #string(start: number, end: number): boolean {
    if (!this.#cuts || end - start <= this.#longBytes) return true;
    if (end >= this.#bytes.length) return false;
    return this.#cuts.large({ start: start + 1, end }, start, end + 1, this.#counted);
  }

  #tooMany(): string {
    return (
      `The request body holds more than ${this.#maxValues.toLocaleString("en-US")} JSON values; ` +
      "send fewer in one request."
    );
  }

  /** The index of the closing quote of the string that opens at `open`. */
  #endOfString(open: number): number {
    const bytes = this.#bytes;
    const length = bytes.length;
    let at = open + 1;
    while (at < length) {
      const code = bytes[at];
      if (code === QUOTE) return at;
      at += code === BACKSLASH ? 2 : 1;
    }
    return length;
  }

  /** The index after a number or `true`, `false`, `null`, where the next token may begin. */
  #endOfWord(start: number): number {
    const bytes = this.#bytes;
    const length = bytes.length;
    let at = start + 1;
    while (at < length && !endsWord(bytes[at] as number)) at++;
    return at;
  }
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;

const endsWord = (code: number): boolean =>
  code <= SPACE ||
  code === COMMA ||
  code === COLON ||
  code === QUOTE ||
  code === CLOSE_LIST ||
  code === CLOSE_OBJECT ||
  code === OPEN_LIST ||
  code === OPEN_OBJECT;

/**
 * Up to these lengths, a number without an exponent is neither an integer beyond 2^53 nor a fraction too large for a
 * double.
 */
const SAFE_INTEGER_BYTES = 15;
const SAFE_FRACTION_BYTES = 300;
/** Nobody writes longer numbers, and reading them takes time. */
const LONGEST_WORD_BYTES = 1_000;
const ascii = new TextDecoder();

function survives(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start > LONGEST_WORD_BYTES) return false;
  let safeBytes = SAFE_INTEGER_BYTES;
  for (let at = start; at < end; at++) {
    const code = bytes[at];
    if (code === 0x2e) safeBytes = SAFE_FRACTION_BYTES;
    if (code === 0x65 || code === 0x45) safeBytes = 0;
    if (safeBytes === 0 || at - start >= SAFE_FRACTION_BYTES) break;
  }
  if (end - start <= safeBytes) return true;
  const token = ascii.decode(bytes.subarray(start, end));
  const value = Number(token);
  if (Number.isNaN(value)) return true; // not a number: left to the grammar
  if (!Number.isFinite(value)) return false;
  return !/^-?\d+$/.test(token) || Number.isSafeInteger(value);
}

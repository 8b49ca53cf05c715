/**
 * Formats: how the bytes of each format are read and written (JSON, forms, SSE, audio, URLs). Must not know: endpoints,
 * prices, accounts.
 *
 * This file: JSON as the gateway accepts it. UTF-8, at most `MAX_VALUES` values and `MAX_DEPTH` deep, and only numbers
 * that survive being read and written again. Anything else is refused with its place, so that no value reaches an
 * upstream changed.
 *
 * All of this is checked on the bytes, in one pass that stops at the first fault, before any text or value is built: a
 * body of millions of values costs no more than its first 250,000.
 */
import { LONG_STRING_BYTES, putBack, readLongString, type Span, withPlaceholders } from "./long-strings.ts";

export const MAX_DEPTH = 64;
/** The most values in a document, including itself. Field names do not count. */
export const MAX_VALUES = 250_000;

/** The most top-level fields: an object with a hundred thousand names is slow to build and copy. */
export const MAX_FIELDS = 1_000;

export type ParsedJson = { ok: true; value: unknown } | { ok: false; message: string };
export type JsonText =
  | {
      ok: true;
      /** With placeholders for the strings that were read apart. */
      text: string;
      values: number;
      apart: readonly string[];
      marker: string;
    }
  | { ok: false; message: string };

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const NOT_JSON = "The request body is not valid JSON.";

/** Parses a document. Never throws. If a key is repeated, its last value wins. */
export function parseJson(bytes: Uint8Array, maxValues = MAX_VALUES): ParsedJson {
  const read = readText(bytes, maxValues);
  return read.ok ? parseText(read) : read;
}

/** The first half of `parseJson`; it needs the bytes, the second half does not. */
export function readText(bytes: Uint8Array, maxValues = MAX_VALUES, apart?: ReadApart): JsonText {
  const reading = readInTurns(bytes, maxValues, apart);
  for (;;) {
    const turn = reading.next();
    if (turn.done) return turn.value;
  }
}

/** How long strings are read apart (`long-strings.ts`). */
export interface ReadApart {
  /** Random, and unknown to whoever wrote the document. */
  readonly marker: string;
  readonly longBytes?: number;
  readonly partBytes?: number;
}

/** The same in turns: it yields after about `TURN_BYTES` of work, so that other requests are served in between. */
export function* readInTurns(
  bytes: Uint8Array,
  maxValues = MAX_VALUES,
  { marker, longBytes = LONG_STRING_BYTES, partBytes }: ReadApart = { marker: "", longBytes: Number.POSITIVE_INFINITY },
): Generator<undefined, JsonText> {
  const scanner = new Scanner(bytes, maxValues, longBytes);
  const message = scanner.run();
  if (message !== undefined) return { ok: false, message };
  const { values, long } = scanner;
  const apart: string[] = [];
  try {
    let sinceBytes = bytes.length > TURN_BYTES ? TURN_BYTES : 0;
    for (const span of long) {
      if (sinceBytes >= TURN_BYTES) {
        yield;
        sinceBytes = 0;
      }
      const reading = readLongString(bytes, span, partBytes);
      let part = reading.next();
      for (let parts = 1; !part.done; parts++) {
        if (parts % PARTS_PER_TURN === 0) yield;
        part = reading.next();
      }
      apart.push(part.value);
      sinceBytes += Math.min(span.end - span.start, TURN_BYTES);
    }
    if (bytes.length > TURN_BYTES) yield;
    let text = "";
    for (const piece of withPlaceholders(bytes, long, marker)) {
      text += typeof piece === "string" ? piece : decode(piece);
    }
    return { ok: true, text, values, apart, marker };
  } catch (error) {
    const isJson = error instanceof SyntaxError;
    return { ok: false, message: isJson ? NOT_JSON : "The request body is not valid UTF-8." };
  }
}

const TURN_BYTES = 1024 * 1024;
const PARTS_PER_TURN = 16;

/**
 * A long text is decoded in parts: at once, a decoder would hold a second copy at twice the width. The parts are short,
 * so that one wide character makes only its own part two bytes wide.
 */
const DECODED_AT_ONCE = 64 * 1024;

function decode(bytes: Uint8Array): string {
  if (bytes.length <= DECODED_AT_ONCE) return utf8.decode(bytes);
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let at = 0; at < bytes.length; at += DECODED_AT_ONCE) {
    text += decoder.decode(bytes.subarray(at, at + DECODED_AT_ONCE), { stream: true });
  }
  return text + decoder.decode();
}

/** The second half: the grammar is left to `JSON.parse`. */
export function parseText({ text, apart, marker }: JsonText & { ok: true }): ParsedJson {
  try {
    const value: unknown = JSON.parse(text);
    return { ok: true, value: apart.length === 0 ? value : putBack(value, marker, apart) };
  } catch (error) {
    // Where strings were taken out, the parser's positions are not the document's.
    const place = apart.length === 0 ? placeOf(error) : "";
    return { ok: false, message: `The request body is not valid JSON${place}.` };
  }
}

/**
 * The position in a parser's error, as the end of a sentence. The rest of that error is dropped: it may quote the text.
 */
function placeOf(error: unknown): string {
  const said = String(error);
  if (said.endsWith("Unexpected end of JSON input")) return ": it ends too early";
  const position = /in JSON at position (\d{1,9})(?: \(line \d+ column \d+\))?$/.exec(said)?.[1];
  return position === undefined ? "" : `: look at character ${Number(position) + 1}`;
}

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

/**
 * One walk over a document's bytes that checks values, names, depth and numbers. Bytes above ASCII occur only in
 * strings, so the encoding does not matter here. It uses a local index and plain comparisons because it runs for every
 * byte that a client sends.
 */
class Scanner {
  readonly #bytes: Uint8Array;
  readonly #maxValues: number;
  readonly #longBytes: number;
  values = 0;
  /** Values that are strings of at least `longBytes`. */
  readonly long: Span[] = [];

  constructor(bytes: Uint8Array, maxValues: number, longBytes: number) {
    this.#bytes = bytes;
    this.#maxValues = maxValues;
    this.#longBytes = longBytes;
  }

  /** The refusal's message; undefined if there is none. */
  run(): string | undefined {
    const bytes = this.#bytes;
    const length = bytes.length;
    let depth = 0;
    let names = 0;
    let fields = 0;
    let afterString = false;
    let nameEnd = -1;
    for (let at = 0; at < length; at++) {
      const code = bytes[at] as number;
      if (code <= SPACE) continue;
      if (code === COLON) {
        // The string before the colon was a name.
        if (!afterString) return NOT_JSON;
        this.values--;
        if (this.long.at(-1)?.end === nameEnd) this.long.pop();
        if (++names > this.#maxValues) return this.#tooMany();
        if (depth === 1 && ++fields > MAX_FIELDS) return `The request body has more than ${MAX_FIELDS} fields.`;
        afterString = false;
        continue;
      }
      afterString = false;
      if (code === COMMA) continue;
      if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
        if (--depth < 0) return NOT_JSON;
        continue;
      }
      if (++this.values > this.#maxValues) return this.#tooMany();
      if (code === QUOTE) {
        const start = at + 1;
        at = this.#endOfString(at);
        if (at - start >= this.#longBytes && at < length) this.long.push({ start, end: at });
        nameEnd = at;
        afterString = true;
      } else if (code === OPEN_LIST || code === OPEN_OBJECT) {
        if (++depth > MAX_DEPTH) return `The request body is nested deeper than ${MAX_DEPTH} levels.`;
      } else {
        const end = this.#endOfWord(at);
        if ((code === MINUS || isDigit(code)) && !survives(bytes, at, end)) {
          return `The number at position ${at} of the request body (in bytes) is too large to be kept exactly; send it as text.`;
        }
        at = end - 1;
      }
    }
    return undefined;
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
const ascii = new TextDecoder();

function survives(bytes: Uint8Array, start: number, end: number): boolean {
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

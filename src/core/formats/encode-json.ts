/**
 * Encodes JSON as UTF-8 in pieces; together they equal the output of `JSON.stringify`. Encoded at once, a text of 20 MB
 * is in memory three times, and at twice the width if one character is wide; an isolate has room for that only once.
 *
 * Parts are short, so that each is freed by a minor collection; longer strings would stay until the next full one.
 */
import { type Steps, WORK_PER_NAME, Work } from "../steps.ts";

const encoder = new TextEncoder();

/** Approximate number of characters per part. */
const PART_CHARACTERS = 16 * 1024;
const PIECE_BYTES = 256 * 1024;

/**
 * The bytes of `JSON.stringify(value)`, in order. `value` comes from `JSON.parse`, or is an object that may have
 * undefined fields.
 */
export function* encodeInSteps(
  value: unknown,
  partCharacters = PART_CHARACTERS,
  pieceBytes = PIECE_BYTES,
): Steps<Uint8Array<ArrayBuffer>[]> {
  const writer = new Writer(partCharacters, pieceBytes);
  yield* writer.write(value);
  return writer.end();
}

class Writer {
  readonly #most: number;
  readonly #pieceBytes: number;
  readonly #pieces: Uint8Array<ArrayBuffer>[] = [];
  #piece: Uint8Array<ArrayBuffer> | null = null;
  #filled = 0;
  #text: string[] = [];
  #characters = 0;
  readonly #work = new Work();

  constructor(most: number, pieceBytes: number) {
    this.#most = most;
    this.#pieceBytes = pieceBytes;
  }

  end(): Uint8Array<ArrayBuffer>[] {
    // What fits one part takes no more room than it needs.
    if (!this.#piece) return this.#characters > 0 ? [encoder.encode(this.#text.join(""))] : [];
    this.#flush();
    if (this.#filled > 0) this.#pieces.push(this.#piece.slice(0, this.#filled));
    return this.#pieces;
  }

  *write(value: unknown): Steps<void> {
    if (typeof value === "string" && value.length > this.#most) yield* this.#writeText(value);
    else if (typeof value !== "object" || value === null) this.#put(JSON.stringify(value));
    else if (sizeOf(value, this.#most + 1) <= this.#most) this.#put(JSON.stringify(value));
    else if (Array.isArray(value)) yield* this.#writeList(value);
    else yield* this.#writeObject(value as Record<string, unknown>);
  }

  *#writeText(text: string): Steps<void> {
    this.#put('"');
    for (let at = 0; at < text.length; ) {
      let end = Math.min(text.length, at + this.#most);
      // Do not split a surrogate pair: each half alone would be written as an escape.
      if (isHighSurrogate(text.charCodeAt(end - 1)) && isLowSurrogate(text.charCodeAt(end))) end++;
      this.#put(JSON.stringify(text.slice(at, end)).slice(1, -1));
      yield end - at;
      at = end;
    }
    this.#put('"');
  }

  /** Small items are written together. */
  *#writeList(items: readonly unknown[]): Steps<void> {
    this.#put("[");
    for (let at = 0; at < items.length; ) {
      if (at > 0) this.#put(",");
      let end = at;
      let room = this.#most;
      while (end < items.length && room > 0) {
        room -= sizeOf(items[end], room);
        if (room > 0 || end === at) end++;
      }
      if (end === at + 1) yield* this.write(items[at]);
      else this.#put(JSON.stringify(items.slice(at, end)).slice(1, -1));
      yield this.#most;
      at = end;
    }
    this.#put("]");
  }

  *#writeObject(fields: Record<string, unknown>): Steps<void> {
    yield this.#most;
    let before = "{";
    for (const name of Object.keys(fields)) {
      const value = fields[name];
      if (value === undefined) continue;
      this.#put(`${before}${JSON.stringify(name)}:`);
      before = ",";
      // Most fields are short.
      if (typeof value === "string" && value.length <= this.#most) this.#put(JSON.stringify(value));
      else yield* this.write(value);
      if (this.#work.add(WORK_PER_NAME)) yield this.#work.take();
    }
    this.#put(before === "{" ? "{}" : "}");
  }

  #put(text: string): void {
    this.#text.push(text);
    this.#characters += text.length;
    if (this.#characters >= this.#most) this.#flush();
  }

  /** Text never ends inside a pair of surrogates. */
  #flush(): void {
    let rest = this.#text.join("");
    this.#text = [];
    this.#characters = 0;
    while (rest !== "") {
      this.#piece ??= new Uint8Array(this.#pieceBytes);
      const { read, written } = encoder.encodeInto(rest, this.#piece.subarray(this.#filled));
      this.#filled += written;
      rest = rest.slice(read);
      if (rest === "") return;
      this.#pieces.push(this.#piece.subarray(0, this.#filled));
      this.#piece = null;
      this.#filled = 0;
    }
  }
}

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff;
const isLowSurrogate = (code: number): boolean => code >= 0xdc00 && code <= 0xdfff;

/** Approximate length of a value as JSON; counting stops at `enough`. */
function sizeOf(value: unknown, enough: number): number {
  if (typeof value === "string") return value.length + 2;
  if (typeof value !== "object" || value === null) return 8;
  let size = 2;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length && size < enough; at++) size += 1 + sizeOf(value[at], enough - size);
    return size;
  }
  for (const name in value) {
    if (size >= enough) break;
    size += 4 + name.length + sizeOf((value as Record<string, unknown>)[name], enough - size);
  }
  return size;
}

/**
 * A large document is given to `JSON.parse` in pieces. Given the whole, it would hold 20 MB of text two or three times,
 * twice as wide as soon as one character is, and nobody else would be served until it is done.
 *
 * While the document is scanned, `Pieces` cuts its lists and objects at commas into batches of members, and sets apart
 * what is too long for a batch: long strings, and lists and objects that were cut themselves. `build` parses each batch
 * in brackets of its own and puts the values together. The grammar stays the parser's: what lies between the pieces is
 * given to it as well.
 */
import { type Steps, WORK_PER_NAME } from "../steps.ts";
import { readLongString, type Span } from "./long-strings.ts";

/** When something becomes a piece of its own. */
export interface PieceSizes {
  /** Up to this length a document is not cut: most are short, and cutting takes time. */
  readonly wholeBytes: number;
  readonly batchBytes: number;
  /** Values and names. */
  readonly batchValues: number;
  /** Strings of at least this length are read apart. Longer names are refused. */
  readonly longBytes: number;
}
export const PIECE_SIZES: PieceSizes = {
  wholeBytes: 64 * 1024,
  batchBytes: 16 * 1024,
  batchValues: 2_000,
  longBytes: 16 * 1024,
};

const OPEN_LIST = 0x5b;
/** From an opening bracket to its closing one. */
const TO_CLOSING = 2;

export interface Container {
  readonly isList: boolean;
  readonly pieces: readonly Piece[];
}
/** Members between two commas, or one large member: `value` with what stands `before` it (a name) and `behind` it. */
type Piece =
  | { readonly kind: "batch"; readonly text: Span; readonly values: number }
  | { readonly kind: "large"; readonly before: Span; readonly value: Span | Container; readonly behind: Span };

/** An open list or object. */
class Frame {
  #opening = OPEN_LIST;
  begin = 0;
  /** Where the current member begins. */
  member = 0;
  /** Where the current batch begins, and how many values and names had been counted there. */
  batch = 0;
  counted = 0;
  /** Once it is cut. */
  pieces: Piece[] | null = null;
  /** The current member's value, once it is known to be large. */
  large: { readonly value: Span | Container; readonly start: number; readonly end: number } | null = null;

  open(opening: number, begin: number, counted: number): void {
    this.#opening = opening;
    this.begin = begin;
    this.member = begin + 1;
    this.batch = begin + 1;
    this.counted = counted;
    this.pieces = null;
    this.large = null;
  }

  /** A member ends before `at`. */
  end(at: number, counted: number): void {
    const { pieces, large } = this;
    if (large) {
      const before = { start: this.member, end: large.start };
      pieces?.push({ kind: "large", before, value: large.value, behind: { start: large.end, end: at } });
      this.large = null;
    } else this.endBatch(at, counted);
    this.batch = at + 1;
    this.counted = counted;
  }

  endBatch(at: number, counted: number): void {
    const values = counted - this.counted;
    this.pieces?.push({ kind: "batch", text: { start: this.batch, end: at }, values });
  }

  isClosedBy(closing: number): boolean {
    return closing === this.#opening + TO_CLOSING;
  }

  whole(): Container {
    return { isList: this.#opening === OPEN_LIST, pieces: this.pieces ?? [] };
  }
}

/** Decides where to cut. Told of brackets, commas and long strings by the scanner. */
export class Pieces {
  readonly #sizes: PieceSizes;
  /** By depth, used again and again. The outermost is a list around the document. */
  readonly #frames: Frame[] = [new Frame()];
  #depth = 0;

  constructor(sizes: PieceSizes) {
    this.#sizes = sizes;
    this.#top.open(OPEN_LIST, -1, 0);
  }

  get #top(): Frame {
    return this.#frames[this.#depth] as Frame;
  }

  open(opening: number, at: number, counted: number): void {
    this.#depth++;
    if (this.#frames.length === this.#depth) this.#frames.push(new Frame());
    this.#top.open(opening, at, counted);
  }

  comma(at: number, counted: number): void {
    const top = this.#top;
    const { batchBytes, batchValues } = this.#sizes;
    if (top.large) top.end(at, counted);
    else if (at - top.batch >= batchBytes || counted - top.counted >= batchValues) {
      this.#cut();
      top.end(at, counted);
    }
    top.member = at + 1;
  }

  /** False where it is no JSON. */
  close(closing: number, at: number, counted: number): boolean {
    const top = this.#top;
    this.#depth--;
    if (!top.pieces) return true;
    if (!top.isClosedBy(closing)) return false;
    top.end(at, counted);
    return this.large(top.whole(), top.begin, at + 1, counted);
  }

  /** The current member's value is large. False where it is no JSON. */
  large(value: Span | Container, start: number, end: number, counted: number): boolean {
    const top = this.#top;
    if (top.large) return false;
    this.#cut();
    if (top.batch < top.member) top.endBatch(top.member - 1, counted);
    top.large = { value, start, end };
    return true;
  }

  /** The document's pieces; null where it was not cut; undefined where it is no JSON. */
  end(at: number, counted: number): Piece[] | null | undefined {
    const [outermost] = this.#frames as [Frame];
    if (!outermost.pieces) return null;
    if (this.#depth > 0) return undefined;
    outermost.end(at, counted);
    return outermost.pieces;
  }

  /** What is around a piece is made of pieces too. */
  #cut(): void {
    for (let depth = this.#depth; depth >= 0; depth--) {
      const frame = this.#frames[depth] as Frame;
      if (frame.pieces) return;
      frame.pieces = [];
    }
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The document's value. Throws a `SyntaxError` where it is no JSON, and a `TypeError` where it is no UTF-8. */
export function* build(bytes: Uint8Array, pieces: readonly Piece[]): Steps<unknown> {
  const [value, ...others] = yield* buildList(bytes, pieces);
  if (others.length > 0) throw new SyntaxError("more than one document");
  return value;
}

function* buildList(bytes: Uint8Array, pieces: readonly Piece[]): Steps<unknown[]> {
  const items: unknown[] = [];
  for (const piece of pieces) {
    if (piece.kind === "batch") {
      const batch = JSON.parse(`[${textOf(bytes, piece.text)}]`) as unknown[];
      if (batch.length === 0) throw new SyntaxError("nothing between two commas");
      for (const item of batch) items.push(item);
      yield workOf(piece);
    } else {
      if ((JSON.parse(`[${around(bytes, piece)}]`) as unknown[]).length !== 1)
        throw new SyntaxError("a comma too many");
      items.push(yield* buildLarge(bytes, piece.value));
    }
  }
  return items;
}

function* buildObject(bytes: Uint8Array, pieces: readonly Piece[]): Steps<Record<string, unknown>> {
  const fields: Record<string, unknown> = {};
  for (const piece of pieces) {
    const isBatch = piece.kind === "batch";
    const text = isBatch ? textOf(bytes, piece.text) : around(bytes, piece);
    const batch = JSON.parse(`{${text}}`) as Record<string, unknown>;
    const names = Object.keys(batch);
    if (names.length === 0 || (!isBatch && names.length > 1)) throw new SyntaxError("a comma too many");
    for (const name of names) {
      const value = isBatch ? batch[name] : yield* buildLarge(bytes, piece.value);
      setField(fields, name, value);
    }
    if (isBatch) yield workOf(piece);
  }
  return fields;
}

function* buildLarge(bytes: Uint8Array, value: Span | Container): Steps<unknown> {
  if (!("pieces" in value)) return yield* readLongString(bytes, value);
  return yield* value.isList ? buildList(bytes, value.pieces) : buildObject(bytes, value.pieces);
}

/** As `JSON.parse` sets it. */
function setField(fields: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== "__proto__") fields[name] = value;
  else Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true });
}

const textOf = (bytes: Uint8Array, { start, end }: Span): string => utf8.decode(bytes.subarray(start, end));

/** A member with a number in place of its large value. */
const around = (bytes: Uint8Array, { before, behind }: Piece & { kind: "large" }): string =>
  `${textOf(bytes, before)} 0 ${textOf(bytes, behind)}`;

const workOf = ({ text, values }: Piece & { kind: "batch" }): number => text.end - text.start + values * WORK_PER_NAME;

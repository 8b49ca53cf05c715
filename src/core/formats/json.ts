/**
 * Formats: how the bytes of each format are read and written (JSON, forms, SSE, audio, URLs). Must not know: endpoints,
 * prices, accounts.
 *
 * This file: JSON as the gateway accepts it. UTF-8, at most `MAX_VALUES` values and `MAX_DEPTH` deep, and only numbers
 * that survive being read and written again. Anything else is refused with its place, so that no value reaches an
 * upstream changed.
 *
 * All of this is checked on the bytes (`json-scanner.ts`), in one pass that stops at the first fault, before any text
 * or value is built: a body of millions of values costs no more than its first 250,000. Then `JSON.parse` reads the
 * document in pieces (`json-pieces.ts`), so that neither its time nor its memory grows with the whole of it.
 */

import { type Steps, toEnd } from "../steps.ts";
import { build, type PieceSizes } from "./json-pieces.ts";
import { NOT_JSON, Scanner } from "./json-scanner.ts";

/** The most values in a document, including itself. Field names do not count. */
export const MAX_VALUES = 250_000;

/** `values`: how many were counted. */
export type ParsedJson = { ok: true; value: unknown; values: number } | { ok: false; message: string; values: number };

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Parses a document. Never throws. If a key is repeated, its last value wins. */
export function parseJson(bytes: Uint8Array, maxValues = MAX_VALUES, sizes?: PieceSizes): ParsedJson {
  return toEnd(parseInSteps(bytes, maxValues, sizes));
}

export function* parseInSteps(bytes: Uint8Array, maxValues = MAX_VALUES, sizes?: PieceSizes): Steps<ParsedJson> {
  const scanner = new Scanner(bytes, maxValues, sizes);
  const message = yield* scanner.run();
  const { values } = scanner;
  if (message !== undefined) return { ok: false, message, values };
  try {
    const { pieces } = scanner;
    return { ok: true, value: pieces ? yield* build(bytes, pieces) : JSON.parse(utf8.decode(bytes)), values };
  } catch (error) {
    if (!(error instanceof SyntaxError)) return { ok: false, message: "The request body is not valid UTF-8.", values };
    // In a piece, the parser's positions are not the document's.
    const message = scanner.pieces ? NOT_JSON : `The request body is not valid JSON${placeOf(error)}.`;
    return { ok: false, message, values };
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

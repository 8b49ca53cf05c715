/**
 * Long strings of a JSON document are read in short parts: one wide character makes only its own part twice as wide.
 */

import type { Steps } from "../steps.ts";

/** Where something stands in the bytes; a string without its quotes. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

const PART_BYTES = 64 * 1024;

const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a JSON string may not hold them.
const CONTROL = /[\u0000-\u001f]/;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a string. Throws where it is no JSON string, or no UTF-8. Yields the bytes of each part. */
export function* readLongString(bytes: Uint8Array, { start, end }: Span, partBytes = PART_BYTES): Steps<string> {
  let text = "";
  for (let at = start; at < end; ) {
    const goal = Math.min(at + partBytes, end);
    const backslash = bytes.subarray(at, goal).indexOf(BACKSLASH);
    const next = endOfPart(bytes, backslash < 0 ? goal : at + backslash, goal, end);
    const part = utf8.decode(bytes.subarray(at, next));
    text += backslash < 0 && !CONTROL.test(part) ? part : JSON.parse(`"${part}"`);
    yield next - at;
    at = next;
  }
  return text;
}

/** At `goal` or behind it: a part ends inside no escape and no character. What is no escape fails in its own part. */
function endOfPart(bytes: Uint8Array, start: number, goal: number, end: number): number {
  let at = start;
  while (at < goal) {
    if (bytes[at] !== BACKSLASH) at++;
    else at += bytes[at + 1] === LETTER_U ? 6 : 2;
  }
  while (at < end && ((bytes[at] as number) & 0xc0) === 0x80) at++;
  return Math.min(at, end);
}

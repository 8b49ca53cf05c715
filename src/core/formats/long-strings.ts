/**
 * Long strings of a JSON document are read apart from it, in short parts. A parser that is given 20 MB at once holds them
 * two or three times, and twice as wide as soon as one character is: an isolate has no room for that.
 *
 * Each of them leaves a placeholder in the text that the parser gets, and is put back into the value that it makes. A
 * placeholder begins with a marker that was drawn after the document had come: nobody could write one into it.
 */

/** Where a string stands in the bytes, without its quotes. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A shorter string stays where it is. */
export const LONG_STRING_BYTES = 1024;
const PART_BYTES = 64 * 1024;

const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a JSON string may not hold them.
const CONTROL = /[\u0000-\u001f]/;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a string. Throws where it is no JSON string, or no UTF-8. Yields after each part. */
export function* readLongString(
  bytes: Uint8Array,
  { start, end }: Span,
  partBytes = PART_BYTES,
): Generator<undefined, string> {
  let text = "";
  for (let at = start; at < end; ) {
    const goal = Math.min(at + partBytes, end);
    const backslash = bytes.subarray(at, goal).indexOf(BACKSLASH);
    const next = endOfPart(bytes, backslash < 0 ? goal : at + backslash, goal, end);
    const part = utf8.decode(bytes.subarray(at, next));
    text += backslash < 0 && !CONTROL.test(part) ? part : JSON.parse(`"${part}"`);
    at = next;
    if (at < end) yield;
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

/** The document in pieces, each long string replaced by a placeholder. `spans` in their order. */
export function* withPlaceholders(
  bytes: Uint8Array,
  spans: readonly Span[],
  marker: string,
): Generator<Uint8Array | string> {
  let at = 0;
  for (const [index, { start, end }] of spans.entries()) {
    yield bytes.subarray(at, start);
    yield `${marker}${index}`;
    at = end;
  }
  yield bytes.subarray(at);
}

/** The value with its long strings. Changes it in place; its depth is bounded by who parsed it. */
export function putBack(value: unknown, marker: string, texts: readonly string[]): unknown {
  if (typeof value === "string") return value.startsWith(marker) ? texts[Number(value.slice(marker.length))] : value;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) value[at] = putBack(value[at], marker, texts);
    return value;
  }
  const fields = value as Record<string, unknown>;
  for (const name in fields) {
    const field = fields[name];
    const whole = putBack(field, marker, texts);
    if (whole !== field) fields[name] = whole;
  }
  return fields;
}

import { parseObject } from "./json-fields.ts";
import { dataOf, withData } from "./sse.ts";

/**
 * What a stream's event needs beside it so that every client understands the stream: events that its upstream left out,
 * and members that the event itself lacks.
 */
export interface Added {
  /** Events to pass before this one, in their order. */
  readonly before?: readonly object[];
  /** Members for the event's data, as JSON without its braces; the rest of its bytes stay as they are. */
  readonly members?: string;
  /** The event's number, in place of its own; the rest of its bytes stay as they are. */
  readonly number?: number;
  /** The event's data, written anew. */
  readonly data?: string;
  /** The event itself does not pass: what it says was in another's place, and comes later. */
  readonly drops?: true;
  /**
   * True: its target's streams cannot pass unread, as something had to come before bytes that would have passed. False:
   * the stream was seen whole as it was sent.
   */
  readonly readFirst?: boolean;
}

const encoder = new TextEncoder();
const LF = 0x0a;
const CR = 0x0d;
const OPEN_BRACE = 0x7b;
const DATA = encoder.encode("data:");
const EVENT = encoder.encode("event:");
const NUMBER = encoder.encode('"sequence_number":');
/** A rare letter of it, by which it is found quickly. */
const RARE = 0x71;
const RARE_AT = NUMBER.indexOf(RARE);

/** The event with members put in front of those that its data has; null if its data is no object in one place. */
export function withMembers(event: Uint8Array, members: string): Uint8Array | null {
  const line = lineAfter(event, DATA);
  const brace = line < 0 ? -1 : event.indexOf(OPEN_BRACE, line);
  if (brace < 0) return null;
  const added = encoder.encode(`${members},`);
  const whole = new Uint8Array(event.length + added.length);
  whole.set(event.subarray(0, brace + 1));
  whole.set(added, brace + 1);
  whole.set(event.subarray(brace + 1), brace + 1 + added.length);
  return whole;
}

/** The event with another number in place of its own. */
export function withNumber(event: Uint8Array, number: number): Uint8Array {
  const start = numberIn(event);
  if (start === null) return withNumberAnew(event, number);
  let end = start;
  while (isDigit(event[end])) end++;
  const digits = encoder.encode(String(number));
  const whole = new Uint8Array(event.length + digits.length - (end - start));
  whole.set(event.subarray(0, start));
  whole.set(digits, start);
  whole.set(event.subarray(end), start + digits.length);
  return whole;
}

/** Where the digits of the number begin; null if it is not written once in the usual way. */
function numberIn(event: Uint8Array): number | null {
  let found: number | null = null;
  for (let rare = event.indexOf(RARE); rare >= 0; rare = event.indexOf(RARE, rare + 1)) {
    const at = rare - RARE_AT;
    if (!NUMBER.every((byte, offset) => event[at + offset] === byte)) continue;
    if (found !== null || !isDigit(event[at + NUMBER.length])) return null;
    found = at + NUMBER.length;
  }
  return found;
}

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= 0x30 && byte <= 0x39;

function withNumberAnew(event: Uint8Array, number: number): Uint8Array {
  const said = parseObject(dataOf(event) ?? "");
  return said ? withData(event, JSON.stringify({ ...said, sequence_number: number })) : event;
}

/** Events written in the manner of the one that they precede: named if that one is. */
export function writtenLike(event: Uint8Array, added: readonly object[]): Uint8Array {
  const named = lineAfter(event, EVENT) >= 0;
  const texts = added.map((data) => {
    const { type } = data as { type?: unknown };
    return `${named && typeof type === "string" ? `event: ${type}\n` : ""}data: ${JSON.stringify(data)}\n\n`;
  });
  return encoder.encode(texts.join(""));
}

/** Where the rest of the first line begins that starts so; -1 if none does. */
function lineAfter(event: Uint8Array, start: Uint8Array): number {
  for (let at = 0; at < event.length; at++) {
    if (start.every((byte, offset) => event[at + offset] === byte)) return at + start.length;
    while (at < event.length && event[at] !== LF && event[at] !== CR) at++;
  }
  return -1;
}

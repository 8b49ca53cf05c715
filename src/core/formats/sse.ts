/**
 * Server-sent events as bytes: splits a stream into complete events, whatever its chunks, so that bytes can be passed
 * on unchanged; and reads an event's data.
 */
import { joinBytes } from "./bytes.ts";

const LF = 0x0a;
const CR = 0x0d;

/** An event longer than this is broken. */
const LONGEST_EVENT = 8 * 1024 * 1024;

export class SseSplitter {
  /** Bytes of an event that has not ended yet. */
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  #lineIsBlank = true;
  #afterCr = false;
  /** A blank line ended with CR and its LF has not arrived yet: the stream's lines end with CRLF. */
  // Stryker disable next-line BooleanLiteral: every CR sets it, and nothing reads it before one
  #lfDue = false;
  #lastEndWasCrLf = false;

  /**
   * The events that `chunk` completes, each including the blank line that ends it. Together they are the stream's
   * bytes.
   */
  push(chunk: Uint8Array): Uint8Array[] {
    const events: Uint8Array[] = [];
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      if (this.#endsEvent(chunk[at] as number)) {
        events.push(this.#take(chunk.subarray(start, at + 1)));
        start = at + 1;
      }
    }
    // Stryker disable next-line ConditionalExpression,EqualityOperator: holding no bytes changes nothing
    if (start < chunk.length) this.#hold(chunk.subarray(start));
    return events;
  }

  /** The bytes of an incomplete event. */
  rest(): Uint8Array {
    return joinBytes(this.#held);
  }

  /** True while an event is incomplete. */
  get open(): boolean {
    return this.#heldBytes > 0;
  }

  get overlong(): boolean {
    return this.#heldBytes > LONGEST_EVENT;
  }

  #endsEvent(byte: number): boolean {
    if (byte === LF) {
      const crLf = this.#afterCr;
      this.#afterCr = false;
      this.#lastEndWasCrLf = crLf;
      return crLf ? this.#lfDue : this.#endsLine();
    }
    if (byte !== CR) {
      this.#afterCr = false;
      this.#lineIsBlank = false;
      return false;
    }
    if (this.#afterCr) this.#lastEndWasCrLf = false;
    this.#afterCr = true;
    const blank = this.#endsLine();
    // In a CRLF stream the LF belongs to this event and will follow; in a CR stream nothing will.
    this.#lfDue = blank && this.#lastEndWasCrLf;
    return blank && !this.#lfDue;
  }

  #endsLine(): boolean {
    const blank = this.#lineIsBlank;
    this.#lineIsBlank = true;
    return blank;
  }

  #hold(bytes: Uint8Array): void {
    // Copied, because the chunk's buffer may be reused.
    this.#held.push(bytes.slice());
    this.#heldBytes += bytes.length;
  }

  #take(last: Uint8Array): Uint8Array {
    if (this.#heldBytes === 0) return last;
    const event = joinBytes([...this.#held, last]);
    this.#held = [];
    this.#heldBytes = 0;
    return event;
  }
}

const utf8 = new TextDecoder("utf-8");

const encoder = new TextEncoder();

/** The event with its data replaced. Other lines stay in order; it ends with a blank line. */
export function withData(event: Uint8Array, data: string): Uint8Array {
  const lines = utf8.decode(event).split(/\r\n|\n|\r/);
  const at = lines.findIndex((line) => line.startsWith("data:"));
  const others = (line: string) => line !== "" && !line.startsWith("data:");
  const anew = data.split(/\r\n|\n|\r/).map((line) => `data: ${line}`);
  const written = [...lines.slice(0, at).filter(others), ...anew, ...lines.slice(at).filter(others)];
  return encoder.encode(`${written.join("\n")}\n\n`);
}

/** The data of one event: its `data` lines joined; undefined for a comment or an event without data. */
export function dataOf(event: Uint8Array): string | undefined {
  let data: string | undefined;
  for (const line of utf8.decode(event).split(/\r\n|\n|\r/)) {
    if (!line.startsWith("data:")) continue;
    const value = line.slice(line.charCodeAt(5) === 0x20 ? 6 : 5);
    data = data === undefined ? value : `${data}\n${value}`;
  }
  return data;
}

/**
 * A meter holds the two sides of metering together so that they cannot drift apart: the true upper bound of what a call
 * can use, and the reading of what it did use. Pure: fed with values and bytes, it says what to charge.
 */
import type { Bound } from "../hold.ts";
import type { ModelRow } from "../prices.ts";
import type { Reading } from "../usage.ts";

/** `Body` is the endpoint's validated body. */
export interface Meter<Body> {
  /** The true upper bound, given the bytes of the body as it will be sent (without data URLs' content). */
  bound(body: Body, sentBytes: number, row: ModelRow): Bound;
  /** A fresh reader for one answer. */
  reader(body: Body, sent: Sent): AnswerReader;
}

/** What stood in the call that was sent. */
export interface Sent {
  readonly row: ModelRow;
  /** The cap per choice that was sent upstream. */
  readonly outputCap: number | undefined;
}

/** Reads the usage of one answer in passing. `reading()` always resolves, once the answer is over or cut. */
export type AnswerReader = JsonReader | EventReader;

/** For an answer that is one JSON document. */
export interface JsonReader {
  readonly kind: "json";
  /** False where the document is no answer (an error under status 200, no object): the try failed. */
  read(answer: unknown): boolean;
  reading(): Reading;
}

/**
 * What to do with one event: `pass` it on, `drop` it (only the usage that the gateway asked for), pass it as the `end` of
 * the stream, or treat the stream as `broken`.
 */
export type EventVerdict = "pass" | "drop" | "end" | "broken";

/** For an answer that is a stream of server-sent events. */
export interface EventReader {
  readonly kind: "events";
  /** True where an event may have to be dropped, so that none may pass before it is whole. */
  readonly drops: boolean;
  event(data: string): EventVerdict;
  reading(): Reading;
}

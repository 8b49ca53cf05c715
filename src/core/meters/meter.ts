/**
 * A meter keeps both sides of metering together so that they cannot drift apart: the true upper bound of what a call can
 * use, and the reading of what it did use. Pure: it gets values and bytes, and gives what to charge.
 *
 * Lives in this folder: one meter per kind of usage (tokens, audio, flat) and what they count with. Must not know: prices,
 * accounts, or which endpoint is metered.
 */

import type { Bound } from "../account/hold.ts";
import type { Skimmed } from "../formats/answer-filter.ts";
import type { ModelRow } from "../pricing/prices.ts";
import type { Reading } from "../pricing/usage.ts";
import type { Estimate } from "./estimate.ts";
import type { Parts } from "./parts.ts";

/** `Body` is the endpoint's validated body. */
export interface Meter<Body> {
  /** The true upper bound. */
  bound(body: Body, measured: MeasuredBody, row: ModelRow): Bound;
  /** A fresh reader for one answer. */
  reader(body: Body, sent: Sent<MeasuredBody>): AnswerReader;
}

/** What was measured of a call before it was admitted. */
export interface Measured {
  /** Bytes of the body as it will be sent, without the content of data URLs and files. */
  readonly sentBytes: number;
  /** The true length of the recording that was sent, from its frames; null where there is none. */
  readonly recordingMs: number | null;
  /** What the upstream's quote says the call may come to; only where the endpoint is quoted first. */
  readonly estimate?: Estimate | undefined;
}

/** The same with what was found in the body when it was parsed. */
export interface MeasuredBody extends Measured {
  /** Parts of it that are not text. */
  readonly parts: Parts;
  /** Bytes that the caller sent, without the content of data URLs and files and without fields that we set. */
  readonly ownBytes: number;
}

/** What stood in the call that was sent. */
export interface Sent<Of = Measured> {
  readonly row: ModelRow;
  /** The cap per choice that was sent upstream. */
  readonly outputCap: number | undefined;
  readonly measured: Of;
  /** Tokens recorded for the conversations that the call continues; 0 where it continues none. */
  readonly earlierTokens: number;
}

/** Reads the usage of one answer in passing. `reading()` always resolves, once the answer is over or cut. */
export type AnswerReader = JsonReader | EventReader | BytesReader;

/** For an answer that is one JSON document. */
export interface JsonReader {
  readonly kind: "json";
  /**
   * False where the document is no answer (an error under status 200, no object): the try failed. `skimmed`: set where it
   * passed without being kept, so that `answer` holds nothing but its outermost members, large ones empty.
   */
  read(answer: unknown, skimmed?: Skimmed): boolean;
  /** The id that the answer hands out, if it does. */
  created?(): string | null;
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
  /** No event may pass before it was inspected: it may have to be dropped, or it hands out an id. */
  readonly readFirst: boolean;
  event(data: string): EventVerdict;
  /**
   * Of the usage in the event that was read last: its data as it may pass where something in it may not; null where all of
   * it may; undefined where there was none.
   */
  usageAnew(): string | null | undefined;
  /** The id that an event handed out, if one did. */
  created?(): string | null;
  /** Whether, as far as is known, only the usage is still to come. */
  awaitsUsage?(): boolean;
  reading(): Reading;
}

/** For an answer that is bytes: audio, a transcript as text, a custom engine's answer. */
export interface BytesReader {
  readonly kind: "bytes";
  /** Whether this content type is acceptable. */
  accepts(contentType: string): boolean;
  push(chunk: Uint8Array): void;
  reading(): Reading;
}

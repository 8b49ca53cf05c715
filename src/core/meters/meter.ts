/**
 * A meter keeps both sides of metering together so that they cannot drift apart: the upper bound of what a call can
 * use, and the reading of what it did use. Pure: it takes values and bytes and returns usage.
 *
 * Lives in this folder: one meter per kind of usage (tokens, audio, flat) and what they count with. Must not know:
 * prices, accounts, or which endpoint is metered.
 */

import type { Bound } from "../account/hold.ts";
import type { Added } from "../formats/added-events.ts";
import type { Skimmed } from "../formats/answer-filter.ts";
import type { ModelRow } from "../pricing/prices.ts";
import type { Reading } from "../pricing/usage.ts";
import type { Estimate } from "./estimate.ts";
import type { Parts } from "./parts.ts";

/** `Body` is the endpoint's validated body. */
export interface Meter<Body> {
  /** The most that the call can use. */
  bound(body: Body, measured: MeasuredBody, row: ModelRow): Bound;
  /** A new reader for one answer. */
  reader(body: Body, sent: Sent<MeasuredBody>): AnswerReader;
}

/** What is measured of a call before admission. */
export interface Measured {
  /** Bytes of the body as sent upstream, without the content of data URLs and files. */
  readonly sentBytes: number;
  /** Length of the recording in the body, from its frames, ms; null if there is none. */
  readonly recordingMs: number | null;
  /** The upstream's quote; only for endpoints that are quoted first. */
  readonly estimate?: Estimate | undefined;
}

/** The same, with what parsing the body found. */
export interface MeasuredBody extends Measured {
  /** Its parts other than text. */
  readonly parts: Parts;
  /** Bytes from the caller, without the content of data URLs and files and without fields that the gateway sets. */
  readonly ownBytes: number;
}

/** Facts about the call that was sent. */
export interface Sent<Of = Measured> {
  readonly row: ModelRow;
  /** The cap per choice that was sent upstream. */
  readonly outputCap: number | undefined;
  readonly measured: Of;
  /** Tokens of the conversations that the call continues; 0 if it continues none. */
  readonly earlierTokens: number;
  /** When the call began, Unix ms. */
  readonly startedAtMs?: number;
}

/**
 * Reads the usage of an answer while it passes. `reading()` may be called once the answer has ended or was cut off, and
 * always returns a result.
 */
export type AnswerReader = JsonReader | EventReader | BytesReader;

/** For an answer that is one JSON document. */
export interface JsonReader {
  readonly kind: "json";
  /**
   * False if the document is not an answer (an error under status 200, not an object): the try failed. `skimmed` is set
   * if the document passed without being held: `answer` then has only its top-level members, large ones empty.
   */
  read(answer: unknown, skimmed?: Skimmed): boolean;
  /** The id that the answer hands out; null if none. */
  created?(): string | null;
  /** What passes of the answer, with what clients need and the upstream left out; the same bytes if that is nothing. */
  completed?(passes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  reading(): Reading;
}

/**
 * What to do with one event: `pass` it on; `drop` it (usage that only the gateway asked for); `hold` it until the next
 * one, which tells what comes before it; pass it as the `end` of the stream; or treat the stream as `broken`.
 */
export type EventVerdict = "pass" | "drop" | "hold" | "end" | "broken";

/** For an answer that is a stream of server-sent events. */
export interface EventReader {
  readonly kind: "events";
  /** No event may pass before it was inspected: it may have to be dropped, or it hands out an id. */
  readonly readFirst: boolean;
  event(data: string): EventVerdict;
  /**
   * The usage in the last event. A string is the event's data, rewritten to what may pass; null means that all of it
   * may pass; undefined means that the event had none.
   */
  rewrittenUsage(): string | null | undefined;
  /** What the last event needs beside it; undefined if it passes as it is. */
  added?(): Added | undefined;
  /** The id that an event handed out; null if none did. */
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
  /** The client left before the answer was whole. What passed may not show what the service made. */
  left?(): void;
  reading(): Reading;
}

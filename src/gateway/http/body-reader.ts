/**
 * Reading a client's body within bounds: its size, its pace, and the room that the isolate has for large ones. Nothing that
 * a header claims is taken for more than a hint.
 */

import { type Outcome, refused } from "../../core/outcome.ts";
import type { Refusal } from "../../core/refusal.ts";
import { LARGE_BYTES, SMALL_BYTES } from "../../core/uploads/upload-limiter.ts";
import { LONGEST_UPLOAD_MS, MIN_BYTES_PER_S, PACE_WINDOW_MS, UploadPace } from "../../core/uploads/upload-pace.ts";
import { Expansion, encodingOf } from "./expand.ts";

/** Where a call's body is held. */
export interface BodyHolder {
  /** Whether so many bytes may be read: null, or why not. Asked before anything is read, and before a body grows large. */
  roomFor(bytes: number): Promise<Refusal | null>;
  /** More of the body came. */
  arrived(bytes: number): void;
  /** So many bytes were expanded for nothing: the body is refused. */
  wasted(bytes: number): void;
  /** Whether others wait for the room that this slow body takes. */
  givesWay(): boolean;
}

/** For bodies that are never large. */
export const SMALL_BODIES: BodyHolder = {
  roomFor: async () => null,
  arrived: () => undefined,
  wasted: () => undefined,
  givesWay: () => false,
};

export type Upload = Outcome<{ bytes: Uint8Array }>;

const malformed = (message: string): Refusal => ({ kind: "invalid_request", message, param: null });
const BROKEN = malformed("The request body ended early.");
const TOO_SLOW = malformed(
  `The request body came too slowly: send at least ${MIN_BYTES_PER_S} bytes a second over ${PACE_WINDOW_MS / 1_000} s, ` +
    `and all of it within ${LONGEST_UPLOAD_MS / 60_000} minutes.`,
);
/** How soon another body may have the place of one that gave way, ms. */
const AGAIN_MS = 5_000;

/** What a body has at first: one that only claims to be long takes no memory for it. */
const FIRST_BYTES = SMALL_BYTES;
/** How often a body's pace is looked at. */
const TICK_MS = 1_000;

/**
 * The whole body, never more than `maxBytes` of it, whatever its length claims to be. It stands in memory once: a large
 * body that names its length has room for just that, one that does not has room for all it may come to.
 */
export async function readBody(
  request: Request,
  maxBytes: number,
  holder: BodyHolder,
  now: () => number,
): Promise<Upload> {
  const length = request.headers.get("content-length");
  const claimed = length === null ? null : Number(length);
  if (claimed !== null && claimed > maxBytes) return refused({ kind: "too_large", limitBytes: maxBytes });
  const encoding = encodingOf(request.headers);
  if (!encoding.ok) return encoding;
  if (!request.body) return { ok: true, bytes: new Uint8Array() };
  const none = await holder.roomFor(claimed ?? 0);
  if (none) return refused(none);
  const arrival = new Arrival(holder, now);
  if (encoding.gzip) return readExpanded(request.body, maxBytes, arrival);
  try {
    return claimed !== null && claimed > LARGE_BYTES
      ? await fill(request.body, claimed, arrival)
      : await gather(request.body, claimed, maxBytes, arrival);
  } catch {
    // Cancelled by the clock, or broken off by its sender.
    return refused(arrival.refusal ?? BROKEN);
  } finally {
    arrival.over();
  }
}

/** The same of gzip. How long it will be is not known, so it is bounded while it is expanded. */
async function readExpanded(body: ReadableStream<Uint8Array>, maxBytes: number, arrival: Arrival): Promise<Upload> {
  const expansion = new Expansion(body, (bytes) => arrival.came(bytes));
  arrival.isExpanded = true;
  let read: Upload;
  try {
    read = await gather(expansion.body, null, maxBytes, arrival);
  } catch {
    read = refused(arrival.refusal ?? expansion.fault ?? BROKEN);
  } finally {
    arrival.over();
  }
  if (!read.ok) arrival.holder.wasted(expansion.expanded);
  return read;
}

/** Watches one body come. One timer for the whole of it: one for each read would cost more than the read. */
class Arrival {
  readonly holder: BodyHolder;
  refusal: Refusal | null = null;
  /** Its pace is that of the gzip that comes, not of what is read of it. */
  isExpanded = false;
  readonly #pace: UploadPace;
  readonly #timer: ReturnType<typeof setInterval>;
  #cancel: () => void = () => undefined;

  constructor(holder: BodyHolder, now: () => number) {
    this.holder = holder;
    this.#pace = new UploadPace(now());
    this.#timer = setInterval(() => {
      this.refusal ??= this.#pace.isTooSlow(now())
        ? TOO_SLOW
        : holder.givesWay()
          ? { kind: "busy", retryAfterMs: AGAIN_MS }
          : null;
      if (this.refusal) this.#cancel();
    }, TICK_MS);
  }

  /** The reader that is cancelled when time is up. */
  watch<R extends ReadableStreamDefaultReader<Uint8Array> | ReadableStreamBYOBReader>(reader: R): R {
    this.#cancel = () => void reader.cancel().catch(() => undefined);
    return reader;
  }

  came(bytes: number): void {
    this.#pace.arrived(bytes);
    this.holder.arrived(bytes);
  }

  /** Nothing more is read of a body that is refused. */
  refuse(refusal: Refusal): Upload {
    this.#cancel();
    return refused(refusal);
  }

  over(): void {
    clearInterval(this.#timer);
  }
}

/** A small body, or one of unknown length: room grows with what came. */
async function gather(
  body: ReadableStream<Uint8Array>,
  claimed: number | null,
  maxBytes: number,
  arrival: Arrival,
): Promise<Upload> {
  const reader = arrival.watch(body.getReader());
  let whole = new Uint8Array(Math.min(claimed ?? FIRST_BYTES, FIRST_BYTES));
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read();
    // A cancelled reader ends as if the body had: what came is not the whole.
    if (arrival.refusal) return refused(arrival.refusal);
    if (done) return { ok: true, bytes: whole.subarray(0, filled) };
    const needed = filled + value.byteLength;
    if (needed > maxBytes) return arrival.refuse({ kind: "too_large", limitBytes: maxBytes });
    if (claimed !== null && needed > claimed) return arrival.refuse(BROKEN);
    if (needed > whole.length) {
      const large = needed > LARGE_BYTES;
      // One that names its length has asked.
      const outgrows = large || (claimed === null && whole.length === FIRST_BYTES);
      const none = outgrows ? await arrival.holder.roomFor(large ? maxBytes : LARGE_BYTES) : null;
      if (none) return arrival.refuse(none);
      const most = Math.min(claimed ?? LARGE_BYTES, LARGE_BYTES);
      const grown = new Uint8Array(large ? maxBytes : Math.min(most, Math.max(needed, 2 * whole.length)));
      grown.set(whole.subarray(0, filled));
      whole = grown;
    }
    whole.set(value, filled);
    filled = needed;
    if (!arrival.isExpanded) arrival.came(value.byteLength);
  }
}

/**
 * A large body of known length, filled in place by the runtime: taken in chunks it would take twice the time, and as much
 * memory again for chunks that nobody needs any more.
 */
async function fill(body: ReadableStream<Uint8Array>, length: number, arrival: Arrival): Promise<Upload> {
  const reader = arrival.watch(body.getReader({ mode: "byob" }));
  // A byte more, so that the end of the body is read as well.
  let whole = new Uint8Array(length + 1);
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read(whole.subarray(filled));
    if (arrival.refusal) return refused(arrival.refusal);
    // What was given is detached; its memory comes back under a new name.
    if (value) whole = new Uint8Array(value.buffer as ArrayBuffer);
    if (done) return filled === length ? { ok: true, bytes: whole.subarray(0, filled) } : refused(BROKEN);
    filled += value.byteLength;
    if (filled > length) return arrival.refuse(BROKEN);
    arrival.came(value.byteLength);
  }
}

/**
 * Gives the memory of a large body back at once: a runtime that counts only its own heap is in no hurry to do so. The
 * bytes are gone for everybody.
 */
export function free(bytes: Uint8Array): void {
  if (bytes.length > LARGE_BYTES) (bytes.buffer as ArrayBuffer).transfer(0);
}

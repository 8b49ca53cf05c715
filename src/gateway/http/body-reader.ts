/**
 * Reads a client's body within bounds: its size, its pace, and the isolate's room for large bodies. A header's claim
 * about the body is only a hint.
 */

import { type Outcome, refused } from "../../core/outcome.ts";
import type { Refusal } from "../../core/refusal.ts";
import { LARGE_BYTES, SMALL_BYTES } from "../../core/uploads/upload-limiter.ts";
import { LONGEST_UPLOAD_MS, MIN_BYTES_PER_S, PACE_WINDOW_MS, UploadPace } from "../../core/uploads/upload-pace.ts";
import type { After } from "../ports.ts";
import { after, every } from "../timer.ts";
import { readerOf } from "./at-once.ts";
import { Expansion, encodingOf } from "./expand.ts";

/** Grants room for a call's body and follows how it arrives. */
export interface BodyHolder {
  /** Null if so many bytes may be read, else the refusal. Asked before reading, and again before a body grows large. */
  roomFor(bytes: number): Promise<Refusal | null>;
  /** More bytes of the body arrived. */
  arrived(bytes: number): void;
  /** The body is refused after so many bytes were expanded for nothing. */
  wasted(bytes: number): void;
  /** True when this slow body should give its room to others that wait. */
  givesWay(): boolean;
}

/** For endpoints whose bodies are never large. */
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
/** When another body may get the place of a body that gave way, ms. */
const AGAIN_MS = 5_000;

/** First memory for a body, so that a false claim to be long takes none. */
const FIRST_BYTES = SMALL_BYTES;
/** How often the pace is checked, ms. */
const TICK_MS = 1_000;

/**
 * Reads the whole body, at most `maxBytes` whatever its content-length claims. Memory holds it once: a large body with
 * a content-length takes just that, one without takes room for the maximum.
 */
export async function readBody(
  request: Request,
  maxBytes: number,
  holder: BodyHolder,
  now: () => number,
  wait: After = after,
): Promise<Upload> {
  const length = request.headers.get("content-length");
  const claimed = length === null ? null : Number(length);
  if (claimed !== null && claimed > maxBytes) return refused({ kind: "too_large", limitBytes: maxBytes });
  const encoding = encodingOf(request.headers);
  if (!encoding.ok) return encoding;
  if (!request.body) return { ok: true, bytes: new Uint8Array() };
  const none = await holder.roomFor(claimed ?? 0);
  if (none) return refused(none);
  const arrival = new Arrival(holder, now, wait);
  if (encoding.gzip) return readExpanded(request.body, maxBytes, arrival);
  try {
    return claimed !== null && claimed > LARGE_BYTES
      ? await fill(request.body, claimed, arrival)
      : await gather(request.body, claimed, maxBytes, arrival);
  } catch {
    // The clock cancelled it, or its sender broke off.
    return refused(arrival.refusal ?? BROKEN);
  } finally {
    arrival.over();
  }
}

/** The same for gzip. The expanded length is unknown, so it is bounded while expanding. */
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

/** Watches one body arrive. It looks once a second: a timer for each read would cost more than the read. */
class Arrival {
  readonly holder: BodyHolder;
  refusal: Refusal | null = null;
  /** The pace counts gzip bytes as they arrive, not the expanded bytes. */
  isExpanded = false;
  readonly #pace: UploadPace;
  readonly #stop: () => void;
  #cancel: () => void = () => undefined;

  constructor(holder: BodyHolder, now: () => number, wait: After) {
    this.holder = holder;
    this.#pace = new UploadPace(now());
    const look = () => {
      this.refusal ??= this.#pace.isTooSlow(now())
        ? TOO_SLOW
        : holder.givesWay()
          ? { kind: "busy", retryAfterMs: AGAIN_MS }
          : null;
      if (this.refusal) this.#cancel();
    };
    this.#stop = every(TICK_MS, look, wait);
  }

  /** The reader to cancel when time is up. */
  watch<R extends { cancel(): Promise<void> }>(reader: R): R {
    this.#cancel = () => void reader.cancel().catch(() => undefined);
    return reader;
  }

  came(bytes: number): void {
    this.#pace.arrived(bytes);
    this.holder.arrived(bytes);
  }

  /** Stops reading a body that is refused. */
  refuse(refusal: Refusal): Upload {
    this.#cancel();
    return refused(refusal);
  }

  over(): void {
    this.#stop();
  }
}

/** Reads a small body, or one of unknown length: memory grows as it arrives. */
async function gather(
  body: ReadableStream<Uint8Array>,
  claimed: number | null,
  maxBytes: number,
  arrival: Arrival,
): Promise<Upload> {
  const reader = arrival.watch(readerOf(body, claimed));
  let whole = new Uint8Array(Math.min(claimed ?? FIRST_BYTES, FIRST_BYTES));
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read();
    // A cancelled reader ends as if the body had ended, so this is not the whole body.
    if (arrival.refusal) return refused(arrival.refusal);
    if (done || !value) return { ok: true, bytes: whole.subarray(0, filled) };
    const needed = filled + value.byteLength;
    if (needed > maxBytes) return arrival.refuse({ kind: "too_large", limitBytes: maxBytes });
    if (claimed !== null && needed > claimed) return arrival.refuse(BROKEN);
    if (needed > whole.length) {
      const large = needed > LARGE_BYTES;
      // A body with a content-length has asked already.
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
 * Reads a large body of known length into one buffer, filled in place by the runtime. Reading it in chunks takes twice
 * the time, and as much memory again for used chunks.
 */
async function fill(body: ReadableStream<Uint8Array>, length: number, arrival: Arrival): Promise<Upload> {
  const reader = arrival.watch(body.getReader({ mode: "byob" }));
  // One more byte, so that the read also meets the end of the body.
  let whole = new Uint8Array(length + 1);
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read(whole.subarray(filled));
    if (arrival.refusal) return refused(arrival.refusal);
    // The runtime detaches the buffer that we pass and returns its memory as a new one.
    if (value) whole = new Uint8Array(value.buffer as ArrayBuffer);
    if (done) return filled === length ? { ok: true, bytes: whole.subarray(0, filled) } : refused(BROKEN);
    filled += value.byteLength;
    if (filled > length) return arrival.refuse(BROKEN);
    arrival.came(value.byteLength);
  }
}

/**
 * Returns the memory of a body that is not small at once: a runtime that counts only its own heap would return it late.
 * Afterwards the bytes are unusable everywhere.
 */
export function free(bytes: Uint8Array): void {
  if (bytes.length > SMALL_BYTES) (bytes.buffer as ArrayBuffer).transfer(0);
}

/**
 * Reading bodies within bounds: a client's within its size, an upstream's within its size and against the clock.
 */
import { LARGE_BYTES } from "../core/body-room.ts";
import type { Ports, UpstreamAnswer } from "./ports.ts";

type Answered = UpstreamAnswer & { kind: "answer" };

/** How often time limits are looked at. */
const TICK_MS = 1_000;

/**
 * Calls `expired` once when a read has waited `idleMs`, or everything `totalMs`. One timer for the whole body: a timer
 * for each read would cost more than the read.
 */
export class Watchdog {
  #waitingSinceMs: number | null = null;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(limits: { idleMs: number; totalMs: number }, ports: Pick<Ports, "now">, expired: () => void) {
    const startedAtMs = ports.now();
    this.#timer = setInterval(
      () => {
        const now = ports.now();
        const idle = this.#waitingSinceMs !== null && now - this.#waitingSinceMs >= limits.idleMs;
        if (!idle && now - startedAtMs < limits.totalMs) return;
        this.stop();
        expired();
      },
      Math.min(TICK_MS, Math.max(10, limits.idleMs / 4)),
    );
  }

  /** A read begins: silence counts from now. */
  waiting(nowMs: number): void {
    this.#waitingSinceMs = nowMs;
  }

  /** Bytes came: what follows is the client's time, not the upstream's. */
  fed(): void {
    this.#waitingSinceMs = null;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** The whole body: `lost` when it broke off, `timeout` when it fell silent, `malformed` when it is longer than `maxBytes`. */
export async function readUpstream(
  answer: Answered,
  maxBytes: number,
  signal: AbortSignal,
  ports: Ports,
): Promise<Uint8Array<ArrayBuffer> | "lost" | "timeout" | "malformed"> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const keep = (chunk: Uint8Array) => {
    length += chunk.byteLength;
    chunks.push(chunk);
    return length > maxBytes ? "malformed" : "more";
  };
  const read = await readChunks(answer, keep, signal, ports);
  return read === "ended" ? join(chunks, length) : read;
}

/**
 * What becomes of a chunk that was taken: `more`, please; that was `enough`, the rest is read by somebody else; or it is
 * `malformed`, and the rest is let go.
 */
export type Taken = "more" | "enough" | "malformed";

/** Hands the body over as it comes, until it `ended` or its taker has had `enough`. Then it can be read on. */
export async function readChunks<T extends Taken>(
  answer: Answered,
  take: (chunk: Uint8Array) => T,
  signal: AbortSignal,
  ports: Ports,
): Promise<Exclude<T, "more"> | "ended" | "lost" | "timeout"> {
  if (!answer.response.body) return "ended";
  const reader = answer.response.body.getReader();
  let timedOut = false;
  const cancel = () => void reader.cancel().catch(() => undefined);
  const watchdog = new Watchdog(answer, ports, () => {
    timedOut = true;
    cancel();
  });
  signal.addEventListener("abort", cancel);
  try {
    for (;;) {
      watchdog.waiting(ports.now());
      const { done, value } = await reader.read();
      // A cancelled reader ends as if the body had: what came is not the whole.
      if (timedOut) return "timeout";
      if (signal.aborted) return "lost";
      if (done) {
        reader.releaseLock();
        return "ended";
      }
      const taken = take(value);
      if (taken === "more") continue;
      if (taken === "malformed") cancel();
      else reader.releaseLock();
      return taken as Exclude<T, "more">;
    }
  } catch {
    return timedOut ? "timeout" : "lost";
  } finally {
    watchdog.stop();
    signal.removeEventListener("abort", cancel);
  }
}

/** Whether there is room for so many bytes; asked before a body over `LARGE_BYTES` is held. */
export type RoomFor = (bytes: number) => Promise<boolean>;
/** Where a call's body is held. */
export interface BodyHolder {
  readonly roomFor: RoomFor;
  /** Takes the body over, to free it when the call has ended. */
  keep(body: Uint8Array): void;
}

/** What a body of unknown length is given at first. */
const FIRST_BYTES = 16 * 1024;

/**
 * The whole body, never more than `maxBytes` of it, whatever its length claims to be. It stands in memory once: a body
 * that names its length has room for just that, one that does not has room for all it may come to as soon as it is large.
 */
export async function readBody(
  request: Request,
  maxBytes: number,
  roomFor: RoomFor,
): Promise<Uint8Array | "too_large" | "broken" | "busy"> {
  const length = request.headers.get("content-length");
  const claimed = length === null ? null : Number(length);
  if (claimed !== null && claimed > maxBytes) return "too_large";
  if (!request.body) return new Uint8Array();
  if (!(await roomFor(claimed ?? 0))) return "busy";
  if (claimed !== null && claimed > LARGE_BYTES) return fill(request.body, claimed);
  let whole = new Uint8Array(claimed ?? FIRST_BYTES);
  let filled = 0;
  try {
    for await (const chunk of request.body as ReadableStream<Uint8Array>) {
      const needed = filled + chunk.byteLength;
      if (needed > maxBytes) return "too_large";
      if (needed > whole.length) {
        if (claimed !== null) return "broken";
        const larger = needed > LARGE_BYTES ? maxBytes : Math.min(LARGE_BYTES, Math.max(needed, 2 * whole.length));
        if (!(await roomFor(larger))) return "busy";
        const grown = new Uint8Array(larger);
        grown.set(whole.subarray(0, filled));
        whole = grown;
      }
      whole.set(chunk, filled);
      filled = needed;
    }
  } catch {
    return "broken";
  }
  return whole.subarray(0, filled);
}

/**
 * A large body of known length, filled in place by the runtime: taken in chunks it would take twice the time, and as much
 * memory again for chunks that nobody needs any more.
 */
async function fill(body: ReadableStream<Uint8Array>, length: number): Promise<Uint8Array | "broken"> {
  const reader = body.getReader({ mode: "byob" });
  // A byte more, so that the end of the body is read as well.
  let whole = new Uint8Array(length + 1);
  let filled = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read(whole.subarray(filled));
      // What was given is detached; its memory comes back under a new name.
      if (value) whole = new Uint8Array(value.buffer as ArrayBuffer);
      if (done) return filled === length ? whole.subarray(0, filled) : "broken";
      filled += value.byteLength;
    }
  } catch {
    return "broken";
  }
}

/**
 * Gives the memory of a large body back at once: a runtime that counts only its own heap is in no hurry to do so. The
 * bytes are gone for everybody.
 */
export function free(bytes: Uint8Array): void {
  if (bytes.length > LARGE_BYTES) (bytes.buffer as ArrayBuffer).transfer(0);
}

/** One array of all chunks. */
export function join(
  chunks: readonly Uint8Array[],
  length = chunks.reduce((sum, { byteLength }) => sum + byteLength, 0),
): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.byteLength;
  }
  return whole;
}

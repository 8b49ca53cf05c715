/** Reads an upstream's body within bounds: its size and its time limits. */
import { joinBytes } from "../../core/formats/bytes.ts";
import type { Answered, Ports } from "../ports.ts";
import { every } from "../timer.ts";
import { readerOf } from "./at-once.ts";

/** How often time limits are checked, ms. */
const TICK_MS = 1_000;

type Readable = Pick<Answered, "response" | "idleMs" | "totalMs">;

/**
 * Watches a body pass. Calls `expired` once when a read has waited `idleMs`, or the whole body `totalMs`. Calls
 * `paused` when the client has not taken the last piece for `idleMs`. It looks once a second: a timer for each read
 * would cost more than the read.
 */
export class Watchdog {
  #waitingSinceMs: number | null = null;
  #givenAtMs: number | null = null;
  readonly #stop: () => void;

  constructor(
    limits: { idleMs: number; totalMs: number },
    ports: Pick<Ports, "now" | "after">,
    expired: () => void,
    paused: () => void = () => undefined,
  ) {
    const startedAtMs = ports.now();
    const isOver = (sinceMs: number | null, nowMs: number) => sinceMs !== null && nowMs - sinceMs >= limits.idleMs;
    const tickMs = Math.min(TICK_MS, Math.max(10, limits.idleMs / 4));
    const look = () => {
      const now = ports.now();
      if (isOver(this.#givenAtMs, now)) {
        this.#givenAtMs = null;
        paused();
      }
      if (!isOver(this.#waitingSinceMs, now) && now - startedAtMs < limits.totalMs) return;
      this.stop();
      expired();
    };
    this.#stop = every(tickMs, look, ports.after);
  }

  /** A read begins: the upstream's silence counts from now. */
  waiting(nowMs: number): void {
    this.#waitingSinceMs = nowMs;
    this.#givenAtMs = null;
  }

  /** Bytes came; the time until the next read counts for neither side. */
  fed(): void {
    this.#waitingSinceMs = null;
  }

  /** Bytes came and go to the client: the time from now is the client's, not the upstream's. */
  given(nowMs: number): void {
    this.#waitingSinceMs = null;
    this.#givenAtMs = nowMs;
  }

  stop(): void {
    this.#stop();
  }
}

/** The whole body. `lost`: it broke off. `timeout`: it fell silent. `malformed`: it is longer than `maxBytes`. */
export async function readUpstream(
  answer: Readable,
  maxBytes: number,
  signal: AbortSignal,
  ports: Pick<Ports, "now" | "after">,
): Promise<Uint8Array<ArrayBuffer> | "lost" | "timeout" | "malformed"> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const keep = (chunk: Uint8Array) => {
    length += chunk.byteLength;
    chunks.push(chunk);
    return length > maxBytes ? "malformed" : "more";
  };
  const read = await readChunks(answer, keep, signal, ports);
  return read === "ended" ? joinBytes(chunks) : read;
}

/** What to do after a chunk: read `more`; `enough`, someone else reads the rest; or cancel the rest as `malformed`. */
export type Taken = "more" | "enough" | "malformed";

/**
 * Hands the body over as it comes, until it `ended` or its taker has `enough`. Then it can be read on. `atOnce`:
 * nothing is gained by a look at its pieces.
 */
export async function readChunks<T extends Taken>(
  answer: Readable & { readonly atOnce?: boolean },
  take: (chunk: Uint8Array) => T,
  signal: AbortSignal,
  ports: Pick<Ports, "now" | "after">,
): Promise<Exclude<T, "more"> | "ended" | "lost" | "timeout"> {
  const { body, headers } = answer.response;
  if (!body) return "ended";
  const length = answer.atOnce ? headers.get("content-length") : null;
  const reader = readerOf(body, length === null ? null : Number(length));
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
      // A cancelled reader ends as if the body had ended, so this is not the whole body.
      if (timedOut) return "timeout";
      if (signal.aborted) return "lost";
      if (done || !value) {
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

/**
 * Reading an upstream's body within bounds: its size, and the clock.
 */
import { joinBytes } from "../../core/formats/bytes.ts";
import type { Answered, Ports } from "../ports.ts";

/** How often time limits are looked at. */
const TICK_MS = 1_000;

/**
 * Watches a body pass. Calls `expired` once when a read has waited `idleMs`, or everything `totalMs`; calls `paused` when a
 * client has not taken for `idleMs` what it was given. One timer for the whole body: a timer for each read would cost
 * more than the read.
 */
export class Watchdog {
  #waitingSinceMs: number | null = null;
  #givenAtMs: number | null = null;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(
    limits: { idleMs: number; totalMs: number },
    ports: Pick<Ports, "now">,
    expired: () => void,
    paused: () => void = () => undefined,
  ) {
    const startedAtMs = ports.now();
    const isOver = (sinceMs: number | null, nowMs: number) => sinceMs !== null && nowMs - sinceMs >= limits.idleMs;
    this.#timer = setInterval(
      () => {
        const now = ports.now();
        if (isOver(this.#givenAtMs, now)) {
          this.#givenAtMs = null;
          paused();
        }
        if (!isOver(this.#waitingSinceMs, now) && now - startedAtMs < limits.totalMs) return;
        this.stop();
        expired();
      },
      Math.min(TICK_MS, Math.max(10, limits.idleMs / 4)),
    );
  }

  /** A read begins: silence counts from now. */
  waiting(nowMs: number): void {
    this.#waitingSinceMs = nowMs;
    this.#givenAtMs = null;
  }

  /** Bytes came: what follows is nobody's time. */
  fed(): void {
    this.#waitingSinceMs = null;
  }

  /** Bytes came and go to the client: what follows is its time, not the upstream's. */
  given(nowMs: number): void {
    this.#waitingSinceMs = null;
    this.#givenAtMs = nowMs;
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
  return read === "ended" ? joinBytes(chunks) : read;
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

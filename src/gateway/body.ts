/**
 * Reading bodies within bounds: a client's within its size, an upstream's within its size and against the clock.
 */
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
  if (!answer.response.body) return new Uint8Array();
  const reader = answer.response.body.getReader();
  let timedOut = false;
  const cancel = () => void reader.cancel().catch(() => undefined);
  const watchdog = new Watchdog(answer, ports, () => {
    timedOut = true;
    cancel();
  });
  signal.addEventListener("abort", cancel);
  try {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (;;) {
      watchdog.waiting(ports.now());
      const { done, value } = await reader.read();
      // A cancelled reader ends as if the body had: what came is not the whole.
      if (timedOut) return "timeout";
      if (signal.aborted) return "lost";
      if (done) return join(chunks, length);
      length += value.byteLength;
      if (length > maxBytes) {
        cancel();
        return "malformed";
      }
      chunks.push(value);
    }
  } catch {
    return timedOut ? "timeout" : "lost";
  } finally {
    watchdog.stop();
    signal.removeEventListener("abort", cancel);
  }
}

/** The whole body, never more than `maxBytes` of it, whatever its length claims to be. */
export async function readBody(request: Request, maxBytes: number): Promise<Uint8Array | "too_large" | "broken"> {
  const claimed = Number(request.headers.get("content-length") ?? 0);
  if (claimed > maxBytes) return "too_large";
  if (!request.body) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of request.body as ReadableStream<Uint8Array>) {
      length += chunk.byteLength;
      if (length > maxBytes) return "too_large";
      chunks.push(chunk);
    }
  } catch {
    return "broken";
  }
  return join(chunks, length);
}

/** One array of all chunks. */
function join(chunks: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.byteLength;
  }
  return whole;
}

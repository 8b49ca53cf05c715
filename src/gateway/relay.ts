/**
 * Passes a streamed answer to the client as it comes, and reads its usage in passing.
 *
 * Promises: what is read reaches the client before the next is read; a stream that is cut, stalled or garbled ends in an
 * aborted body, never as if it were whole; `ended` resolves once, whatever happens. How events and plain bytes pass is
 * `passage.ts`'s business.
 */
import type { Outcome } from "../core/hold.ts";
import { Watchdog } from "./body.ts";
import type { Client, Passage } from "./passage.ts";
import type { Ports, UpstreamAnswer } from "./ports.ts";

export interface Relay {
  /** The client's side of the stream. */
  readonly body: ReadableStream<Uint8Array>;
  /** As soon as the reading is final: when a whole stream was delivered, or when it broke. */
  readonly ended: Promise<RelayEnd>;
  /** When nothing of it is open any more. */
  readonly closed: Promise<void>;
}
export interface RelayEnd {
  readonly outcome: Outcome;
  readonly firstByteAtMs: number | null;
}

/** `passageTo`: makes the way to a client from its writer. */
export function relay(
  answer: UpstreamAnswer & { kind: "answer" },
  passageTo: (writer: WritableStreamDefaultWriter<Uint8Array>) => Passage,
  client: Client,
  signal: AbortSignal,
  ports: Ports,
): Relay {
  const { readable, writable } = newPipe();
  const writer = writable.getWriter();
  // Rejects when the client lets go of the body; the next write says the same, but it may be long in coming.
  writer.closed.catch(() => client.leave());
  const ended = Promise.withResolvers<RelayEnd>();
  const closed = pump(answer, passageTo(writer), signal, ended.resolve, ports);
  return { body: readable, ended: ended.promise, closed };
}

/**
 * A write ends when its bytes were taken, and the readable end keeps the request's context alive to the last byte.
 * Cloudflare's own pipe does that at a fifth of the cost of the standard one.
 */
function newPipe(): Pipe {
  const Native = (globalThis as { IdentityTransformStream?: new () => Pipe }).IdentityTransformStream;
  if (Native) return new Native();
  return new TransformStream<Uint8Array, Uint8Array>(undefined, { highWaterMark: 0 }, { highWaterMark: 0 });
}
interface Pipe {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

async function pump(
  answer: UpstreamAnswer & { kind: "answer" },
  passage: Passage,
  signal: AbortSignal,
  end: (end: RelayEnd) => void,
  ports: Ports,
): Promise<void> {
  const source = (answer.response.body as ReadableStream<Uint8Array>).getReader();
  const cancel = () => void source.cancel().catch(() => undefined);
  let cancelled = false;
  const watchdog = new Watchdog(answer, ports, () => {
    cancelled = true;
    cancel();
  });
  signal.addEventListener("abort", cancel);
  let firstByteAtMs: number | null = null;
  let sound = true;
  try {
    while (sound) {
      watchdog.waiting(ports.now());
      const { done, value } = await source.read();
      if (done) break;
      watchdog.fed();
      firstByteAtMs ??= ports.now();
      sound = await passage.take(value);
      if (passage.delivered) end({ outcome: "completed", firstByteAtMs });
    }
  } catch {
    sound = false;
  } finally {
    watchdog.stop();
    signal.removeEventListener("abort", cancel);
  }
  if (!sound) cancel();
  // A cancelled body ends as if it had come to its end: what came is not the whole.
  const whole = sound && !cancelled && !signal.aborted && (await passage.finish());
  end({ outcome: await passage.close(whole), firstByteAtMs });
}

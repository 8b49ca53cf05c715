/**
 * Delivery: frames are sent one at a time, each after the client has taken the one before. A client that leaves stops
 * the stream at once. In every case `finish` runs once with what was really sent, before the body ends.
 */
import type { Step } from "./steps.ts";
import type { Usage } from "./usage.ts";

/** What was really sent. */
interface Delivered {
  readonly bytesSent: number;
  readonly framesSent: number;
  readonly closedEarly: boolean;
  readonly usage: Usage | null;
}

/** An abort overtakes bytes on their way, so before a cut they get this long to arrive, ms. */
const FLUSH_MS = 25;

type Finish = (delivered: Delivered) => Promise<void>;

/** Resolves when the client leaves. */
export function departure(signal: AbortSignal): Promise<"gone"> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve("gone");
    else signal.addEventListener("abort", () => resolve("gone"), { once: true });
  });
}

/** The body that these steps make. `ended` settles after its last byte, and never rejects. */
export function deliver(
  steps: Iterable<Step>,
  before: Usage | null,
  signal: AbortSignal,
  finish: Finish,
): { body: ReadableStream<Uint8Array>; ended: Promise<void> } {
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const ended = pump(steps, before, writer, signal, finish).catch(() => writer.abort().catch(() => undefined));
  return { body: readable, ended };
}

async function pump(
  steps: Iterable<Step>,
  before: Usage | null,
  writer: WritableStreamDefaultWriter<Uint8Array>,
  signal: AbortSignal,
  finish: Finish,
): Promise<void> {
  const gone = departure(signal);
  const closed = writer.closed.then(
    () => "gone" as const,
    () => "gone" as const,
  );
  let bytesSent = 0;
  let framesSent = 0;
  let usage = before;
  for (const step of steps) {
    if (step.kind === "cut") {
      await scheduler.wait(FLUSH_MS);
      await finish({ bytesSent, framesSent, closedEarly: false, usage });
      await writer.abort(new Error("The connection was cut."));
      return;
    }
    const work = step.kind === "wait" ? scheduler.wait(step.ms) : writer.write(step.bytes);
    const outcome = await Promise.race([
      work.then(
        () => "done" as const,
        () => "gone" as const,
      ),
      gone,
      closed,
    ]);
    if (outcome === "gone" || signal.aborted) {
      await finish({ bytesSent, framesSent, closedEarly: true, usage });
      await writer.abort(new Error("The client left."));
      return;
    }
    if (step.kind !== "send") continue;
    bytesSent += step.bytes.length;
    framesSent += step.frame ? 1 : 0;
    usage = step.usage;
  }
  await finish({ bytesSent, framesSent, closedEarly: false, usage });
  await writer.close();
}

/**
 * A stream of events on the runtime's own pipe, read behind it: one branch of a tee is piped to the client, the other
 * is read in large pieces every now and then. A frame then costs a third more than a bare body instead of five times
 * that.
 *
 * Promises: the client's branch goes at the client's pace; a broken stream is noticed within `READ_EVERY_MS`, and its
 * pipe is stopped then; a whole one is told as soon as that. Memory: what the reader is behind the pipe waits in the
 * tee, at most `READ_EVERY_MS` of it. A reader that is not behind pulls by itself, so a client that does not take what
 * comes has that much waiting for it; which of the two it is cannot be seen from here. So a stream that grows faster
 * than text can is broken off (`MOST_BYTES`). A client that pauses does not make such a call longer: its upstream is
 * read to the end at its own pace, the call is settled then, and the client has its time to take the rest
 * (`LEAST_BYTES_PER_MS`).
 *
 * Only streams that have begun as text in small pieces come here (`Opening`): of larger pieces the reading costs little
 * beside the passing, and an error in place of an answer comes early. What an upstream says of an error later than that
 * passes as it is before it is noticed; its target's next streams are then read first
 * (`core/routing/target-health.ts`).
 */
import type { Watchdog } from "../http/upstream-body.ts";
import type { Ports } from "../ports.ts";
import { settledWithin } from "../wait.ts";
import { Afterword } from "./afterword.ts";
import type { UnreadPassage } from "./client-stream.ts";
import type { Client } from "./outlet.ts";
import { PauseSigns } from "./pause-signs.ts";

/** A settlement is due 500 ms after the last byte. */
const READ_EVERY_MS = 300;
/** How long a client has to take the last event before the call counts as delivered, ms. */
const TAKEN_WITHIN_MS = 100;
const PIECE_BYTES = 16 * 1024;
/** After cancelling, keep reading this long so that delivered bytes are charged. */
const LAST_READ_MS = 25;
/** The most bytes of a stream: this many, plus this many per millisecond. */
const MOST_BYTES = 16 * 1024 * 1024;
const MOST_BYTES_PER_MS = 256;
/** Once all was read, the client must take at least this much per millisecond, with `idleMs` on top for all of it. */
const LEAST_BYTES_PER_MS = 8;

/** This many pieces of each stream are read before they pass. */
const OPENING_PIECES = 16;
/** Average size below which pieces count as text: one token and the rest of its event. */
const TEXT_PIECE_BYTES = 1024;

/** Whether a stream has begun as text. */
export class Opening {
  #pieces = 0;
  #bytes = 0;

  add(piece: Uint8Array): void {
    this.#pieces++;
    this.#bytes += piece.byteLength;
  }

  get isText(): boolean {
    return this.#pieces >= OPENING_PIECES && this.#bytes <= this.#pieces * TEXT_PIECE_BYTES;
  }
}

/** `broken`: an event that passed shows it. `severed`: the pipe, its client or its upstream ended early. */
type UnreadEnd = "sound" | "broken" | "severed";

export interface Unread {
  /** How the answer was as far as it came; the client's side is the passage's again. */
  readonly ended: Promise<UnreadEnd>;
  /** Cancels the upstream and the pipe. */
  cancel(): void;
}

/** `delivered`: called once, when the last event was read and its client had the time to take it. */
export function passUnread(
  body: ReadableStream<Uint8Array>,
  passage: UnreadPassage,
  client: Client,
  watchdog: Watchdog,
  delivered: () => void,
  idleMs: number,
  ports: Pick<Ports, "now" | "random">,
): Unread {
  const [toClient, toReader] = body.tee();
  const stop = new AbortController();
  const options = { preventClose: true, preventAbort: true, signal: stop.signal };
  const piped = toClient.pipeTo(passage.lend(), options).then(
    () => true,
    // The client left, the upstream broke off, or the pipe was stopped. The client's side reports the first.
    () => false,
  );
  let severed = false;
  const returned = piped.then((whole) => {
    severed = !whole;
    passage.takeBack();
  });
  // While its upstream is silent, a pipe does not notice that its client left. Stop it, to read what passed at once.
  client.whenLeft(() => stop.abort());
  const reader = toReader.getReader({ mode: "byob" });
  const close = () => void reader.cancel().catch(() => undefined);
  const cancel = () => {
    stop.abort();
    setTimeout(close, LAST_READ_MS);
  };
  const signs = new PauseSigns(idleMs);
  let bytes = 0;
  const takenWithin = () => idleMs + bytes / LEAST_BYTES_PER_MS;
  const afterword = new Afterword();
  const read = async (): Promise<UnreadEnd> => {
    const startedAtMs = ports.now();
    let piece = new Uint8Array(PIECE_BYTES);
    let told = false;
    for (;;) {
      const askedAtMs = ports.now();
      watchdog.waiting(askedAtMs);
      const { done, value } = await reader.read(piece);
      if (done) return "sound";
      watchdog.fed();
      if (!passage.read(value)) return "broken";
      // Only for a client that left, and whose account wants the exact usage, is a stream read without its pipe.
      if (severed && !client.gone) return "severed";
      bytes += value.byteLength;
      if (bytes > MOST_BYTES + (ports.now() - startedAtMs) * MOST_BYTES_PER_MS) return "severed";
      if (passage.complete && !told) {
        told = true;
        void pauseUnless(returned, TAKEN_WITHIN_MS).then(() => {
          if (client.gone) return;
          passage.taken();
          delivered();
        });
      }
      // Don't wait for the upstream to close the connection.
      if (passage.complete && client.gone) return "sound";
      if (passage.complete && afterword.goesOn(value.byteLength, ports.now(), takenWithin())) return "severed";
      const behind = value.byteLength === PIECE_BYTES;
      piece = new Uint8Array(value.buffer);
      const now = ports.now();
      const restMs = signs.add(value.byteLength, behind, now - askedAtMs, now);
      if (restMs === null) continue;
      if (signs.paused(now)) client.leave();
      // A random part, so that the pauses do not keep step with the upstream.
      await pauseUnless(returned, Math.max(restMs, READ_EVERY_MS * (1 - ports.random() / 3)));
    }
  };
  const ended = async (): Promise<UnreadEnd> => {
    const end = await read().catch((): UnreadEnd => "severed");
    if (end !== "sound" || client.gone) {
      stop.abort();
      close();
    }
    if (!(await settledWithin(returned, takenWithin()))) {
      client.leave();
      stop.abort();
      await returned;
    }
    // Whatever ended the pipe early, the client does not have all that was read.
    if (end !== "sound" || severed) return end === "broken" ? end : "severed";
    passage.taken();
    return end;
  };
  return { ended: ended(), cancel };
}

/** Waits for `ms`, or until the pipe has ended. */
async function pauseUnless(ended: Promise<void>, ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([ended, promise]);
  clearTimeout(timer);
}

/**
 * Sends a body so that we know afterwards whether the upstream can have received all of it.
 *
 * The runtime reports a refused and a reset connection alike: lost. So if it matters (`careful`), the last bytes of the
 * body are held back for `REFUSAL_MS`, in which a refused connection fails. If those bytes were never sent, the request
 * was not executed: no upstream can have had all of it, and a body shorter than its `content-length` is not a request.
 * Probing the port afterwards would prove nothing, since a server that took the request and then died refuses too
 * (docs/decisions/0005-what-was-handed-over.md).
 */
import { connect } from "cloudflare:sockets";
import { joinBytes } from "../../core/formats/bytes.ts";
import type { After } from "../../gateway/ports.ts";

/** Longer than a region on the same continent takes to refuse a connection, ms. */
const REFUSAL_MS = 50;
/** Bytes held back: more than the end of a form's last line. */
const KEPT_BYTES = 16;
/** Up to this size a copy costs less than a stream. */
const COPIED_BYTES = 1024 * 1024;
/** Bytes sent in one piece. */
const SLICE_BYTES = 512 * 1024;
/** A port that takes longer than this to open counts as open, ms. */
const KNOCK_MS = 1_000;

export interface Sendable {
  readonly body: BodyInit | null;
  /** False until the end of the body was passed to the runtime. */
  whole(): boolean;
  /** Resolves when the pieces are needed no more: all were passed on, or none will be. */
  readonly taken: Promise<void>;
  /** Sends nothing more. Not for early answers: after one the rest of the body is still sent. */
  stop(): void;
}

/** `pieces`: the body in order; null: no body. */
export function sendable(pieces: readonly Uint8Array<ArrayBuffer>[] | null, careful: boolean): Sendable {
  const length = pieces?.reduce((sum, piece) => sum + piece.length, 0) ?? 0;
  if (pieces === null || (!careful && length <= COPIED_BYTES)) {
    const body = pieces && joinBytes(pieces);
    return { body, whole: () => true, taken: Promise.resolve(), stop: () => undefined };
  }
  const { readable, writable } = new FixedLengthStream(length);
  const writing = new Writing(writable.getWriter(), careful);
  const taken = writing.write(pieces);
  return { body: readable, whole: () => writing.whole, taken, stop: () => writing.stop() };
}

/** Writes the pieces one after the other, with their true length, without copying them into one buffer. */
class Writing {
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #careful: boolean;
  #stopped = false;
  whole = false;

  constructor(writer: WritableStreamDefaultWriter<Uint8Array>, careful: boolean) {
    this.#writer = writer;
    this.#careful = careful;
    writer.closed.catch(() => undefined);
  }

  async write(pieces: readonly Uint8Array[]): Promise<void> {
    const last = pieces.at(-1) ?? new Uint8Array();
    const kept = Math.min(KEPT_BYTES, last.length);
    try {
      for (const piece of pieces.slice(0, -1)) await this.#inSlices(piece);
      await this.#inSlices(last.subarray(0, last.length - kept));
      if (this.#careful) await new Promise((resume) => setTimeout(resume, REFUSAL_MS));
      if (this.#stopped) return;
      this.whole = true;
      await this.#writer.write(last.subarray(last.length - kept));
      await this.#writer.close();
    } catch {
      // The upstream stopped reading. Its answer, or the lack of one, decides the call's outcome.
    }
  }

  /** The runtime copies what it gets: a whole upload would be in memory twice. */
  async #inSlices(piece: Uint8Array): Promise<void> {
    for (let at = 0; at < piece.length; at += SLICE_BYTES) {
      await this.#writer.write(piece.subarray(at, at + SLICE_BYTES));
    }
  }

  /** The connection is gone; unsent bytes will never be sent. */
  stop(): void {
    if (this.#stopped || this.whole) return;
    this.#stopped = true;
    this.#writer.abort(new Error("not sent")).catch(() => undefined);
  }
}

/**
 * Whether the upstream's port accepts connections now. Used after a lost connection, for error texts and health only:
 * it does not show whether the call was executed.
 */
export const listens = async (baseUrl: string): Promise<boolean> => (await knock(baseUrl, KNOCK_MS)) !== "refused";

/**
 * Calls `onSilent` if the upstream has not answered and a connection to it does not open. A host whose packets are lost
 * is as silent as one that is thinking, and `fetch` does not report when its connection opens. So after half of
 * `connectMs` a connection of our own is tried for the other half. Only silence counts: an address that we may not
 * connect to refuses at once, though `fetch` reaches it (docs/decisions/0008-an-upstream-out-of-reach.md).
 *
 * Returns the function that ends the watch.
 */
export function whenOutOfReach(baseUrl: string, connectMs: number, onSilent: () => void, wait: After): () => void {
  let over = false;
  const tryIt = async () => {
    const knocked = await knock(baseUrl, connectMs / 2);
    if (knocked === "silent" && !over) onSilent();
  };
  const stop = wait(connectMs / 2, () => void tryIt());
  return () => {
    over = true;
    stop();
  };
}

/** `silent`: neither open nor refused within the time. */
async function knock(baseUrl: string, withinMs: number): Promise<"open" | "refused" | "silent"> {
  const { hostname, port, protocol } = new URL(baseUrl);
  try {
    const socket = connect({ hostname, port: Number(port) || (protocol === "https:" ? 443 : 80) });
    socket.closed.catch(() => undefined);
    const { promise: slow, resolve } = Promise.withResolvers<"silent">();
    const timer = setTimeout(() => resolve("silent"), withinMs);
    try {
      return await Promise.race([socket.opened.then(() => "open" as const), slow]);
    } finally {
      clearTimeout(timer);
      socket.close().catch(() => undefined);
    }
  } catch {
    return "refused";
  }
}

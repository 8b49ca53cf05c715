/**
 * Handing a body to an upstream so that it is known afterwards whether the upstream can have had all of it.
 *
 * The runtime says of a refused and of a reset connection the same: lost. So where it matters (`careful`) the last bytes
 * of the body are kept back for `REFUSAL_MS`, in which a connection that is refused fails. A request whose end was never
 * handed over was not executed: no upstream can have had it whole, and a shorter body than its `content-length` is no
 * request. Asking afterwards whether the port is open would prove nothing: a server that took the request and then died
 * refuses too (docs/decisions/0005-what-was-handed-over.md).
 */
import { connect } from "cloudflare:sockets";
import { joinPieces } from "../../core/endpoints/payload.ts";

/** Longer than a connection takes to be refused by a region of the same continent, ms. */
const REFUSAL_MS = 50;
/** Kept back: more than the end of a form's last line. */
const KEPT_BYTES = 16;
/** Up to this size a copy costs less than a stream. */
const COPIED_BYTES = 1024 * 1024;
/** Handed over at once. */
const SLICE_BYTES = 512 * 1024;
/** How long a port may take to open before it counts as open, ms. */
const KNOCK_MS = 1_000;

export interface Sendable {
  readonly body: BodyInit | null;
  /** False while the end of the body was not handed to the runtime. */
  whole(): boolean;
  /** Nothing more is handed over. An upstream that answers early gets the rest all the same. */
  stop(): void;
}

/** `pieces`: the body in order; null: none. */
export function sendable(pieces: readonly Uint8Array<ArrayBuffer>[] | null, careful: boolean): Sendable {
  const length = pieces?.reduce((sum, piece) => sum + piece.length, 0) ?? 0;
  if (pieces === null || (!careful && length <= COPIED_BYTES)) {
    return { body: pieces && joinPieces(pieces), whole: () => true, stop: () => undefined };
  }
  const { readable, writable } = new FixedLengthStream(length);
  const writing = new Writing(writable.getWriter(), careful);
  void writing.write(pieces);
  return { body: readable, whole: () => writing.whole, stop: () => writing.stop() };
}

/** Writes pieces one after the other, under their true length, without a copy of them together. */
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
      // The upstream stopped reading; what it answers, or that it does not, is the call's outcome.
    }
  }

  /** The runtime copies what it is handed: an upload would be there twice. */
  async #inSlices(piece: Uint8Array): Promise<void> {
    for (let at = 0; at < piece.length; at += SLICE_BYTES) {
      await this.#writer.write(piece.subarray(at, at + SLICE_BYTES));
    }
  }

  /** The connection is gone: what was not handed over never will be. */
  stop(): void {
    if (this.#stopped || this.whole) return;
    this.#stopped = true;
    this.#writer.abort(new Error("not sent")).catch(() => undefined);
  }
}

/**
 * Whether something listens there now. For words and health only, after a connection was lost: it says nothing of what
 * was executed before.
 */
export const listens = async (baseUrl: string): Promise<boolean> => (await knock(baseUrl, KNOCK_MS)) !== "refused";

/**
 * Says so where an upstream that has said nothing cannot be connected to: one whose packets are lost says nothing for as
 * long as one that thinks. `fetch` tells neither when its connection stands nor that it waits for one, so a connection of
 * our own is tried for the second half of `connectMs`. Only its silence counts: an address that may not be connected to
 * from here refuses at once, though `fetch` reaches it (docs/decisions/0008-an-upstream-out-of-reach.md).
 *
 * Gives what ends the watch.
 */
export function whenOutOfReach(baseUrl: string, connectMs: number, say: () => void): () => void {
  let over = false;
  const timer = setTimeout(async () => {
    const knocked = await knock(baseUrl, connectMs / 2);
    if (knocked === "silent" && !over) say();
  }, connectMs / 2);
  return () => {
    over = true;
    clearTimeout(timer);
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

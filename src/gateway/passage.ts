/**
 * How an answer's bytes pass to the client: as events, read one by one, or as plain bytes.
 *
 * Bytes are the upstream's, but for the usage event that the gateway asked for. A stream of events that breaks says so in
 * an error event before its body is aborted.
 */
import type { ErrorShape } from "../core/endpoints/endpoint.ts";
import type { Outcome } from "../core/hold.ts";
import type { BytesReader, EventReader } from "../core/meters/meter.ts";
import { toHttp } from "../core/refusal.ts";
import { dataOf, SseSplitter } from "../core/sse.ts";
import { errorBody } from "./answer.ts";

/** The client, as far as a relay must know: whether it is still there, and what ends the upstream. */
export interface Client {
  /** True once it has left. */
  readonly gone: boolean;
  /** Called when the body it was reading was let go. */
  leave(): void;
}

export interface Passage {
  /** True once everything that makes the answer whole was taken by the client. */
  readonly delivered: boolean;
  /** Passes one read on; false when it shows that the answer is broken. */
  take(chunk: Uint8Array): Promise<boolean>;
  /** The upstream's body has ended by itself: true when the answer was whole. */
  finish(): Promise<boolean>;
  /** Ends the client's side. */
  close(whole: boolean): Promise<Outcome>;
}

type Writer = WritableStreamDefaultWriter<Uint8Array>;

/** An abort drops what was taken and is not yet sent, here and in the client: so long its last event has to be read. */
const LAST_WORDS_MS = 50;

/** Writes to a client for as long as it is there. */
class Outlet {
  readonly #writer: Writer;
  readonly #client: Client;

  constructor(writer: Writer, client: Client) {
    this.#writer = writer;
    this.#client = client;
  }

  /** Waits until the client has taken it: a slow reader slows the upstream down, and nothing piles up here. */
  async write(bytes: Uint8Array): Promise<boolean> {
    if (this.#client.gone) return false;
    try {
      await this.#writer.write(bytes);
      return true;
    } catch {
      this.#client.leave();
      return false;
    }
  }

  async end(): Promise<void> {
    await this.#writer.close().catch(() => undefined);
  }

  /** `last`: what a client that is still there is told before its body is aborted. */
  async abort(last: Uint8Array | null): Promise<Outcome> {
    const gone = this.#client.gone;
    if (!gone && last) {
      await this.write(last);
      await new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS));
    }
    await this.#writer.abort(new Error("the upstream's answer broke off")).catch(() => undefined);
    return gone ? "client_gone" : "stream_broken";
  }
}

const encoder = new TextEncoder();

/** Server-sent events. `record`: records the id that an event hands out, before that event passes. */
export class EventPassage implements Passage {
  readonly #reader: EventReader;
  readonly #outlet: Outlet;
  readonly #shape: ErrorShape;
  readonly #record: (id: string) => Promise<void>;
  readonly #splitter = new SseSplitter();
  #recorded: string | null = null;
  /** The event that ends a whole stream has been seen. */
  #complete = false;
  delivered = false;

  constructor(
    reader: EventReader,
    writer: Writer,
    client: Client,
    shape: ErrorShape,
    record: (id: string) => Promise<void>,
  ) {
    this.#reader = reader;
    this.#outlet = new Outlet(writer, client);
    this.#shape = shape;
    this.#record = record;
  }

  async take(chunk: Uint8Array): Promise<boolean> {
    const { wholeEvents } = this.#reader;
    const heldBefore = this.#splitter.open;
    const kept: Uint8Array[] = [];
    let dropped = false;
    for (const event of this.#splitter.push(chunk)) {
      const verdict = this.#judge(event);
      if (verdict === "broken") {
        if (wholeEvents) await this.#writeAll(kept);
        return false;
      }
      if (verdict === "drop") dropped = true;
      else kept.push(event);
    }
    if (this.#splitter.overlong) return false;
    await this.#recordNew();
    const untouched = !dropped && !heldBefore && !this.#splitter.open;
    if (!wholeEvents || untouched) await this.#writeAll([chunk]);
    else await this.#writeAll(kept);
    return true;
  }

  /** Its last blank line may be missing. */
  async finish(): Promise<boolean> {
    if (this.#splitter.open) {
      const rest = this.#splitter.rest();
      if (this.#judge(rest) !== "pass") return false;
      if (this.#reader.wholeEvents) await this.#writeAll([rest]);
    }
    return this.#complete;
  }

  async close(whole: boolean): Promise<Outcome> {
    if (!whole) {
      const error = errorBody(toHttp({ kind: "upstream_error", repeatable: true }), this.#shape);
      // The blank line ends an event that may have been passed on in part.
      return this.#outlet.abort(encoder.encode(`\n\ndata: ${JSON.stringify(error)}\n\n`));
    }
    await this.#outlet.end();
    return this.delivered ? "completed" : "client_gone";
  }

  #judge(event: Uint8Array): "pass" | "drop" | "broken" {
    const data = dataOf(event);
    if (data === undefined) return "pass";
    const verdict = this.#reader.event(data);
    if (verdict !== "end") return verdict;
    this.#complete = true;
    return "pass";
  }

  async #recordNew(): Promise<void> {
    const id = this.#reader.created?.() ?? null;
    if (id === null || id === this.#recorded) return;
    await this.#record(id);
    this.#recorded = id;
  }

  async #writeAll(pieces: readonly Uint8Array[]): Promise<void> {
    for (const piece of pieces) {
      const taken = await this.#outlet.write(piece);
      this.delivered = taken && this.#complete;
    }
  }
}

/** Plain bytes: whole when the upstream's body ends by itself. */
export class BytesPassage implements Passage {
  readonly #reader: BytesReader;
  readonly #outlet: Outlet;
  readonly #client: Client;
  /** Only the end of the body tells that all of it was there. */
  readonly delivered = false;

  constructor(reader: BytesReader, writer: Writer, client: Client) {
    this.#reader = reader;
    this.#outlet = new Outlet(writer, client);
    this.#client = client;
  }

  async take(chunk: Uint8Array): Promise<boolean> {
    this.#reader.push(chunk);
    await this.#outlet.write(chunk);
    return true;
  }

  async finish(): Promise<boolean> {
    return true;
  }

  async close(whole: boolean): Promise<Outcome> {
    if (!whole) return this.#outlet.abort(null);
    const gone = this.#client.gone;
    await this.#outlet.end();
    return gone ? "client_gone" : "completed";
  }
}

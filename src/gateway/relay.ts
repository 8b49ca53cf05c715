/**
 * Passes a stream of events to the client as it comes, and reads its usage in passing.
 *
 * Promises: an event reaches the client before the next is read; bytes are the upstream's, but for the usage event that
 * the gateway asked for; a stream that is cut, stalled or garbled ends with an error event and an aborted body, never as
 * if it were whole; `ended` resolves once, whatever happens.
 */

import type { ErrorShape } from "../core/endpoints/endpoint.ts";
import type { Outcome } from "../core/hold.ts";
import type { EventReader } from "../core/meters/meter.ts";
import { toHttp } from "../core/refusal.ts";
import { dataOf, SseSplitter } from "../core/sse.ts";
import { errorBody } from "./answer.ts";
import { Watchdog } from "./body.ts";
import type { Ports, UpstreamAnswer } from "./ports.ts";

export interface Relay {
  /** The client's side of the stream. */
  readonly body: ReadableStream<Uint8Array>;
  /** As soon as the reading is final: at the event that ends a whole stream, or when the stream broke. */
  readonly ended: Promise<RelayEnd>;
  /** When nothing of it is open any more. */
  readonly closed: Promise<void>;
}
export interface RelayEnd {
  readonly outcome: Outcome;
  readonly firstByteAtMs: number | null;
}

/** The client, as far as the relay must know: whether it is still there, and what ends the upstream. */
export interface Client {
  /** True once it has left. */
  readonly gone: boolean;
  /** Called when the body it was reading was let go. */
  leave(): void;
}

export function relay(
  answer: UpstreamAnswer & { kind: "answer" },
  reader: EventReader,
  client: Client,
  shape: ErrorShape,
  signal: AbortSignal,
  ports: Ports,
): Relay {
  const { readable, writable } = ports.pipe();
  const stream = new EventStream(reader, writable.getWriter(), client, shape);
  const ended = Promise.withResolvers<RelayEnd>();
  return { body: readable, ended: ended.promise, closed: stream.pump(answer, signal, ended.resolve, ports) };
}

const encoder = new TextEncoder();

class EventStream {
  readonly #reader: EventReader;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #client: Client;
  readonly #shape: ErrorShape;
  readonly #splitter = new SseSplitter();
  /** The event that ends a whole stream has been seen; and the client took it. */
  #complete = false;
  #delivered = false;

  constructor(reader: EventReader, writer: WritableStreamDefaultWriter<Uint8Array>, client: Client, shape: ErrorShape) {
    this.#reader = reader;
    this.#writer = writer;
    this.#client = client;
    this.#shape = shape;
    // Rejects when the client lets go of the body; the next write says the same, but it may be long in coming.
    writer.closed.catch(() => client.leave());
  }

  async pump(
    answer: UpstreamAnswer & { kind: "answer" },
    signal: AbortSignal,
    end: (end: RelayEnd) => void,
    ports: Ports,
  ): Promise<void> {
    const source = (answer.response.body as ReadableStream<Uint8Array>).getReader();
    const cancel = () => void source.cancel().catch(() => undefined);
    let stalled = false;
    const watchdog = new Watchdog(answer, ports, () => {
      stalled = true;
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
        sound = await this.#take(value);
        if (this.#delivered) end({ outcome: "completed", firstByteAtMs });
      }
    } catch {
      sound = false;
    } finally {
      watchdog.stop();
      signal.removeEventListener("abort", cancel);
    }
    if (!sound) cancel();
    const whole = sound && !stalled && (await this.#finish());
    end({ outcome: await this.#end(whole), firstByteAtMs });
  }

  /** Passes one read on; false when it shows that the stream is broken. */
  async #take(chunk: Uint8Array): Promise<boolean> {
    const heldBefore = this.#splitter.open;
    const kept: Uint8Array[] = [];
    let dropped = false;
    for (const event of this.#splitter.push(chunk)) {
      const verdict = this.#judge(event);
      if (verdict === "broken") {
        if (this.#reader.drops) await this.#writeAll(kept);
        return false;
      }
      if (verdict === "drop") dropped = true;
      else kept.push(event);
    }
    if (this.#splitter.overlong) return false;
    const untouched = !dropped && !heldBefore && !this.#splitter.open;
    if (!this.#reader.drops || untouched) await this.#write(chunk);
    else await this.#writeAll(kept);
    return true;
  }

  #judge(event: Uint8Array): "pass" | "drop" | "broken" {
    const data = dataOf(event);
    if (data === undefined) return "pass";
    const verdict = this.#reader.event(data);
    if (verdict !== "end") return verdict;
    this.#complete = true;
    return "pass";
  }

  /** The upstream has ended: true when the stream was whole. Its last blank line may be missing. */
  async #finish(): Promise<boolean> {
    if (this.#splitter.open) {
      const rest = this.#splitter.rest();
      if (this.#judge(rest) !== "pass") return false;
      if (this.#reader.drops) await this.#write(rest);
    }
    return this.#complete;
  }

  async #end(whole: boolean): Promise<Outcome> {
    if (whole) {
      await this.#writer.close().catch(() => undefined);
      return this.#delivered ? "completed" : "client_gone";
    }
    if (this.#client.gone) {
      await this.#writer.abort().catch(() => undefined);
      return "client_gone";
    }
    // The blank line ends an event that may have been passed on in part.
    const error = errorBody(toHttp({ kind: "upstream_error", repeatable: true }), this.#shape);
    await this.#write(encoder.encode(`\n\ndata: ${JSON.stringify(error)}\n\n`));
    await this.#writer.abort(new Error("the upstream's stream broke off")).catch(() => undefined);
    return "stream_broken";
  }

  async #writeAll(events: readonly Uint8Array[]): Promise<void> {
    for (const event of events) await this.#write(event);
  }

  /** Waits until the client has taken it: a slow reader slows the upstream down, and nothing piles up here. */
  async #write(bytes: Uint8Array): Promise<void> {
    if (this.#client.gone) return;
    try {
      await this.#writer.write(bytes);
      this.#delivered = this.#complete;
    } catch {
      this.#client.leave();
    }
  }
}

/**
 * Passes an answer's bytes to the client: as events, read one by one, or as plain bytes.
 *
 * The bytes are the upstream's, except for the usage event that the gateway asked for, usage that a tenant must not
 * see, and what an upstream left out that clients need. A broken stream of events gets an error event before its body
 * is aborted.
 */

import type { CallOutcome } from "../../core/account/hold.ts";
import { type ErrorShape, errorBody } from "../../core/endpoints/error-shape.ts";
import { type Added, withMembers, withNumber, writtenLike } from "../../core/formats/added-events.ts";
import { joinBytes } from "../../core/formats/bytes.ts";
import { dataOf, SseSplitter, withData } from "../../core/formats/sse.ts";
import { toHttp } from "../../core/http-refusal.ts";
import type { BytesReader, EventReader } from "../../core/meters/meter.ts";
import { type Client, type ClientSide, Outlet } from "./outlet.ts";

export interface Passage {
  /** Everything that makes the answer whole has been read. */
  readonly complete: boolean;
  /** True once the client has taken everything that makes the answer whole. */
  readonly delivered: boolean;
  /** True if `take` keeps nothing of a piece. */
  readonly usesUp?: boolean;
  /** Passes what was read before this passage was chosen, if anything was. */
  open?(): Promise<void>;
  /** Passes what one read gave; false when it shows that the answer is broken. */
  take(chunk: Uint8Array): Promise<boolean>;
  /** The upstream's body ended by itself. True if the answer was whole. */
  finish(): Promise<boolean>;
  /** Reports how the call ended. Comes before the client's side is closed, which may wait for the client. */
  outcome(whole: boolean): CallOutcome;
  /**
   * Ends the client's side. A client that does not take what is left for it is waited for this long. `passedInMs`:
   * since the first byte.
   */
  close(whole: boolean, withinMs: number, passedInMs: number): Promise<void>;
  /** The client does not take what it is given: cut it off. */
  drop(): void;
  /** Set if bytes may pass before they are read. */
  readonly unread: UnreadPassage | null;
}

/** The other way to pass: through the runtime's pipe, with the reading behind it. */
export interface UnreadPassage {
  /** Everything that makes the answer whole has been read. */
  readonly complete: boolean;
  /** Passes the beginning of an incomplete event; the pipe brings the rest. */
  passRest(): Promise<void>;
  /** Hands the client's side to a pipe, until `takeBack`. */
  lend(): WritableStream<Uint8Array>;
  takeBack(): void;
  /** Reads what a pipe passes; false when it shows that the answer is broken. */
  read(chunk: Uint8Array): boolean;
  /** The client has taken everything that was read. */
  taken(): void;
}

const encoder = new TextEncoder();

/** What a passage of events learns about the events that it reads. */
export interface EventNews {
  /** Records the id that an event hands out, before that event passes. */
  record(id: string): Promise<void>;
  /** Usage was read. `foreign`: it contained something that a tenant must not see. */
  usageRead(foreign: boolean): void;
  /** True if something had to be added to bytes that already passed. */
  readFirst(needed: boolean): void;
}

/** Server-sent events, each read before it passes. */
export class EventPassage implements Passage, UnreadPassage {
  readonly #reader: EventReader;
  readonly #outlet: Outlet;
  readonly #shape: ErrorShape;
  readonly #news: EventNews;
  readonly #splitter = new SseSplitter();
  #recorded: string | null = null;
  #events = 0;
  /** The last event, if it waits for the next. */
  #held: Uint8Array | null = null;
  /** The event that ends a whole stream has been seen. */
  #complete = false;
  /** A pipe took over: what is read has passed already. */
  #restPassed = false;
  delivered = false;

  constructor(reader: EventReader, side: ClientSide, client: Client, shape: ErrorShape, news: EventNews) {
    this.#reader = reader;
    this.#outlet = new Outlet(side, client);
    this.#shape = shape;
    this.#news = news;
  }

  async take(chunk: Uint8Array): Promise<boolean> {
    let untouched = !this.#splitter.open;
    const kept: Uint8Array[] = [];
    for (const event of this.#splitter.push(chunk)) {
      const passes = this.#judge(event);
      if (passes === "broken") {
        await this.#recordNew();
        await this.#write([...kept, ...this.#takeHeld()]);
        return false;
      }
      if (passes !== event) untouched = false;
      if (passes instanceof Uint8Array) kept.push(passes);
      else kept.push(...passes);
    }
    if (this.#splitter.overlong) return false;
    await this.#recordNew();
    await this.#write(untouched && !this.#splitter.open ? [chunk] : kept);
    return true;
  }

  /** An event that must be read before it passes cannot go through the pipe. */
  get unread(): UnreadPassage | null {
    return this.#reader.readFirst ? null : this;
  }

  get complete(): boolean {
    return this.#complete;
  }

  async passRest(): Promise<void> {
    this.#restPassed = true;
    const held = this.#takeHeld();
    await this.#write(this.#splitter.open ? [...held, this.#splitter.rest()] : held);
  }

  lend(): ClientSide {
    return this.#outlet.lend();
  }

  takeBack(): void {
    this.#outlet.takeBack();
  }

  read(chunk: Uint8Array): boolean {
    return this.#splitter.push(chunk).every((event) => this.#judge(event) !== "broken") && !this.#splitter.overlong;
  }

  taken(): void {
    this.delivered = this.#complete;
  }

  /** Its last blank line may be missing. */
  async finish(): Promise<boolean> {
    if (this.#splitter.open) {
      const passes = this.#judge(this.#splitter.rest());
      if (passes === "broken") return false;
      if (!this.#restPassed) await this.#write(passes instanceof Uint8Array ? [passes] : passes);
    }
    if (!this.#restPassed) await this.#write(this.#takeHeld());
    return this.#complete;
  }

  outcome(whole: boolean): CallOutcome {
    if (!whole && !this.#outlet.gone) return "stream_broken";
    return whole && this.delivered ? "completed" : "client_gone";
  }

  async close(whole: boolean, withinMs: number, passedInMs: number): Promise<void> {
    if (whole && !this.#outlet.gone) return this.#outlet.end(withinMs);
    const error = errorBody(toHttp({ kind: "upstream_error", repeatable: true }), this.#shape);
    // The blank line ends an event that may have passed in part.
    const last = encoder.encode(`\n\ndata: ${JSON.stringify(error)}\n\n`);
    return this.#outlet.abort(last, withinMs, { events: this.#events, inMs: passedInMs });
  }

  drop(): void {
    this.#outlet.drop();
  }

  /** The event itself, or what passes in its place. */
  #judge(event: Uint8Array): Uint8Array | readonly Uint8Array[] | "broken" {
    this.#events++;
    const data = dataOf(event);
    if (data === undefined) return this.#held ? [...this.#takeHeld(), event] : event;
    const verdict = this.#reader.event(data);
    const anew = this.#reader.rewrittenUsage();
    if (anew !== undefined) this.#news.usageRead(anew !== null);
    if (verdict === "broken") return verdict;
    if (verdict === "end") this.#complete = true;
    const added = this.#reader.added?.();
    if (added?.readFirst !== undefined) this.#news.readFirst(added.readFirst);
    const written = writtenAnew(event, typeof anew === "string" ? anew : undefined, added);
    if (verdict === "hold") {
      this.#held = written;
      return [];
    }
    const passes = verdict === "drop" || added?.drops ? [] : [written];
    if (!added?.before && !this.#held) return passes[0] ?? passes;
    return [...(added?.before ? [writtenLike(event, added.before)] : []), ...this.#takeHeld(), ...passes];
  }

  #takeHeld(): Uint8Array[] {
    const held = this.#held;
    this.#held = null;
    return held ? [held] : [];
  }

  async #recordNew(): Promise<void> {
    const id = this.#reader.created?.() ?? null;
    if (id === null || id === this.#recorded) return;
    await this.#news.record(id);
    this.#recorded = id;
  }

  /** In one write, because each write waits for the client. */
  async #write(pieces: readonly Uint8Array[]): Promise<void> {
    if (pieces.length === 0) return;
    const taken = await this.#outlet.write(joinBytes(pieces));
    this.delivered = taken && this.#complete;
  }
}

/** The event with what it lacks, and without what a tenant must not see. */
function writtenAnew(event: Uint8Array, anew: string | undefined, added: Added | undefined): Uint8Array {
  const data = added?.data ?? anew;
  const written = data === undefined ? event : withData(event, data);
  if (added?.number !== undefined) return withNumber(written, added.number);
  return (added?.members && withMembers(written, added.members)) || written;
}

/** Plain bytes: whole when the upstream's body ends by itself. */
export class BytesPassage implements Passage {
  readonly #reader: BytesReader;
  readonly #outlet: Outlet;
  /** Only the end of the body shows that all of it was there. */
  readonly complete = false;
  readonly delivered = false;
  readonly unread = null;

  constructor(reader: BytesReader, side: ClientSide, client: Client) {
    this.#reader = reader;
    this.#outlet = new Outlet(side, client);
  }

  async take(chunk: Uint8Array): Promise<boolean> {
    this.#reader.push(chunk);
    await this.#outlet.write(chunk);
    return true;
  }

  async finish(): Promise<boolean> {
    return true;
  }

  outcome(whole: boolean): CallOutcome {
    if (this.#outlet.gone) return "client_gone";
    return whole ? "completed" : "stream_broken";
  }

  async close(whole: boolean, withinMs: number): Promise<void> {
    if (whole && !this.#outlet.gone) return this.#outlet.end(withinMs);
    return this.#outlet.abort(null, withinMs);
  }

  drop(): void {
    this.#outlet.drop();
  }
}

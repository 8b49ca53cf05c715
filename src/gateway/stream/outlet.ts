/** The client's side of an answer: writes to it, bounds the waits for it, and ends it. */
import { settledWithin } from "../wait.ts";

/** What a relay must know of the client: whether it is still there, and what ends the upstream. */
export interface Client {
  /** True once it has left. */
  readonly gone: boolean;
  /** To be called when the client cancelled its body. */
  leave(): void;
  /** Runs the action once, as soon as the client has left. */
  whenLeft(act: () => void): void;
}

const NOTHING: Passed = { events: 0, inMs: 0 };

export type ClientSide = WritableStream<Uint8Array>;

/**
 * An abort discards what the client has not read yet, and the gateway cannot see how much that is. So the client gets
 * at least this long for the last event, and for each event that passed, less the time in which they passed.
 */
const LAST_WORDS_MS = 50;
const MS_PER_EVENT = 25;
/** The longest that an abort waits for a client that may be behind. */
const MOST_LAST_WORDS_MS = 10_000;

/** What passed to the client of a broken stream: it may be that far behind. */
export interface Passed {
  readonly events: number;
  readonly inMs: number;
}

const behindMs = ({ events, inMs }: Passed): number =>
  Math.min(MOST_LAST_WORDS_MS, Math.max(LAST_WORDS_MS, events * MS_PER_EVENT - inMs));

/** The longest wait for the abort of the client's side. */
const ABORTED_WITHIN_MS = 1_000;

/** Writes to a client while it is there. */
export class Outlet {
  readonly #side: ClientSide;
  readonly #client: Client;
  #writer: WritableStreamDefaultWriter<Uint8Array>;
  #lent = false;
  /** Ends the wait of the current write. */
  #giveUp = (): void => undefined;

  constructor(side: ClientSide, client: Client) {
    this.#side = side;
    this.#client = client;
    this.#writer = this.#hold();
  }

  lend(): ClientSide {
    this.#lent = true;
    this.#writer.releaseLock();
    return this.#side;
  }

  takeBack(): void {
    if (!this.#lent) return;
    this.#lent = false;
    this.#writer = this.#hold();
  }

  #hold(): WritableStreamDefaultWriter<Uint8Array> {
    const writer = this.#side.getWriter();
    // Rejects when the client cancels the body. The next write would fail too, but it may come late.
    writer.closed.catch(() => {
      if (!this.#lent && writer === this.#writer) this.#client.leave();
    });
    return writer;
  }

  /** Waits until the client has taken it, so a slow reader slows the upstream down and nothing piles up here. */
  async write(bytes: Uint8Array): Promise<boolean> {
    if (this.#client.gone) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#giveUp = () => resolve(false);
    this.#writer.write(bytes).then(
      () => resolve(true),
      () => {
        this.#client.leave();
        resolve(false);
      },
    );
    return promise;
  }

  /** A write cannot be taken back, but the wait for it ends. */
  drop(): void {
    this.#client.leave();
    this.#giveUp();
  }

  get gone(): boolean {
    return this.#client.gone;
  }

  async end(withinMs: number): Promise<void> {
    const closed = this.#writer.close().catch(() => undefined);
    if (!(await settledWithin(closed, withinMs))) await this.abort(null, 0);
  }

  /** `last`: what a client that is still there gets before its body is aborted. */
  async abort(last: Uint8Array | null, withinMs: number, passed: Passed = NOTHING): Promise<void> {
    if (last && !this.gone) {
      await settledWithin(this.write(last), withinMs);
      const left = new Promise<void>((resolve) => this.#client.whenLeft(resolve));
      await settledWithin(left, behindMs(passed));
    }
    const aborted = this.#writer.abort(new Error("the upstream's answer broke off")).catch(() => undefined);
    await settledWithin(aborted, ABORTED_WITHIN_MS);
  }
}

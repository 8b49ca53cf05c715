/**
 * Reads a stream of small pieces as few times as its bytes allow. A read gives one piece of the upstream, however many
 * have come, and each read and each write enters the isolate anew: 40 us a frame. So a stream whose pieces come quickly
 * is split (tee). The runtime drains one branch by itself, which brings the pieces into the other, and what has come
 * there is taken in one read every few milliseconds. A frame of a full stream then costs little more than on a pipe,
 * and each is read before it passes.
 *
 * Promises: no byte waits here longer than `REST_MS`. At most `AHEAD_BYTES` more than was read are taken from the
 * upstream: a client that is slow slows it down. All that came before the upstream broke off is given before the error.
 */
import { byobReader, type PieceReader } from "../http/piece-reader.ts";

/** Pieces that come at this pace are worth the branch: 160 a second. */
const QUICK_PIECES = 4;
const QUICK_MS = 25;
/** How long what comes gathers. */
const REST_MS = 8;
const AHEAD_BYTES = 64 * 1024;
/** Memory for one read: of a piece, and of what has gathered. */
const PIECE_BYTES = 8 * 1024;
const GATHERED_BYTES = 32 * 1024;

type Reader = Pick<ReadableStreamBYOBReader, "read" | "cancel" | "releaseLock">;
interface Drain {
  readAtLeast(least: number, into: Uint8Array): Promise<{ readonly value?: Uint8Array }>;
  cancel(): Promise<void>;
}

/** Null: the runtime cannot, or the body is no byte stream. */
export function batchedSource(body: ReadableStream<Uint8Array>, now: () => number): BatchedSource | null {
  const reader = byobReader(body);
  if (!reader) return null;
  if ("readAtLeast" in reader && nativePipe()) return new BatchedSource(body, reader, now);
  (reader as Reader).releaseLock();
  return null;
}

/** Cloudflare's own pipe, where the runtime has it. */
export const nativePipe = () => (globalThis as { IdentityTransformStream?: new () => Pipe }).IdentityTransformStream;
export interface Pipe {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

export class BatchedSource implements PieceReader {
  readonly #body: ReadableStream<Uint8Array>;
  readonly #now: () => number;
  #reader: Reader;
  #buffer = new Uint8Array(PIECE_BYTES);
  /** When the last pieces came, as long as it is not known whether they come quickly. */
  readonly #cameAtMs: number[] = [];
  #lastAtMs = 0;
  #branch: Branch | null = null;

  constructor(body: ReadableStream<Uint8Array>, reader: Reader, now: () => number) {
    this.#body = body;
    this.#reader = reader;
    this.#now = now;
  }

  /** Its body was split: nobody else can read it on. */
  get batched(): boolean {
    return this.#branch !== null;
  }

  async read() {
    // The clock may have been set back.
    if (this.#branch) await this.#branch.rest(Math.min(REST_MS, REST_MS - (this.#now() - this.#lastAtMs)));
    const { done, value } = await this.#reader.read(this.#buffer);
    // The runtime detaches the buffer that we pass and returns its memory as a new one.
    if (value) this.#buffer = new Uint8Array(value.buffer as ArrayBuffer);
    if (done || !value) return { done: true };
    const piece = value.slice();
    this.#lastAtMs = this.#now();
    if (this.#branch) this.#branch.taken(piece.byteLength);
    else this.#splitIfQuick(this.#lastAtMs);
    return { done: false, value: piece };
  }

  #splitIfQuick(nowMs: number): void {
    if (this.#cameAtMs.push(nowMs) < QUICK_PIECES) return;
    const first = this.#cameAtMs.shift() ?? 0;
    if (nowMs - first > QUICK_MS) return;
    this.#reader.releaseLock();
    const [drained, read] = this.#body.tee();
    this.#branch = new Branch(drained);
    this.#buffer = new Uint8Array(GATHERED_BYTES);
    this.#reader = read.getReader({ mode: "byob" });
  }

  async cancel(): Promise<void> {
    this.#branch?.stop();
    await this.#reader.cancel();
  }

  releaseLock(): void {
    this.#reader.releaseLock();
  }
}

/** The branch that the runtime drains: through its pipe, piece by piece, without the isolate. */
class Branch {
  readonly #stop = new AbortController();
  readonly #drain: Drain;
  /** Bytes that came on this branch, and that were read on the other. */
  #came = 0;
  #read = 0;
  #ended = false;
  #wake = (): void => undefined;
  #goOn = (): void => undefined;

  constructor(branch: ReadableStream<Uint8Array>) {
    const pipe = new (nativePipe() as new () => Pipe)();
    branch.pipeTo(pipe.writable, { signal: this.#stop.signal }).catch(() => undefined);
    this.#drain = pipe.readable.getReader({ mode: "byob" }) as unknown as Drain;
    void this.#run()
      .catch(() => undefined)
      .then(() => this.#end());
  }

  async #run(): Promise<void> {
    for (let buffer = new Uint8Array(AHEAD_BYTES); ; ) {
      const { value } = await this.#drain.readAtLeast(AHEAD_BYTES, buffer);
      if (!value || value.byteLength < AHEAD_BYTES) return;
      buffer = new Uint8Array(value.buffer as ArrayBuffer);
      this.#came += value.byteLength;
      this.#wake();
      while (this.#came > this.#read && !this.#ended)
        await new Promise<void>((resume) => {
          this.#goOn = resume;
        });
    }
  }

  /** Whatever the reason: what is left can only be read on the other branch. */
  #end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** Ends early where as much has come as may wait, and at the end of the stream. */
  async rest(ms: number): Promise<void> {
    if (ms <= 0 || this.#ended || this.#came > this.#read) return;
    await new Promise<void>((resume) => {
      const timer = setTimeout(resume, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resume();
      };
    });
  }

  taken(bytes: number): void {
    this.#read += bytes;
    this.#goOn();
  }

  stop(): void {
    this.#end();
    this.#goOn();
    this.#stop.abort();
    this.#drain.cancel().catch(() => undefined);
  }
}

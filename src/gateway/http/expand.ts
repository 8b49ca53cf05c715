/**
 * Expands a gzip body while it is read. A kilobyte of gzip may become a megabyte of text, and the runtime expands all
 * its input at once, even if the output is not read. So the input goes in small pieces: the next one follows once the
 * output of the last was read.
 */
import type { Outcome } from "../../core/outcome.ts";
import { refused } from "../../core/outcome.ts";
import type { Refusal } from "../../core/refusal.ts";
import { LARGE_BYTES, SMALL_BYTES } from "../../core/uploads/upload-limiter.ts";

const GZIP: ReadonlySet<string> = new Set(["gzip", "x-gzip"]);
const NOT_GZIP: Refusal = {
  kind: "invalid_request",
  message: "The request body is not valid gzip, as its `Content-Encoding` says. Send it whole, or as it is.",
  param: null,
};

/** Input bytes at a time. Each expands to at most 1,032, which bounds the output that waits to be read. */
const PIECES = { small: 512, medium: 1_024, large: 8_192 } as const;
const pieceFor = (expanded: number): number =>
  expanded <= SMALL_BYTES ? PIECES.small : expanded <= LARGE_BYTES ? PIECES.medium : PIECES.large;

/** How the body is encoded, or the refusal of an unsupported encoding. */
export function encodingOf(headers: Headers): Outcome<{ gzip: boolean }> {
  const encoding = (headers.get("content-encoding") ?? "").trim().toLowerCase();
  if (GZIP.has(encoding)) return { ok: true, gzip: true };
  if (encoding === "" || encoding === "identity") return { ok: true, gzip: false };
  return refused({ kind: "wrong_content_encoding" });
}

export class Expansion {
  /** The expanded body. */
  readonly body: ReadableStream<Uint8Array>;
  /** Set once the input turned out not to be gzip. */
  fault: Refusal | null = null;
  /** Expanded bytes so far. */
  expanded = 0;
  readonly #source: ReadableStreamDefaultReader<Uint8Array>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #came: (bytes: number) => void;
  /** A read is waiting for more. */
  #waiting = false;
  #over = false;

  /** `came`: called with the number of gzip bytes that arrived. */
  constructor(source: ReadableStream<Uint8Array>, came: (bytes: number) => void) {
    const { readable, writable } = new DecompressionStream("gzip");
    this.#source = source.getReader();
    this.#writer = writable.getWriter() as WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
    this.#came = came;
    const reader = readable.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: () => void this.#feed().catch((error: unknown) => this.#fail(error)),
        pull: async (controller) => {
          this.#waiting = true;
          const { done, value } = await reader.read().catch((error: unknown) => this.#failed(error));
          this.#waiting = false;
          if (done) return controller.close();
          this.expanded += value.byteLength;
          controller.enqueue(value);
        },
        cancel: () => {
          this.#fail(undefined);
          return reader.cancel().catch(() => undefined);
        },
      },
      { highWaterMark: 0 },
    );
  }

  async #feed(): Promise<void> {
    for (;;) {
      const { done, value } = await this.#source.read();
      if (this.#over) return;
      if (done) break;
      this.#came(value.byteLength);
      await this.#expand(value);
    }
    await this.#writer.close().catch(() => this.#isNoGzip());
  }

  async #expand(bytes: Uint8Array): Promise<void> {
    let at = 0;
    while (at < bytes.length && !this.#over) {
      const end = at + pieceFor(this.expanded);
      // The writer may keep the piece that it gets.
      await this.#writer.write(bytes.slice(at, end)).catch(() => this.#isNoGzip());
      at = end;
      await this.#drained();
    }
  }

  /** Waits until all output was read: a read is waiting, and is still waiting one turn later. */
  async #drained(): Promise<void> {
    for (let turns = 0; !this.#over; turns++) {
      const before = this.expanded;
      await new Promise((resume) => setTimeout(resume, turns < 100 ? 0 : 10));
      if (this.#waiting && this.expanded === before) return;
    }
  }

  #isNoGzip(): never {
    this.fault = NOT_GZIP;
    throw new Error("not gzip");
  }

  #failed(error: unknown): never {
    if (!this.#over) this.fault ??= NOT_GZIP;
    throw error;
  }

  /** Stops reading and expanding. */
  #fail(error: unknown): void {
    if (this.#over) return;
    this.#over = true;
    void this.#source.cancel(error).catch(() => undefined);
    void this.#writer.abort(error).catch(() => undefined);
  }
}

/**
 * Reads a small body of known length in one go, where the runtime can (Cloudflare's `readAtLeast`). A read in pieces
 * enters the isolate anew for each of them and once more for the end.
 *
 * A reader from here is used like any other, and gives the same bytes in fewer pieces: the loops in `body-reader.ts`
 * and `upstream-body.ts` do not know which they have.
 */
import { byobReader, type PieceReader } from "./piece-reader.ts";

/**
 * A body that claims to be longer is read in pieces. At the least pace of an upload (`core/uploads/upload-pace.ts`) so
 * much is whole before the pace is first judged: how its pieces came makes no difference.
 */
const MOST_BYTES = 64 * 1024;

type CloudflareReader = ReadableStreamBYOBReader & {
  readAtLeast(least: number, into: Uint8Array): Promise<{ readonly value?: Uint8Array }>;
};

/** `claimed`: the body's content-length, or null. */
export function readerOf(body: ReadableStream<Uint8Array>, claimed: number | null): PieceReader {
  const small = claimed !== null && Number.isInteger(claimed) && claimed >= 0 && claimed <= MOST_BYTES;
  const reader = small ? byobReader(body) : null;
  if (reader && "readAtLeast" in reader) return new AtOnce(body, reader as CloudflareReader, claimed ?? 0);
  (reader as ReadableStreamBYOBReader | null)?.releaseLock();
  return body.getReader();
}

class AtOnce implements PieceReader {
  readonly #body: ReadableStream<Uint8Array>;
  readonly #claimed: number;
  #reader: CloudflareReader | ReadableStreamDefaultReader<Uint8Array>;
  #state: "unread" | "ended" | "longer" = "unread";

  constructor(body: ReadableStream<Uint8Array>, reader: CloudflareReader, claimed: number) {
    this.#body = body;
    this.#claimed = claimed;
    this.#reader = reader;
  }

  async read() {
    if (this.#state === "ended") return { done: true };
    if ("readAtLeast" in this.#reader) {
      // One byte more than it claims: only the end of the body makes the read shorter.
      const most = this.#claimed + 1;
      const { value } = await this.#reader.readAtLeast(most, new Uint8Array(most));
      this.#state = value?.byteLength === most ? "longer" : "ended";
      if (this.#state === "longer") this.#readOn();
      return value?.byteLength ? { done: false, value } : { done: true };
    }
    return this.#reader.read();
  }

  /** The content-length was not that of these bytes: a compressed answer has another. */
  #readOn(): void {
    this.#reader.releaseLock();
    this.#reader = this.#body.getReader();
  }

  cancel(): Promise<void> {
    return this.#reader.cancel();
  }

  releaseLock(): void {
    this.#reader.releaseLock();
  }
}

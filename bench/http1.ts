/**
 * As much of HTTP/1.1 over raw sockets as the benchmark needs on both of its ends: cheap, so that what is measured is
 * the subject between them.
 */

export interface MessageHandlers {
  /** The start line and headers, without the blank line. */
  head(text: string): void;
  /** A piece of the body; valid during the call only. */
  body(piece: Buffer): void;
  end(): void;
}

const HEAD_END = "\r\n\r\n";

/** Cuts a connection's bytes into messages: bodies by `content-length` or chunks, as both sides here always send. */
export class MessageParser {
  readonly #handlers: MessageHandlers;
  #state: "head" | "length" | "size" | "chunk" | "trailer" = "head";
  /** Bytes of a line or head that is not whole yet. */
  #held: Buffer = Buffer.alloc(0);
  #left = 0;

  constructor(handlers: MessageHandlers) {
    this.#handlers = handlers;
  }

  push(chunk: Buffer): void {
    let bytes = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk;
    this.#held = bytes.subarray(0, 0);
    while (bytes.length > 0) {
      const rest = this.#step(bytes);
      if (rest === null) {
        this.#held = bytes;
        return;
      }
      bytes = rest;
    }
  }

  /** What is left of `bytes`; null where more is needed to go on. */
  #step(bytes: Buffer): Buffer | null {
    if (this.#state === "length" || this.#state === "chunk") return this.#body(bytes);
    if (this.#state === "head") return this.#head(bytes);
    const end = bytes.indexOf("\r\n");
    if (end < 0) return null;
    if (this.#state === "trailer") {
      if (end === 0) this.#finish();
    } else if (end > 0) {
      this.#left = Number.parseInt(bytes.toString("latin1", 0, end), 16);
      this.#state = this.#left === 0 ? "trailer" : "chunk";
    }
    return bytes.subarray(end + 2);
  }

  #head(bytes: Buffer): Buffer | null {
    const end = bytes.indexOf(HEAD_END);
    if (end < 0) return null;
    const text = bytes.toString("latin1", 0, end);
    this.#left = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
    const chunked = /\r\ntransfer-encoding: *chunked/i.test(text);
    this.#handlers.head(text);
    if (chunked) this.#state = "size";
    else if (this.#left > 0) this.#state = "length";
    else this.#handlers.end();
    return bytes.subarray(end + HEAD_END.length);
  }

  #body(bytes: Buffer): Buffer {
    const piece = bytes.subarray(0, this.#left);
    this.#left -= piece.length;
    this.#handlers.body(piece);
    if (this.#left === 0) {
      if (this.#state === "length") this.#finish();
      else this.#state = "size";
    }
    return bytes.subarray(piece.length);
  }

  #finish(): void {
    this.#state = "head";
    this.#handlers.end();
  }
}

/** One chunk of a chunked body. */
export const chunkOf = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
export const LAST_CHUNK = "0\r\n\r\n";

/** Milliseconds of the machine's monotonic clock: the same in every process. */
export const clockMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/**
 * An HTTP client down to the bytes. What `fetch` would tidy up stays visible: chunk sizes, how a body ends, what comes
 * before a connection is cut. And it can leave as a crashed client does, by a reset: the one way of leaving that
 * workerd notices here at once, for of a mere half-close it learns when it next writes.
 */
import { createConnection, type Socket } from "node:net";
import { eventually } from "./eventually.ts";

export class RawClient {
  readonly #socket: Socket;
  #text = "";
  #ended = false;

  /** Connects and sends these bytes. */
  constructor(url: string, bytes: string) {
    this.#socket = createConnection({ host: "127.0.0.1", port: Number(new URL(url).port) });
    this.#socket.on("data", (chunk) => (this.#text += chunk));
    this.#socket.on("error", () => (this.#ended = true));
    this.#socket.on("close", () => (this.#ended = true));
    this.#socket.write(bytes);
  }

  /** All that came so far. */
  get text(): string {
    return this.#text;
  }

  /** The other side has closed. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Resolves with all that came once `awaited` is in it. */
  async until(awaited: string, withinMs = 3_000): Promise<string> {
    await eventually(awaited, () => this.#text.includes(awaited), { withinMs, everyMs: 5 });
    return this.#text;
  }

  /** Resolves with all that came once the other side has closed. */
  async untilClosed(withinMs = 3_000): Promise<string> {
    await eventually("the connection is closed", () => this.#ended, { withinMs, everyMs: 5 });
    return this.#text;
  }

  /** Reads nothing more, and stays. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Leaves as a crashed client does. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  /** Leaves as a client does that has what it wanted. */
  close(): void {
    this.#socket.end();
  }
}

/** Head of a POST to chat completions, with the empty line that ends it. */
export const chatHead = (key: string, ...lines: string[]): string =>
  [
    "POST /v1/chat/completions HTTP/1.1",
    "host: tollgate",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    ...lines,
    "\r\n",
  ].join("\r\n");

/** A whole POST to chat completions. */
export function chatPost(key: string, body: unknown): string {
  const text = JSON.stringify(body);
  return `${chatHead(key, `content-length: ${Buffer.byteLength(text)}`)}${text}`;
}

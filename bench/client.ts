/** A keep-alive connection to a subject: one call at a time, its times taken as the bytes come. */
import { connect, type Socket } from "node:net";
import { clockMs, MessageParser } from "./http1.ts";

export interface Timing {
  readonly status: number;
  readonly sentAtMs: number;
  /** Of the body. */
  readonly firstByteMs: number;
  readonly totalMs: number;
  readonly bytes: number;
}

/** Sees the pieces of a body as they come. */
export type Watch = (piece: Buffer, nowMs: number) => void;

export class Connection {
  readonly #socket: Socket;
  #current: Call | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const parser = new MessageParser({
      head: (text) => this.#current?.head(text),
      body: (piece) => this.#current?.body(piece),
      end: () => {
        const call = this.#current;
        this.#current = undefined;
        call?.end();
      },
    });
    socket.on("data", (chunk: Buffer) => parser.push(chunk));
    const broke = () => this.#current?.fail(new Error("the subject closed the connection"));
    socket.on("close", broke);
    socket.on("error", broke);
  }

  static open(port: number): Promise<Connection> {
    const { promise, resolve, reject } = Promise.withResolvers<Connection>();
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    socket.once("error", reject);
    socket.once("connect", () => resolve(new Connection(socket)));
    return promise;
  }

  /** False once the subject has closed it, as it does with one that was idle for seconds. */
  get usable(): boolean {
    return this.#socket.readyState === "open";
  }

  call(request: Buffer, watch?: Watch): Promise<Timing> {
    if (!this.usable) return Promise.reject(new Error("the subject had closed the connection"));
    const { promise, resolve, reject } = Promise.withResolvers<Timing>();
    this.#current = new Call(resolve, reject, watch);
    this.#socket.write(request);
    return promise;
  }

  close(): void {
    this.#socket.destroy();
  }
}

class Call {
  readonly #sentAtMs = clockMs();
  readonly #resolve: (timing: Timing) => void;
  readonly #watch: Watch | undefined;
  readonly fail: (error: Error) => void;
  #status = 0;
  #firstByteAtMs = 0;
  #bytes = 0;

  constructor(resolve: (timing: Timing) => void, reject: (error: Error) => void, watch: Watch | undefined) {
    this.#resolve = resolve;
    this.fail = reject;
    this.#watch = watch;
  }

  head(text: string): void {
    this.#status = Number(text.slice(9, 12));
  }

  body(piece: Buffer): void {
    if (this.#bytes === 0) this.#firstByteAtMs = clockMs();
    this.#bytes += piece.length;
    if (this.#watch) this.#watch(piece, clockMs());
  }

  end(): void {
    this.#resolve({
      status: this.#status,
      sentAtMs: this.#sentAtMs,
      firstByteMs: this.#firstByteAtMs - this.#sentAtMs,
      totalMs: clockMs() - this.#sentAtMs,
      bytes: this.#bytes,
    });
  }
}

/** The bytes of a call. */
export function requestOf(
  { port, key, headers = {} }: { port: number; key: string; headers?: Readonly<Record<string, string>> },
  { path, body }: { path: string; body: string },
): Buffer {
  const others = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nauthorization: Bearer ${key}\r\n` +
      `content-type: application/json\r\naccept: application/json, text/event-stream\r\nuser-agent: bench\r\n${others.join("")}` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

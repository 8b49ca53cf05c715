/**
 * An upstream whose every byte is the test's: it records what it is sent and answers by a script, frame by frame, so
 * that a test can say what must have arrived before the next byte leaves.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** One request as the upstream got it, and the means to answer it. */
export class Exchange {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  readonly #response: ServerResponse;
  readonly #closed = Promise.withResolvers<number>();

  constructor(request: IncomingMessage, response: ServerResponse, text: string) {
    this.method = request.method ?? "";
    this.path = request.url ?? "";
    this.headers = request.headers;
    this.text = text;
    this.#response = response;
    response.on("close", () => {
      if (!response.writableFinished) this.#closed.resolve(Date.now());
    });
  }

  get json(): Record<string, unknown> {
    return JSON.parse(this.text) as Record<string, unknown>;
  }

  /** Resolves with the time at which the caller closed the connection before the answer was whole. */
  get closedEarly(): Promise<number> {
    return this.#closed.promise;
  }

  begin(contentType = "text/event-stream", status = 200): void {
    this.#response.writeHead(status, { "content-type": contentType, "x-service-region": "test-1" });
    this.#response.flushHeaders();
  }

  /** Resolves when the bytes have left this process. */
  send(bytes: string | Uint8Array): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#response.write(bytes, () => resolve());
    return promise;
  }

  end(): void {
    this.#response.end();
  }

  /** A whole JSON answer. */
  answer(body: unknown, status = 200, headers: Record<string, string> = {}): void {
    this.#response.writeHead(status, { "content-type": "application/json", ...headers });
    this.#response.end(JSON.stringify(body));
  }

  /** A whole stream of these bytes. */
  async stream(bytes: string | Uint8Array): Promise<void> {
    this.begin();
    await this.send(bytes);
    this.end();
  }

  cut(): void {
    this.#response.destroy();
  }
}

export class ScriptedUpstream {
  readonly url: string;
  /** In the order of arrival. */
  readonly exchanges: Exchange[] = [];
  /** Of each request that broke off in its body: how many bytes of it came. */
  readonly brokenOff: number[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://localhost:${(server.address() as AddressInfo).port}`;
  }

  /** `script` answers each request. */
  static async start(script: (exchange: Exchange) => void | Promise<void>): Promise<ScriptedUpstream> {
    const server = createServer();
    const { promise, resolve } = Promise.withResolvers<void>();
    server.listen(0, "127.0.0.1", resolve);
    await promise;
    const upstream = new ScriptedUpstream(server);
    server.on("request", async (request, response) => {
      const parts: Buffer[] = [];
      try {
        for await (const part of request) parts.push(part as Buffer);
      } catch {
        upstream.brokenOff.push(Buffer.concat(parts).length);
        return;
      }
      const exchange = new Exchange(request, response, Buffer.concat(parts).toString());
      upstream.exchanges.push(exchange);
      await script(exchange);
    });
    return upstream;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((closed) => this.#server.close(closed));
  }
}

export const event = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

/** A chunk of a chat completion stream, as an event. */
export function chunk(delta: Record<string, unknown>, fields: Record<string, unknown> = {}): string {
  return event({
    id: "chatcmpl-scripted",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "scripted",
    choices: [{ index: 0, delta, finish_reason: null }],
    ...fields,
  });
}

/** The last chunk of a choice. */
export const FINISH = chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });

/** What ends a stream whose caller asked for usage: the last chunk, and the usage chunk. */
export const usageChunk = (prompt: number, completion: number): string =>
  FINISH +
  chunk(
    {},
    {
      choices: [],
      usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
    },
  );

export const DONE = event("[DONE]");

/** A chat completion as JSON. */
export const completion = (content: string, prompt = 5, out = 5): Record<string, unknown> => ({
  id: "chatcmpl-scripted",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "scripted",
  choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
  usage: { prompt_tokens: prompt, completion_tokens: out, total_tokens: prompt + out },
});

/**
 * A TCP proxy that breaks connections in the ways that HTTP cannot: refused, reset at any moment, late, cut into pieces
 * of any size, half open. It stands between the gateway and an upstream.
 */
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { sleep } from "./eventually.ts";
import { freePorts } from "./ports.ts";

/** What happens to connections that are made from now on. */
export type Behaviour =
  | { readonly kind: "pass" }
  /** Nobody listens. */
  | { readonly kind: "refuse" }
  /** Accepted, and reset before a byte came back. */
  | { readonly kind: "reset" }
  /** Reset once so many bytes of the answer have passed. */
  | { readonly kind: "reset_after"; readonly bytes: number }
  /** Accepted and read, never answered. */
  | { readonly kind: "half_open" }
  /** The answer starts this much later. */
  | { readonly kind: "delay"; readonly ms: number }
  /** The answer in pieces of these sizes, in turn, each in a packet of its own. */
  | { readonly kind: "split"; readonly sizes: readonly number[] };

/** Long enough that two writes do not leave as one packet. */
const BETWEEN_PIECES_MS = 2;

export class TcpProxy {
  readonly port: number;
  readonly url: string;
  readonly #target: { host: string; port: number };
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #behaviour: Behaviour = { kind: "pass" };
  #connections = 0;

  private constructor(port: number, target: URL) {
    this.port = port;
    this.url = `http://localhost:${port}`;
    this.#target = { host: "127.0.0.1", port: Number(target.port) };
  }

  static async start(targetUrl: string): Promise<TcpProxy> {
    const [port = 0] = await freePorts(1);
    const proxy = new TcpProxy(port, new URL(targetUrl));
    await proxy.#listen();
    return proxy;
  }

  /** How many connections were accepted so far. */
  get connections(): number {
    return this.#connections;
  }

  /** Open connections are reset, so that nobody goes on using one of before. */
  async become(behaviour: Behaviour): Promise<void> {
    this.#behaviour = behaviour;
    this.#resetAll();
    if (behaviour.kind === "refuse") await this.#close();
    else if (!this.#server) await this.#listen();
  }

  async stop(): Promise<void> {
    this.#resetAll();
    await this.#close();
  }

  #listen(): Promise<void> {
    const server = createServer((client) => this.#accept(client));
    this.#server = server;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once("error", reject);
    server.listen(this.port, "127.0.0.1", resolve);
    return promise;
  }

  async #close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server) await new Promise((closed) => server.close(closed));
  }

  #resetAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  #accept(client: Socket): void {
    this.#connections += 1;
    this.#track(client);
    const behaviour = this.#behaviour;
    if (behaviour.kind === "reset") return void client.resetAndDestroy();
    if (behaviour.kind === "half_open") return void client.resume();
    const upstream = createConnection(this.#target);
    this.#track(upstream);
    client.setNoDelay(true);
    client.pipe(upstream);
    client.on("close", () => upstream.destroy());
    if (behaviour.kind === "pass" || behaviour.kind === "refuse") {
      upstream.pipe(client);
      upstream.on("close", () => client.destroy());
      return;
    }
    void carry(upstream, client, behaviour);
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#sockets.delete(socket));
  }
}

/** Carries the answer in the way asked for. */
async function carry(from: Socket, to: Socket, how: Extract<Behaviour, { kind: "reset_after" | "delay" | "split" }>) {
  if (how.kind === "delay") await sleep(how.ms);
  let passed = 0;
  try {
    for await (const chunk of from) {
      for (const piece of pieces(chunk as Buffer, how, passed)) {
        to.write(piece);
        passed += piece.length;
        if (how.kind === "split") await sleep(BETWEEN_PIECES_MS);
      }
      if (how.kind === "reset_after" && passed >= how.bytes) return void to.resetAndDestroy();
    }
    to.end();
  } catch {
    to.destroy();
  }
}

function* pieces(chunk: Buffer, how: Behaviour, passed: number): Iterable<Buffer> {
  if (how.kind === "reset_after") {
    yield chunk.subarray(0, Math.max(0, how.bytes - passed));
    return;
  }
  if (how.kind !== "split") {
    yield chunk;
    return;
  }
  let turn = 0;
  for (let at = 0; at < chunk.length; ) {
    const size = Math.max(1, how.sizes[turn++ % how.sizes.length] ?? 1);
    yield chunk.subarray(at, at + size);
    at += size;
  }
}

/**
 * An address whose packets are lost: connections to it are neither accepted nor refused. A thread listens and then
 * never looks again, and its queue of connections, as short as the system lets it be, is filled.
 */
import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { Worker } from "node:worker_threads";
import { sleep } from "./eventually.ts";

const LISTEN_AND_SLEEP = `
  const { parentPort } = require("node:worker_threads");
  const server = require("node:net").createServer();
  server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
`;
/** A connection that is accepted is made within this time, ms. */
const STANDS_WITHIN_MS = 200;
const MOST_QUEUED = 16;

export class BlackHole {
  readonly url: string;
  readonly #thread: Worker;
  readonly #queued: Socket[] = [];

  private constructor(thread: Worker, port: number) {
    this.#thread = thread;
    this.url = `http://localhost:${port}`;
  }

  static async open(): Promise<BlackHole> {
    const thread = new Worker(LISTEN_AND_SLEEP, { eval: true });
    const [port] = (await once(thread, "message")) as [number];
    const hole = new BlackHole(thread, port);
    while (await hole.#accepts(port)) {
      if (hole.#queued.length > MOST_QUEUED) throw new Error("the queue of connections does not fill");
    }
    return hole;
  }

  async #accepts(port: number): Promise<boolean> {
    const socket = createConnection({ host: "127.0.0.1", port });
    socket.on("error", () => undefined);
    this.#queued.push(socket);
    const stands = once(socket, "connect").then(() => true);
    return Promise.race([stands, sleep(STANDS_WITHIN_MS).then(() => false)]);
  }

  async close(): Promise<void> {
    for (const socket of this.#queued) socket.destroy();
    await this.#thread.terminate();
  }
}

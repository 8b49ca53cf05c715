/** The memory of the gateway's isolate, sampled through the inspector of a process that was started with its port. */
import { sleep } from "./eventually.ts";

interface HeapUsage {
  readonly usedSize: number;
  readonly embedderHeapUsedSize?: number;
  readonly backingStorageSize?: number;
}

const MB = 1024 * 1024;
const EVERY_MS = 15;

/** Garbage that was not collected yet counts too. */
const bytesOf = ({ usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 }: HeapUsage): number =>
  usedSize + embedderHeapUsedSize + backingStorageSize;

export class HeapMeter {
  readonly #socket: WebSocket;
  readonly #timer: NodeJS.Timeout;
  #samples = 0;
  #peakBytes = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const { result } = JSON.parse(String(data)) as { result?: HeapUsage };
      if (result === undefined) return;
      this.#samples += 1;
      this.#peakBytes = Math.max(this.#peakBytes, bytesOf(result));
    });
    let id = 0;
    this.#timer = setInterval(() => {
      id += 1;
      socket.send(JSON.stringify({ id, method: "Runtime.getHeapUsage" }));
    }, EVERY_MS);
  }

  static async attach(port: number): Promise<HeapMeter> {
    return new HeapMeter(await connectTo(port));
  }

  /** What is left after a full collection, in MB: the most of those made every `everyMs` until `over`, at least one. */
  static async afterCollection(port: number, over: () => boolean = () => true, everyMs = 600): Promise<number> {
    const socket = await connectTo(port);
    try {
      let mostBytes = 0;
      let id = 0;
      for (;;) {
        id += 2;
        await ask(socket, id, "HeapProfiler.collectGarbage");
        mostBytes = Math.max(mostBytes, bytesOf((await ask(socket, id + 1, "Runtime.getHeapUsage")) as HeapUsage));
        if (over()) return Math.round(mostBytes / MB);
        await sleep(everyMs);
      }
    } finally {
      socket.close();
    }
  }

  /** The most since it was attached, in MB, and how often it was read. */
  get peak(): { mb: number; samples: number } {
    return { mb: Math.round(this.#peakBytes / MB), samples: this.#samples };
  }

  detach(): void {
    clearInterval(this.#timer);
    this.#socket.close();
  }
}

/** The inspector's connection to the gateway's isolate. */
async function connectTo(port: number): Promise<WebSocket> {
  const listed = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as { webSocketDebuggerUrl: string }[];
  const url = listed
    .map(({ webSocketDebuggerUrl }) => webSocketDebuggerUrl)
    .find((one) => one.endsWith(":user:tollgate"));
  if (url === undefined) throw new Error(`the inspector lists no gateway: ${JSON.stringify(listed)}`);
  const socket = new WebSocket(url);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.addEventListener("open", () => resolve());
  socket.addEventListener("error", () => reject(new Error(`the inspector at ${url} does not answer`)));
  await promise;
  return socket;
}

/** One question and its answer. */
function ask(socket: WebSocket, id: number, method: string): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  socket.addEventListener("message", ({ data }) => {
    const said = JSON.parse(String(data)) as { id?: number; result?: unknown; error?: { message: string } };
    if (said.id !== id) return;
    if (said.error) reject(new Error(`${method}: ${said.error.message}`));
    else resolve(said.result);
  });
  socket.send(JSON.stringify({ id, method }));
  return promise;
}

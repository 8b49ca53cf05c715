/** The memory of the gateway's isolate, sampled through the inspector of a process that was started with its port. */
interface HeapUsage {
  readonly usedSize: number;
  readonly embedderHeapUsedSize?: number;
  readonly backingStorageSize?: number;
}

const MB = 1024 * 1024;
const EVERY_MS = 15;

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
      // Garbage that was not collected yet counts too.
      const bytes = result.usedSize + (result.embedderHeapUsedSize ?? 0) + (result.backingStorageSize ?? 0);
      this.#peakBytes = Math.max(this.#peakBytes, bytes);
    });
    let id = 0;
    this.#timer = setInterval(() => {
      id += 1;
      socket.send(JSON.stringify({ id, method: "Runtime.getHeapUsage" }));
    }, EVERY_MS);
  }

  static async attach(port: number): Promise<HeapMeter> {
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
    return new HeapMeter(socket);
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

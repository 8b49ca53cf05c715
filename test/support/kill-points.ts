/**
 * Named points at which a test stops the gateway for good. They stand in no source: a test's build (`TEST_BUILD_PLUGIN`)
 * sets a call to the test beside a line of each, and fails where a line has moved. At such a call the test says to go on,
 * or kills workerd while it waits.
 */
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Plugin } from "esbuild";

interface Point {
  /** Under src. */
  readonly file: string;
  /** Stands there once. */
  readonly line: string;
  readonly where: "before" | "after";
}

export const KILL_POINTS = {
  "after the hold": {
    file: "gateway/flows/carry-out.ts",
    line: "const sending = { route, routing, outputCap: hold.outputCap, reader };",
    where: "before",
  },
  "before the fetch": {
    file: "gateway/attempt.ts",
    line: "const answer = await ports.upstreams.send(",
    where: "before",
  },
  "mid stream": { file: "gateway/stream/relay.ts", line: "sound = await passage.take(value);", where: "after" },
  "usage seen": {
    file: "gateway/flows/deliver.ts",
    line: "const { outcome, whole, firstByteAtMs, passedBroken } = await stream.ended;",
    where: "after",
  },
  "before its end is told": {
    file: "gateway/account-client.ts",
    line: 'const told = end.kind === "settle" ?',
    where: "before",
  },
  settled: { file: "gateway/settle.ts", line: "if (reading.lowInput) {", where: "before" },
  "outbox written": { file: "platform/account/shipping.ts", line: "await send({ account: taken", where: "before" },
  "consumer wrote": { file: "platform/queue/usage.ts", line: "for (const one of part) await finish(", where: "before" },
  "in an alarm": { file: "platform/account/shipping.ts", line: 'await attempt("prune"', where: "before" },
} as const satisfies Record<string, Point>;
export type PointName = keyof typeof KILL_POINTS;

/** What was sent and not confirmed is sent again after two minutes; tests wait for a second. */
const QUICKER = {
  file: "platform/account/tables/outbox.ts",
  from: "RESEND_AFTER_MS = 120_000",
  to: "RESEND_AFTER_MS = 1_000",
};

/** Every call to a test begins with this: what a build without them must not contain. */
export const TRACE = "/kill-point/";

const call = (name: string, url: string): string =>
  ` await (await fetch(${JSON.stringify(url + TRACE + encodeURIComponent(name))})).text(); `;

/** The file with its points in place. */
export function withPoints(file: string, source: string, url: string): string {
  let text = file === QUICKER.file ? replaceOnce(file, source, QUICKER.from, QUICKER.to) : source;
  for (const [name, point] of Object.entries<Point>(KILL_POINTS)) {
    if (point.file !== file) continue;
    const { line, where } = point;
    text = replaceOnce(file, text, line, where === "before" ? call(name, url) + line : line + call(name, url));
  }
  return text;
}

function replaceOnce(file: string, text: string, from: string, to: string): string {
  const pieces = text.split(from);
  if (pieces.length !== 2) throw new Error(`src/${file} has this ${pieces.length - 1} times, not once: ${from}`);
  return pieces.join(to);
}

export const FILES: ReadonlySet<string> = new Set([
  QUICKER.file,
  ...Object.values<Point>(KILL_POINTS).map(({ file }) => file),
]);

const plugin: Plugin = {
  name: "kill-points",
  setup(build) {
    const url = process.env.KILL_SWITCH_URL;
    if (!url) throw new Error("KILL_SWITCH_URL is not set");
    build.onLoad({ filter: /\/src\/(gateway|platform)\/.*\.ts$/ }, ({ path }) => {
      const file = path.slice(path.lastIndexOf("/src/") + "/src/".length);
      if (!FILES.has(file)) return undefined;
      return { contents: withPoints(file, readFileSync(path, "utf8"), url), loader: "ts" };
    });
  },
};
export default plugin;

/** Hears of each point that the gateway comes to. */
export class KillSwitch {
  readonly url: string;
  readonly #server: Server;
  #armed: { name: string; after: number; reached: () => void } | undefined;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://localhost:${(server.address() as AddressInfo).port}`;
  }

  static async start(): Promise<KillSwitch> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const killSwitch = new KillSwitch(server);
    server.on("request", (request, response) => {
      // The one who waits here is not to go on.
      if (killSwitch.#isReached(decodeURIComponent((request.url ?? "").slice(TRACE.length)))) return;
      response.end();
    });
    return killSwitch;
  }

  /** Resolves when the gateway stands at this point, after it has passed it so many times. */
  armed(name: PointName, after = 0): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#armed = { name, after, reached: resolve };
    return promise;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #isReached(name: string): boolean {
    const armed = this.#armed;
    if (armed?.name !== name) return false;
    if (armed.after > 0) {
      armed.after -= 1;
      return false;
    }
    this.#armed = undefined;
    armed.reached();
    return true;
  }
}

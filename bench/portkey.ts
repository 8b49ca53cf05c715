/**
 * Portkey's gateway beside ours: a proxy on Node that knows no keys and counts nothing. `npm install --prefix bench`
 * installs it; without it its column stays empty. It runs with an older `@hono/node-server` than it would get: with
 * newer ones streams fail ("immutable").
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import type { Target } from "./load.ts";

const SCRIPT = join(import.meta.dirname, "node_modules/@portkey-ai/gateway/build/start-server.js");
const READY_WITHIN_MS = 30_000;

export interface Portkey {
  readonly pid: number;
  readonly target: Target;
  stop(): void;
}

/** Null where it is not installed. */
export async function startPortkey(upstreamPort: number): Promise<Portkey | null> {
  if (!existsSync(SCRIPT)) return null;
  const port = await freePort();
  const child = spawn(process.execPath, [SCRIPT, `--port=${port}`, "--headless"], {
    stdio: "ignore",
    env: { ...process.env, NODE_ENV: "production" },
  });
  const untilMs = Date.now() + READY_WITHIN_MS;
  while (!(await answers(port))) {
    if (Date.now() > untilMs || child.exitCode !== null) {
      child.kill();
      throw new Error("Portkey did not start");
    }
    await new Promise((resume) => setTimeout(resume, 200));
  }
  const headers = {
    "x-portkey-provider": "openai",
    "x-portkey-custom-host": `http://127.0.0.1:${upstreamPort}/v1`,
  };
  return { pid: child.pid ?? 0, target: { port, key: "bench", headers }, stop: () => void child.kill() };
}

const answers = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/`).then(
    () => true,
    () => false,
  );

function freePort(): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address();
    server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
  });
  return promise;
}

/** The harness's other two processes: the upstream and the load. Both end when the harness does. */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import type { Order, Outcome, Target } from "./load.ts";

export type { Outcome } from "./load.ts";

function start(script: string): ChildProcess {
  // A group of its own would outlive Ctrl-C; this one ends with the pipe to the harness.
  return fork(join(import.meta.dirname, script), { stdio: ["ignore", "inherit", "inherit", "ipc"] });
}

function message<T>(child: ChildProcess): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const failed = (code: number | null) => reject(new Error(`a process of the harness ended with ${code}`));
  child.once("exit", failed);
  child.once("message", (said) => {
    child.off("exit", failed);
    resolve(said as T);
  });
  return promise;
}

export interface Upstream {
  readonly pid: number;
  readonly port: number;
  stop(): void;
}

export async function startUpstream(): Promise<Upstream> {
  const child = start("upstream.ts");
  const { port } = await message<{ port: number }>(child);
  return { pid: child.pid ?? 0, port, stop: () => void child.kill() };
}

export interface Load {
  readonly pid: number;
  run(target: Target, order: Order): Promise<Outcome>;
  stop(): void;
}

export async function startLoad(): Promise<Load> {
  const child = start("load.ts");
  await message(child);
  return {
    pid: child.pid ?? 0,
    async run(target, order) {
      child.send({ target, order });
      const said = await message<{ outcome?: Outcome; error?: string }>(child);
      if (!said.outcome) throw new Error(said.error ?? "the load gave no outcome");
      return said.outcome;
    },
    stop: () => void child.kill(),
  };
}

/**
 * The real thing: `scripts/start.ts` as a process of its own, on free ports and a state directory of its own, as a
 * newcomer would run it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { freePorts } from "./ports.ts";

export const ADMIN_TOKEN = "e2e-admin-token-0123456789abcdef";

export interface StartOptions {
  /** Variables for the process, e.g. `HOLD_TTL_MS`. */
  readonly env?: Record<string, string>;
  readonly stateDir?: string;
  /** Options of `npm start`. */
  readonly args?: readonly string[];
  readonly readyWithinMs?: number;
  /**
   * True: a state that was never started, as a newcomer has it. Else a copy of one that was, where the run made one.
   */
  readonly fresh?: boolean;
}

/** The variable that names a state directory of an ended first start (shared.ts). */
export const STARTED_STATE = "TEST_STARTED_STATE";

const root = join(import.meta.dirname, "../..");
const READY_WITHIN_MS = 60_000;

export class TollgateProcess {
  readonly url: string;
  readonly sandboxUrl: string;
  readonly stateDir: string;
  /** All that it prints, from the first launch on. */
  readonly logFile: string;
  readonly #env: Record<string, string>;
  readonly #args: readonly string[];
  readonly #readyWithinMs: number;
  #child: ChildProcess | undefined;
  #output = "";

  private constructor(port: number, sandboxPort: number, options: StartOptions) {
    this.url = `http://localhost:${port}`;
    this.sandboxUrl = `http://localhost:${sandboxPort}`;
    this.stateDir = options.stateDir ?? newState(options.fresh ?? options.args !== undefined);
    this.logFile = `${this.stateDir}.log`;
    this.#args = options.args ?? [];
    this.#readyWithinMs = options.readyWithinMs ?? READY_WITHIN_MS;
    this.#env = {
      ADMIN_TOKEN,
      ...options.env,
      PORT: String(port),
      SANDBOX_PORT: String(sandboxPort),
      STATE_DIR: this.stateDir,
    };
  }

  static async start(options: StartOptions = {}): Promise<TollgateProcess> {
    const [port = 0, sandboxPort = 0] = await freePorts(2);
    const process = new TollgateProcess(port, sandboxPort, options);
    await process.launch();
    return process;
  }

  /** Everything it printed since it was first launched. */
  get output(): string {
    return this.#output;
  }

  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error("not running");
    return this.#child.pid;
  }

  async launch(): Promise<void> {
    const from = this.#output.length;
    const child = spawn(process.execPath, ["scripts/start.ts", ...this.#args], {
      cwd: root,
      // As under npm: it ends with whoever started it.
      env: { ...process.env, npm_lifecycle_event: "start", ...this.#env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    const keep = (chunk: Buffer) => {
      this.#output += chunk;
      appendFileSync(this.logFile, chunk);
    };
    child.stdout?.on("data", keep);
    child.stderr?.on("data", keep);
    const ready = () => {
      if (child.exitCode !== null) return true;
      return this.#output.slice(from).includes(`\nready ${this.url}\n`);
    };
    await eventually("the ready line", ready, { withinMs: this.#readyWithinMs });
    if (child.exitCode !== null) {
      throw new Error(`start ended with ${child.exitCode}:\n${this.#output.slice(from)}`);
    }
  }

  /** As Ctrl-C does; resolves when the process is gone. */
  async end(signal: NodeJS.Signals = "SIGINT"): Promise<number | null> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null;
    const { promise, resolve } = Promise.withResolvers<number | null>();
    child.once("exit", (code) => resolve(code));
    child.kill(signal);
    return promise;
  }

  async restart(): Promise<void> {
    await this.end();
    await this.launch();
  }

  /** Ends it and removes its state. */
  async stop(): Promise<void> {
    await this.end();
    rmSync(this.stateDir, { recursive: true, force: true, maxRetries: 5 });
    rmSync(this.logFile, { force: true });
  }

  /** The process id of a Worker's workerd. */
  workerdPid(worker: "gateway" | "sandbox" = "gateway"): number {
    return Number(readFileSync(join(this.stateDir, "run", `${worker}.pid`), "utf8"));
  }

  /** Kills a Worker's workerd as a crash would, and waits until it serves again. */
  async kill9Workerd(worker: "gateway" | "sandbox" = "gateway"): Promise<void> {
    const pid = this.workerdPid(worker);
    process.kill(pid, "SIGKILL");
    const url = worker === "gateway" ? this.url : this.sandboxUrl;
    await eventually(`${worker} serves again`, async () => {
      if (this.workerdPid(worker) === pid) return false;
      const response = await fetch(url);
      await response.arrayBuffer();
      return true;
    });
  }
}

function newState(fresh: boolean): string {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-e2e-"));
  const started = process.env[STARTED_STATE];
  if (started && !fresh) cpSync(started, dir, { recursive: true });
  return dir;
}

/** Whether a process is there. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

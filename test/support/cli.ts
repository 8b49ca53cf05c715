/** The command line in this process, against a real gateway: what it printed, and how it ended. */
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Io } from "../../cli/command.ts";
import { main } from "../../cli/main.ts";
import { ADMIN_TOKEN } from "./process.ts";

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

interface Started {
  readonly ended: Promise<Ended>;
  kill(): void;
}

interface CliOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** What is typed at the questions, in order; none: there is nobody to ask. */
  readonly typed?: readonly string[];
  readonly input?: string;
  readonly nowMs?: number;
  /** Instead of the time that a command lets pass. */
  pause?(): Promise<void>;
}

export class Cli {
  readonly #env: Readonly<Record<string, string | undefined>>;
  /** Every command line that was run, as one text. */
  readonly ran: string[] = [];
  readonly home = mkdtempSync(join(tmpdir(), "tollgate-cli-"));

  constructor(url: string, env: Readonly<Record<string, string>> = {}) {
    this.#env = { TOLLGATE_URL: url, TOLLGATE_TOKEN: ADMIN_TOKEN, ...env };
  }

  async run(args: readonly string[], options: CliOptions = {}): Promise<Ended> {
    const { env = {}, typed, input = "", nowMs } = options;
    const answers = [...(typed ?? [])];
    this.ran.push(`${args.join(" ")} `);
    const printed: string[] = [];
    const said: string[] = [];
    const io: Io = {
      env: { ...this.#env, ...env },
      home: this.home,
      terminal: typed !== undefined,
      out: async (text) => void printed.push(text),
      err: (text) => void said.push(text),
      question: async () => answers.shift() ?? null,
      input: async () => input,
      now: () => nowMs ?? Date.now(),
      pause: options.pause ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms))),
    };
    const code = await main(args, io);
    return { code, out: printed.join(""), err: said.join("") };
  }

  /** What `--json` printed; throws where it did not end well. */
  async json<Body = Record<string, unknown>>(args: readonly string[], options: CliOptions = {}): Promise<Body> {
    const { code, out, err } = await this.run([...args, "--json"], options);
    if (code !== 0) throw new Error(`tollgate ${args.join(" ")} ended with ${code}: ${err}`);
    return JSON.parse(out) as Body;
  }

  /** The same as a process of its own. */
  process(args: readonly string[], env: Readonly<Record<string, string>> = {}, cwd?: string): Promise<Ended> {
    return this.start(args, env, cwd).ended;
  }

  start(args: readonly string[], env: Readonly<Record<string, string>> = {}, cwd: string = this.home): Started {
    const child = spawn(process.execPath, [join(import.meta.dirname, "../../cli/tollgate.js"), ...args], {
      cwd,
      env: { ...process.env, ...this.#env, HOME: this.home, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const printed: string[] = [];
    const said: string[] = [];
    child.stdout.on("data", (chunk: Buffer) => printed.push(String(chunk)));
    child.stderr.on("data", (chunk: Buffer) => said.push(String(chunk)));
    const ended = new Promise<Ended>((resolve) =>
      child.once("close", (code) => resolve({ code: code ?? -1, out: printed.join(""), err: said.join("") })),
    );
    return { ended, kill: () => child.kill("SIGKILL") };
  }
}

/** What the machine says of a process, and of itself. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism, cpus, release, totalmem } from "node:os";

/** CPU time of a process so far, all its threads, microseconds. */
export function cpuMicros(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, task) => {
    try {
      return sum + schedule(`/proc/${pid}/task/${task}`).ranMicros;
    } catch {
      // A thread that has ended since.
      return sum;
    }
  }, 0);
}

/** How long its first thread was ready and had to wait for a core, microseconds: somebody else was on it. */
export const waitMicros = (pid: number): number => schedule(`/proc/${pid}`).waitedMicros;

/** In nanoseconds there; `stat` has hundredths of a second only. */
function schedule(dir: string): { ranMicros: number; waitedMicros: number } {
  const [ran = 0, waited = 0] = readFileSync(`${dir}/schedstat`, "latin1").split(" ").map(Number);
  return { ranMicros: ran / 1000, waitedMicros: waited / 1000 };
}

/** Memory of a process without what is mapped from files, bytes. */
export function anonymousBytes(pid: number): number {
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1] ?? 0) * 1024;
}

const pause = (ms: number) => new Promise<void>((resume) => setTimeout(resume, ms));

const QUIET_WINDOW_MS = 300;
const QUIET_MICROS = 3_000;
const PATIENCE_MS = 10_000;

/** Resolves when the process has done next to nothing for a while, after at least `leastMs`. */
export async function quiet(pid: number, leastMs: number): Promise<void> {
  await pause(leastMs);
  const untilMs = Date.now() + PATIENCE_MS;
  for (let before = cpuMicros(pid); Date.now() < untilMs; ) {
    await pause(QUIET_WINDOW_MS);
    const now = cpuMicros(pid);
    if (now - before < QUIET_MICROS) return;
    before = now;
  }
}

/** Which cores the subject and the rest have; null where there is only one, or no `taskset`. */
export interface Cores {
  readonly subject: string;
  readonly others: string;
}

export function chooseCores(): Cores | null {
  const count = availableParallelism();
  if (count < 2) return null;
  try {
    execFileSync("taskset", ["--version"], { stdio: "ignore" });
  } catch {
    return null;
  }
  return { subject: "0", others: count === 2 ? "1" : `1-${count - 1}` };
}

/** All threads that the process has; those it makes later inherit it. */
export function pin(pid: number, cores: string): void {
  execFileSync("taskset", ["-acp", cores, String(pid)], { stdio: "ignore" });
}

/** Names no host and no path. */
export function describeMachine(): string {
  const gib = Math.round(totalmem() / 2 ** 30);
  const model = cpus()[0]?.model.trim() ?? "unknown CPU";
  return `${cpus().length} cores (${model}), ${gib} GiB, Linux ${release()}, Node ${process.version}`;
}

/** Load of the last minute a core; above a little the figures are somebody else's. */
export const load = (): number => Number(readFileSync("/proc/loadavg", "latin1").split(" ", 1)[0]);

/**
 * `npm test`: the tests inside the process and inside workerd, then those against real processes, which need the
 * machine to themselves. Types, lint, unused exports and the bundle's size are checked one after another meanwhile,
 * with the time that tests leave. Ends with `N passed, N failed`; a failed check counts as one failed test. Arguments
 * go to vitest: `npm test -- chat` runs the files with `chat` in their path.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { constants, setPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { chromiumPath } from "./chromium.ts";
import { type Count, failuresOf, isOfTheRuntime, lastLines, type Report, secondTriesOf, totals } from "./totals.ts";

const root = join(import.meta.dirname, "..");
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> };
const reports = mkdtempSync(join(tmpdir(), "tollgate-test-"));
const running = new Set<ChildProcess>();
/** For the compiler, which is written in Go: on one thread, and with less care for memory, it takes a third less of a core. */
const SPARING = { GOMAXPROCS: "1", GOGC: "400" };
const filters = process.argv.slice(2);

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stop(signal));
process.on("exit", () => rmSync(reports, { recursive: true, force: true }));

const checked = filters.length > 0 ? Promise.resolve([]) : checks();
const tested = [
  // They wait for timers and for one another's processes more than for a core.
  await vitest("tests", ["core", "worker", "sandbox"], ["--maxWorkers=5"]),
  await vitest("e2e", ["e2e", "e2e-no-leases"], ["--maxWorkers=4"]),
];
const counts = [...(await checked), ...tested];
process.stdout.write(totals(counts, chromiumPath()));
process.exit(counts.some(({ failed }) => failed > 0) ? 1 : 0);

async function checks(): Promise<Count[]> {
  const counts: Count[] = [];
  for (const name of ["typecheck", "lint", "unused", "bundle"] as const) counts.push(await check(name));
  return counts;
}

/** Runs a script of package.json that passes or fails as a whole. Its output is shown only if it fails. */
async function check(name: "typecheck" | "lint" | "unused" | "bundle"): Promise<Count> {
  const started = Date.now();
  let output = "";
  const child = launch("sh", ["-c", scripts[name] ?? "false"], "pipe", SPARING);
  // Deadlines of tests come first. What has not begun yet inherits this too.
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
  child.stdout?.on("data", (chunk) => (output += chunk));
  child.stderr?.on("data", (chunk) => (output += chunk));
  const code = await ended(child);
  if (code === 0) return { what: name, passed: 1, failed: 0, seconds: since(started) };
  process.stdout.write(`\n${name}:\n${output}\n`);
  return { what: name, passed: 0, failed: 1, seconds: since(started), failures: [`${name}\n${lastLines(output)}`] };
}

async function vitest(what: string, projects: string[], options: string[] = []): Promise<Count> {
  const started = Date.now();
  const file = join(reports, `${what}.json`);
  const code = await ended(
    launch(
      "vitest",
      [
        "run",
        ...projects.flatMap((project) => ["--project", project]),
        "--reporter=default",
        "--reporter=json",
        `--outputFile.json=${file}`,
        "--passWithNoTests",
        ...options,
        ...filters,
      ],
      "filtered",
    ),
  );
  const { numPassedTests: passed, numFailedTests, testResults } = read(file);
  // A run can fail without a failed test: a file that does not load, or an error after the last test.
  const failed = code !== 0 && numFailedTests === 0 ? 1 : numFailedTests;
  const told = { failures: failuresOf(testResults, root), secondTries: secondTriesOf(testResults, root) };
  return { what, passed, failed, seconds: since(started), ...told };
}

function read(file: string): Report {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Report;
  } catch {
    return { numPassedTests: 0, numFailedTests: 0, testResults: [] };
  }
}

function launch(command: string, args: string[], stdio: "pipe" | "filtered", more = {}): ChildProcess {
  const bin = join(root, "node_modules/.bin");
  const color = process.stdout.isTTY ? { FORCE_COLOR: "1" } : {};
  const quiet = {
    ...color,
    WRANGLER_LOG: "error",
    WRANGLER_SEND_METRICS: "false",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
  };
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}`, ...quiet, ...more };
  const child = spawn(command, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  if (stdio === "filtered") {
    filter(child.stdout, process.stdout);
    filter(child.stderr, process.stderr);
  }
  running.add(child);
  return child;
}

/** Passes on all lines but the runtime's own, which vitest lets through on stdout and on stderr. */
function filter(from: Readable, to: NodeJS.WriteStream): void {
  createInterface({ input: from }).on("line", (line) => {
    if (!isOfTheRuntime(line)) to.write(`${line}\n`);
  });
}

function ended(child: ChildProcess): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  child.once("error", () => resolve(1));
  child.once("close", (code) => resolve(code ?? 1));
  return promise.finally(() => running.delete(child));
}

function stop(signal: NodeJS.Signals): void {
  for (const child of running) child.kill(signal);
  process.stdout.write(`\nstopped by ${signal}\n`);
  process.exit(130);
}

function since(startedMs: number): number {
  return (Date.now() - startedMs) / 1000;
}

/**
 * `npm run mutants`: changes the decisions of the core one by one and sees whether a test of test/core notices
 * (Stryker). Fails where a file keeps less than 95 % of its mutants from surviving, and lists those that did. Takes
 * some minutes. Arguments name files to look at alone. Stryker has a package of its own: `npm ci --prefix test/mutants`
 * installs it.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

const LEAST_PERCENT = 95;

interface Mutant {
  readonly status: string;
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly location: { readonly start: { readonly line: number; readonly column: number } };
}
interface Report {
  readonly files: Readonly<Record<string, { readonly mutants: readonly Mutant[] }>>;
}

const root = join(import.meta.dirname, "..");
const stryker = join(root, "test/mutants/node_modules/@stryker-mutator/core/bin/stryker.js");
const reportFile = join(root, ".stryker/report.json");

if (!existsSync(stryker)) {
  process.stderr.write("Stryker is not installed: npm ci --prefix test/mutants\n");
  process.exit(1);
}
const files = process.argv.slice(2);
rmSync(reportFile, { force: true });
const concurrency = ["--concurrency", String(Math.max(1, availableParallelism() - 1))];
const options = [...concurrency, ...(files.length > 0 ? ["--mutate", files.join(",")] : [])];
const { status } = spawnSync(process.execPath, [stryker, "run", "test/mutants/stryker.config.json", ...options], {
  cwd: root,
  stdio: "inherit",
});
if (status !== 0) process.exit(status ?? 1);

const report = JSON.parse(readFileSync(reportFile, "utf8")) as Report;
const tooLow = Object.entries(report.files).filter(([file, { mutants }]) => !isTight(file, mutants));
process.stdout.write(`\n${tooLow.length === 0 ? "every file" : "not every file"} is at ${LEAST_PERCENT} % or more\n`);
process.exit(tooLow.length === 0 ? 0 : 1);

/** Says how a file did. Mutants that a comment in it declares equivalent are not counted. */
function isTight(file: string, mutants: readonly Mutant[]): boolean {
  const noticed = mutants.filter(({ status }) => status === "Killed" || status === "Timeout");
  const survived = mutants.filter(({ status }) => status === "Survived" || status === "NoCoverage");
  const percent = (100 * noticed.length) / (noticed.length + survived.length);
  process.stdout.write(`${percent.toFixed(1).padStart(5)} %  ${file}\n`);
  for (const { location, mutatorName, replacement = "" } of survived) {
    process.stdout.write(`         ${location.start.line}:${location.start.column} ${mutatorName} -> ${replacement}\n`);
  }
  return percent >= LEAST_PERCENT;
}

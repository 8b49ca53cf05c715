/**
 * `npm run clients`: runs the matrix of clients, also those too heavy for `npm ci`, which it installs under
 * test/clients/heavy (about 1 GB), and writes the tables of docs/clients.md from what passed. Ends with 1 where a
 * client failed.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tablesOf, withTables } from "../test/clients/table.ts";

interface Manifest {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}
interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly {
      readonly ancestorTitles: readonly string[];
      readonly title: string;
      readonly status: string;
    }[];
  }[];
}

const root = join(import.meta.dirname, "..");
const heavy = join(root, "test/clients/heavy");
const documentFile = join(root, "docs/clients.md");
const read = <T>(file: string): T => JSON.parse(readFileSync(file, "utf8")) as T;
const installed = (name: string, folder: string) => join(folder, "node_modules", name, "package.json");

if (!isInstalled()) run("npm", ["ci"], heavy);
const reports = mkdtempSync(join(tmpdir(), "tollgate-clients-"));
const results = [...testsOf("e2e", ["test/clients"]), ...testsOf("clients", [])];
rmSync(reports, { recursive: true, force: true });

writeFileSync(documentFile, withTables(readFileSync(documentFile, "utf8"), tablesOf({ versionOf, passed })));
const failed = results.filter(({ status }) => status !== "passed");
for (const { ancestorTitles, title } of failed) process.stdout.write(`failed: ${ancestorTitles.join(" ")} ${title}\n`);
process.stdout.write(`\n${results.length} tests of clients, ${failed.length} failed; wrote docs/clients.md\n`);
process.exit(failed.length === 0 && results.length > 0 ? 0 : 1);

/** Each heavy client is there in the version that its manifest pins. */
function isInstalled(): boolean {
  const { dependencies = {} } = read<Manifest>(join(heavy, "package.json"));
  return Object.entries(dependencies).every(([name, version]) => {
    const file = installed(name, heavy);
    return existsSync(file) && read<Manifest>(file).version === version;
  });
}

function versionOf(name: string): string {
  const file = [root, heavy].map((folder) => installed(name, folder)).find((path) => existsSync(path));
  if (file === undefined) throw new Error(`${name} is not installed`);
  return read<Manifest>(file).version;
}

/** All tests of it passed, and there was one. Its title may end in the model that was asked. */
function passed(client: string, words: string): boolean {
  const own = results.filter(
    ({ ancestorTitles, title }) =>
      (ancestorTitles.includes(client) && (title === words || title.startsWith(`${words}: by `))) ||
      title.startsWith(`${client} does ${words}: `),
  );
  return own.length > 0 && own.every(({ status }) => status === "passed");
}

/** Runs a project of vitest.config.ts; what each test did. */
function testsOf(project: string, files: readonly string[]) {
  const file = join(reports, `${project}.json`);
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  run(process.execPath, [
    join(root, "node_modules/vitest/vitest.mjs"),
    "run",
    "--project",
    project,
    ...reporters,
    ...files,
  ]);
  return read<Report>(file).testResults.flatMap(({ assertionResults }) => assertionResults);
}

function run(command: string, args: readonly string[], cwd = root): void {
  const { error } = spawnSync(command, args, { cwd, stdio: "inherit" });
  if (error) throw error;
}

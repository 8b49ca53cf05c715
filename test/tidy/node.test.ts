/**
 * Any Node from 20 on installs and starts the project: what runs is the Node that the npm package `node` brings, which
 * npm puts first in the PATH of scripts. So a script names `node` alone, and passes it nothing but a file.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
const read = (file: string): string => readFileSync(join(root, file), "utf8");
const manifest = JSON.parse(read("package.json")) as {
  engines: { node: string };
  scripts: Record<string, string>;
  devDependencies: Record<string, string>;
};
const commands = Object.entries(manifest.scripts).flatMap(([name, line]) =>
  line.split(" && ").map((command) => ({ name, words: command.replace(/^exec /, "").split(" ") })),
);
const filesIn = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => join(folder, file));

it("the package asks for Node 20 and brings its own, which runs this test", () => {
  expect(manifest.engines.node).toBe(">=20");
  expect(process.version).toBe(`v${manifest.devDependencies.node}`);
  const version = execFileSync(join(root, "node_modules/.bin/node"), ["--version"], { encoding: "utf8" });
  expect(version.trim()).toBe(process.version);
});

it.each(commands)("`npm run $name` runs what npm ci brings: $words", ({ words }) => {
  const [program = "", first = ""] = words;
  expect(existsSync(join(root, "node_modules/.bin", program)) || program === "npm").toBe(true);
  // A flag of one Node may be unknown to another.
  if (program === "node") expect(existsSync(join(root, first)), `${first} is a file`).toBe(true);
});

it("no script and no test starts a `node` from the PATH; it starts the one that runs it", () => {
  const files = ["scripts", "bench", "examples", "test"]
    .flatMap(filesIn)
    .filter((file) => /^(?!.*node_modules).*\.ts$/.test(file));
  const found = files.filter((file) => /\b(?:spawn|exec|execFile|fork)(?:Sync)?\(\s*["'`]node\b/.test(read(file)));
  expect(found).toEqual([]);
});

it("no document shows a command for a `node` that may be another one", () => {
  const documents = ["README.md", "CONTRIBUTING.md", ...filesIn("docs"), ...filesIn("examples")];
  const shown = documents
    .filter((file) => /\.(?:md|ts)$/.test(file))
    .filter((file) => /(?:^\s*(?:\*\s+)?(?:\$ )?|`)node [\w./-]+\.ts\b/m.test(read(file)));
  expect(shown).toEqual([]);
});

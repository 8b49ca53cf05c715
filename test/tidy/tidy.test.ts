/** The house rules that neither compiler nor linter holds. */
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";
import { expect, it } from "vitest";
import { FILES as STOPPED, withPoints } from "../support/kill-points.ts";

const root = join(import.meta.dirname, "../..");
const SKIPPED = new Set(["node_modules", "dist", "assets"]);
const FILES = filesOf("");
const read = (file: string): string => readFileSync(join(root, file), "utf8");

/** Every file below a folder, from the root; without what packages and tools keep in theirs. */
function filesOf(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (!entry.isDirectory()) return [path];
    return SKIPPED.has(entry.name) || entry.name.startsWith(".") ? [] : filesOf(path);
  });
}

const MOST_LINES = 299;
const BOUND = /^(src|sandbox|scripts|client|cli|bench)\/.*\.ts$/;

it(`no source file is longer than ${MOST_LINES} lines`, () => {
  const long = FILES.filter((file) => BOUND.test(file))
    .map((file) => ({ file, lines: read(file).trimEnd().split("\n").length }))
    .filter(({ lines }) => lines > MOST_LINES);
  expect(long).toEqual([]);
});

/**
 * The operator's and the tenant's routes are named alike on purpose: what stands in one has its mirror in the other.
 */
const MIRROR = /^src\/api\/(operator|tenant)\//;

it.each(["core", "gateway", "platform", "api"])("no two files of %s have the same name", (ring) => {
  const named = new Map<string, string[]>();
  for (const file of FILES.filter((file) => file.startsWith(`src/${ring}/`) && basename(file) !== "index.ts")) {
    const name = MIRROR.test(file) ? file : basename(file);
    named.set(name, [...(named.get(name) ?? []), file]);
  }
  expect([...named.values()].filter((files) => files.length > 1)).toEqual([]);
});

it("what the Worker runs brings no JSON Schema: schemas are zod/mini's, documents are made ahead", () => {
  const running = FILES.filter((file) => /^src\/.*\.ts$/.test(file) && !file.startsWith("src/api/documents/"));
  const heavy = /from "(zod(?!\/mini")|[./\w-]*\/documents\/)|\.toJSONSchema\(/;
  expect(running.filter((file) => heavy.test(read(file)))).toEqual([]);
});

/** A file's name or path, as prose and comments write it. */
const NAMED =
  /(?<![\w/.:@*{}<>$-])(?:\.{0,2}\/)?(?:[\w-]+\/)*[\w-]+(?:\.[\w-]+)*\.(?:ts|md|toml|sql|sh|svg|grit)\b(?![\w/*])/g;
/** What a file says in prose: all of a document, the comments of a source. */
function proseOf(file: string): string {
  if (file.endsWith(".md")) return read(file).replace(/https?:\/\/\S+/g, "");
  const comments = read(file).match(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm) ?? [];
  return comments.join("\n").replace(/https?:\/\/\S+/g, "");
}

it("no comment and no document names a file that is not there", () => {
  const isThere = (from: string, name: string) => {
    const path = normalize(name).replace(/^\//, "");
    const beside = normalize(join(dirname(from), name));
    return FILES.some((file) => file === path || file === beside || file.endsWith(`/${path}`));
  };
  const missing = FILES.filter((file) => /\.(ts|md)$/.test(file) && file !== "CHANGELOG.md").flatMap((file) =>
    (proseOf(file).match(NAMED) ?? []).filter((name) => !isThere(file, name)).map((name) => `${file}: ${name}`),
  );
  expect(missing).toEqual([]);
});

it.each([...STOPPED])("the lines of src/%s beside which a crash test stops the gateway are still there", (file) => {
  const source = read(join("src", file));
  expect(withPoints(file, source, "http://127.0.0.1")).not.toBe(source);
});

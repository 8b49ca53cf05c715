/** The documents say what is there: links lead somewhere, no document is lost, and each named test exists. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { toHttp } from "../../src/core/http-refusal.ts";
import { REFUSALS } from "../support/refusals.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const filesUnder = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));

const DOCUMENTS = [
  ...readdirSync(root).filter((name) => name.endsWith(".md")),
  ...["docs", "sandbox", "bench"]
    .flatMap(filesUnder)
    .filter((path) => path.endsWith(".md") && !path.includes("node_modules")),
];

/** What a document links to or shows, as paths from the root. */
function linksOf(path: string): string[] {
  const targets = [...read(path).matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)].map(
    (match) => match[1] ?? match[2],
  );
  return targets
    .filter((target) => target !== undefined)
    .filter((target) => !/^(https?:|#)/.test(target))
    .map((target) => relative(root, join(root, dirname(path), target.replace(/#.*$/, ""))));
}

describe("the documents", () => {
  it.each(DOCUMENTS)("%s links to files that exist", (path) => {
    expect(linksOf(path).filter((target) => !existsSync(join(root, target)))).toEqual([]);
  });

  it("are each linked from another one, under docs/", () => {
    const linked = new Set(DOCUMENTS.flatMap((path) => linksOf(path).filter((target) => target !== path)));
    expect(filesUnder("docs").filter((path) => !linked.has(path))).toEqual([]);
  });

  it.each(["docs/glossary.md", "docs/architecture.md", "docs/storage.md"])("%s names files that exist", (path) => {
    const named = [...read(path).matchAll(/`((?:src|test|sandbox|scripts|bench)\/[\w./-]*)`/g)].map(
      (match) => match[1] ?? "",
    );
    expect(named.filter((name) => !existsSync(join(root, name)))).toEqual([]);
  });

  it("name what stands in the files that they send a newcomer to", () => {
    const walk = [...read("docs/architecture.md").matchAll(/`([^`]+)` in `([^`]+\.ts)`/g)];
    expect(walk.length).toBeGreaterThan(10);
    expect(walk.filter(([, name = "", file = ""]) => !read(file).includes(name)).map(([all]) => all)).toEqual([]);
  });

  it("begin with a README of at most 800 words", () => {
    expect(read("README.md").split(/\s+/).filter(Boolean).length).toBeLessThanOrEqual(800);
  });
});

/** Whether a file has a test or a group of tests of exactly this name. Long names stand on a line of their own. */
function hasTest(source: string, name: string): boolean {
  const isTitle = (line: string) => /\b(it|test|describe)\b.*["`]|^\s*(\](?: as const)?\)\()?["`]/.test(line);
  const named = ['"', "`"].map((quote) => `${quote}${name}${quote}`);
  return source.split("\n").some((line) => isTitle(line) && named.some((title) => line.includes(title)));
}

describe("docs/decisions", () => {
  const decisions = filesUnder("docs/decisions").filter((path) => /\/\d{4}-/.test(path));

  it.each(decisions)("%s has a date, a status and each part of a decision", (path) => {
    const text = read(path);
    expect(text).toMatch(/^# .+\n\n- Date: \d{4}-\d\d-\d\d\n- Status: (accepted|replaced by .+)\n/);
    const parts = [...text.matchAll(/^## (.+)$/gm)].map(([, part]) => part);
    expect(parts).toEqual(["Context", "Decision", "Alternatives", "Consequences"]);
  });
});

describe("docs/invariants.md", () => {
  const text = read("docs/invariants.md");
  const proofs = [...text.matchAll(/^- `(test\/[^`]+)`: "(.+)"$/gm)].map(([, file = "", name = ""]) => ({
    file,
    name,
  }));

  it("names a test in each of its lists' lines", () => {
    expect(proofs.length).toBe(text.split("\n").filter((line) => line.startsWith("- ")).length);
  });

  it("has at least one test for each invariant, 1 to 47 and those between, each once", () => {
    const sections = text.split(/^(?=\*\*\d+[a-z]?\. )/m).slice(1);
    const numbers = sections.map((section) => /^\*\*(\d+[a-z]?)\./.exec(section)?.[1] ?? "");
    const between = ["12a", "12b", "12c", "12d", "12e", "13a", "19a", "25a", "34a", "44a"];
    const all = [...Array.from({ length: 47 }, (_, index) => String(index + 1)), ...between];
    const later = numbers.filter((number) => Number.parseInt(number, 10) > 47);
    expect(numbers.toSorted()).toEqual([...all, ...later].toSorted());
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(sections.filter((section) => !section.includes("\n- `test/"))).toEqual([]);
  });

  it("has those of compute in the order of their numbers", () => {
    const numbers = [...text.matchAll(/^\*\*(\d+)[a-z]?\. /gm)].map(([, number]) => Number(number));
    const ofCompute = numbers.slice(numbers.indexOf(34) + 1).filter((number) => number > 34);
    expect(ofCompute).toEqual(ofCompute.toSorted((a, b) => a - b));
  });

  it.each(proofs)("$file has a test “$name”", ({ file, name }) => {
    expect(existsSync(join(root, file)), file).toBe(true);
    expect(hasTest(read(file), name)).toBe(true);
  });
});

describe("docs/tenant-api.md", () => {
  const text = read("docs/tenant-api.md");

  it.each(Object.values(REFUSALS))("has the code of $kind with its status", (refusal) => {
    const { status, code } = toHttp(refusal);
    const row = new RegExp(`^\\| ${status} +\\| \`${code}\` `, "m");
    const isService = refusal.kind === "video_refused";
    expect(isService ? text.includes(`\`${code}\` (${status})`) : row.test(text), `${status} ${code}`).toBe(true);
  });
});

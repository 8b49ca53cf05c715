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
  ...["docs", "sandbox", "bench"].flatMap(filesUnder).filter((path) => path.endsWith(".md")),
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

/** A line that a test or a group of tests is named in; long titles stand on a line of their own. */
const isTitle = (line: string): boolean => /\b(it|test|describe)\b.*["`]|^\s*(\]\)\()?["`]/.test(line);

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

  it("has at least one test for each invariant, 1 to 34 and those between", () => {
    const sections = text.split(/^(?=\*\*\d+[a-z]?\. )/m).slice(1);
    const numbers = sections.map((section) => /^\*\*(\d+[a-z]?)\./.exec(section)?.[1]);
    const between = ["12a", "12b", "12c", "12d", "13a", "19a", "25a", "34a"];
    const all = [...Array.from({ length: 34 }, (_, index) => String(index + 1)), ...between];
    // Those of compute are 35 to 47; each stands there once it has its tests.
    const compute = Array.from({ length: 13 }, (_, index) => String(index + 35));
    const isOfCompute = (number: string | undefined) => compute.includes(number?.replace(/[a-z]$/, "") ?? "");
    expect(numbers.filter((number) => !isOfCompute(number)).toSorted()).toEqual(all.toSorted());
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(sections.filter((section) => !section.includes("\n- `test/"))).toEqual([]);
  });

  it.each(proofs)("$file has a test “$name”", ({ file, name }) => {
    expect(existsSync(join(root, file)), file).toBe(true);
    expect(
      read(file)
        .split("\n")
        .some((line) => isTitle(line) && line.includes(name)),
    ).toBe(true);
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

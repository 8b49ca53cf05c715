/** The threat model names the tests that prove it: each of them exists, and has the rule by that name. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
const document = readFileSync(join(root, "docs/threat-model.md"), "utf8");

/** A test file and, after it in quotes, names of tests in it. */
const CITED = /`(test\/[^`]*)`((?:,? "[^"]*")*)/g;
const cited = [...document.matchAll(CITED)].map(([, file = "", names = ""]) => ({
  file,
  names: [...names.matchAll(/"([^"]*)"/g)].map(([, name = ""]) => name),
}));

/** The rows of the tables that say what shows it. */
const threats = document
  .split("\n\n")
  .filter((block) => block.includes("| shown by |"))
  .flatMap((table) => table.split("\n").slice(2));

describe("docs/threat-model.md", () => {
  it("says of each threat what shows that it is stopped", () => {
    expect(threats.length).toBeGreaterThan(40);
    expect(threats.filter((row) => row.startsWith("|") && !/`(test\/|npm run soak)[^|]*\|$/.test(row))).toEqual([]);
  });

  it.each(cited)("$file is there, with its rules by these names: $names", ({ file, names }) => {
    expect(existsSync(join(root, file))).toBe(true);
    const source = readFileSync(join(root, file), "utf8");
    expect(names.filter((name) => !source.includes(name))).toEqual([]);
  });
});

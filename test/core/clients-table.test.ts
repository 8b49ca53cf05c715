/** docs/clients.md shows the matrix as it is declared, in the versions that are pinned. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tablesOf, withTables } from "../clients/table.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}
const [main, heavy] = ["package.json", "test/clients/heavy/package.json"].map(
  (path) => JSON.parse(read(path)) as Manifest,
);

it("docs/clients.md has every client and capability of the matrix, each passed, in the versions that are pinned", () => {
  const pinned: Readonly<Record<string, string>> = { ...heavy?.dependencies, ...main?.devDependencies };
  const versionOf = (name: string) => pinned[name] ?? `${name} is not pinned`;
  const committed = read("docs/clients.md");
  expect(committed).toBe(withTables(committed, tablesOf({ versionOf, passed: () => true })));
});

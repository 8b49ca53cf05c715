import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { COSTS, computeTable, DOCUMENT, withComputeTable } from "../../scripts/compute-table.ts";
import { COMPUTE_ROWS } from "../../src/core/endpoints/compute/compute-table.ts";

it("docs/tenant-api.md has each compute call as the code has it; `npm run tables` writes it", () => {
  const document = readFileSync(DOCUMENT, "utf8");
  expect(withComputeTable(document) === document, "stale: run npm run tables").toBe(true);
  for (const { method, path } of COMPUTE_ROWS) expect(document).toContain(`| \`${method} ${path}\` |`);
});

it("a cost is of a call that there is, and every call that takes money has one", () => {
  const ids = COMPUTE_ROWS.map(({ id }) => id);
  expect(Object.keys(COSTS).filter((id) => !ids.includes(id))).toEqual([]);
  const taking = COMPUTE_ROWS.filter(({ repeatable }) => repeatable).map(({ id }) => id);
  expect(taking.filter((id) => COSTS[id] === undefined)).toEqual([]);
  expect(computeTable()).toContain("| `POST /gpu-instances` | 202 | any role | holds an hour");
});

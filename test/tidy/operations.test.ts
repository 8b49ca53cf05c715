import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { OPERATIONS_FILE, operationsModule, operatorDocument } from "../../scripts/operations.ts";

it("client/operations.ts has each call of /admin as its OpenAPI document has it; `npm run tables` writes it", async () => {
  const written = readFileSync(OPERATIONS_FILE, "utf8");
  expect(operationsModule(await operatorDocument()) === written, "stale: run npm run tables").toBe(true);
});

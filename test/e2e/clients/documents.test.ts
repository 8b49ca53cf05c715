/** The OpenAPI documents are what a public validator takes, as the real process serves them. */
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, test } from "vitest";
import { ADMIN_TOKEN } from "../../support/process.ts";
import { world } from "../../support/world.ts";

const { operator } = world();

test.each(["/openapi.json", "/admin/openapi.json"])("%s is a valid OpenAPI 3.1 document", async (path) => {
  const response = await fetch(`${operator.url}${path}`, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
  expect(response.status).toBe(200);
  const outcome = await new Validator().validate((await response.json()) as Record<string, unknown>);
  expect(outcome.errors ?? []).toEqual([]);
  expect(outcome.valid).toBe(true);
});

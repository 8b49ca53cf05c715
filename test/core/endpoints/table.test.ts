import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { RawBody } from "../../../src/core/endpoints/body.ts";
import { ENDPOINTS } from "../../../src/core/endpoints/table.ts";
import { dearestOf, type ModelRow, type UnitPrices } from "../../../src/core/pricing/prices.ts";
import { UNIT_NAMES } from "../../../src/core/pricing/usage.ts";
import { FIXTURES, FRESH_BOUNDARY } from "../../support/fixtures.ts";

const TENANT_API = readFileSync(new URL("../../../docs/tenant-api.md", import.meta.url), "utf8");
const DEAR: UnitPrices = Object.fromEntries(UNIT_NAMES.map((unit) => [unit, 1_000_000_000]));
const ROW: ModelRow = {
  model: "m",
  kind: "chat",
  fromMs: 0,
  costNanoUsd: DEAR,
  priceNanoUsd: {},
  free: false,
  maxOutputTokens: 100,
};
const EMPTY: Record<RawBody["kind"], RawBody> = {
  json: { kind: "json", value: {} },
  form: { kind: "form", boundary: FRESH_BOUNDARY, parts: [] },
  any: { kind: "any", contentType: null, bytes: new Uint8Array() },
  none: { kind: "none" },
};

const rows = ENDPOINTS.map((endpoint) => {
  const { id } = endpoint;
  const fixture = FIXTURES[id];
  if (!fixture) throw new Error(`test/support/fixtures.ts has no call for ${id}`);
  return { id, endpoint, fixture, parsed: endpoint.parse(fixture) };
});

const COSTS = new Set<string>(["forwarded", "job"]);

describe("every row", () => {
  it.each(rows)("$id takes its fixture", ({ parsed }) => {
    expect(parsed).toMatchObject({ ok: true });
  });

  it.each(rows)("$id stands in docs/tenant-api.md with its path", ({ endpoint }) => {
    expect(TENANT_API).toContain(`${endpoint.method} ${endpoint.path.replace("*}", "}")}`);
  });
});

describe("every row that reads a body", () => {
  it.each(rows.filter(({ endpoint }) => endpoint.body.kind === "json" || endpoint.body.kind === "form"))(
    "$id refuses an empty one with the field that is missing",
    ({ endpoint, fixture }) => {
      const empty = endpoint.parse({ ...fixture, body: EMPTY[endpoint.body.kind] });
      expect(empty).toMatchObject({ ok: false, refusal: { kind: "invalid_request", param: expect.any(String) } });
    },
  );
});

describe("every row that is charged", () => {
  it.each(rows.filter(({ endpoint }) => COSTS.has(endpoint.flow.kind)))(
    "$id has a meter whose bound costs something, and whose reading never costs more",
    ({ parsed }) => {
      if (!parsed.ok) throw new Error("the fixture was refused");
      const measured = { sentBytes: 100, recordingMs: 1000, estimate: { minTokens: 100, maxTokens: 200 } };
      const bound = parsed.call.bound(ROW, measured);
      const most = dearestOf({ ...bound.fixed, output_tokens: bound.output?.cap ?? 0 }, DEAR);
      expect(most).toBeGreaterThan(0);
      const { usage } = parsed.call
        .reader({ row: ROW, outputCap: bound.output?.cap, measured, earlierTokens: 0 })
        .reading();
      expect(dearestOf(usage, DEAR)).toBeLessThanOrEqual(most);
    },
  );
});

describe("every row that asks an upstream for nothing", () => {
  // What is asked of an upstream for nothing goes where an id of the account's own lives.
  it.each(rows.filter(({ endpoint }) => endpoint.flow.kind === "free" || endpoint.flow.kind === "poll"))(
    "$id names an id that must be the account's",
    ({ parsed }) => {
      expect(parsed.ok && parsed.call.owned.length).toBeGreaterThan(0);
    },
  );
});

describe("the table", () => {
  it("has each id and each method and path once", () => {
    expect(new Set(ENDPOINTS.map(({ id }) => id)).size).toBe(ENDPOINTS.length);
    expect(new Set(ENDPOINTS.map(({ method, path }) => `${method} ${path}`)).size).toBe(ENDPOINTS.length);
  });
});

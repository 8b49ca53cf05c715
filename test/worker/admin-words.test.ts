/** What the operator reads when a body or a query is wrong: over every route of the document and every field of it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { call, type Json, settled } from "../support/worker/operator.ts";

afterAll(settled);

const VALIDATORS_WORDS = /Invalid|expected .* received|Too (small|big)|Unrecognized|undefined|NaN|\[object/;
const MARKER = "m".repeat(64);
const WRONG = [null, "", `two words ${MARKER}`, -5.5, 1e300, {}, [], [{}], [MARKER], { x: MARKER }, true];
/** Any text is one: whether there is such an account or upstream is looked up later. */
const ANY_TEXT = new Set(["account", "upstream", "user"]);

let document: Json;
beforeAll(async () => {
  document = (await call("GET", "/openapi.json")).body;
});

interface Place {
  readonly method: string;
  readonly path: string;
  readonly schema: Json;
  readonly query: readonly { readonly name: string; readonly required?: boolean }[];
}
function places(): Place[] {
  return Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, { requestBody, parameters = [] }]) => ({
      method: method.toUpperCase(),
      path: path.replace(/^\/admin/, "").replaceAll(/\{\w+\}/g, "1"),
      schema: resolved(requestBody?.content["application/json"].schema),
      query: parameters.filter((one: Json) => one.in === "query"),
    })),
  );
}
const resolved = (schema: Json): Json =>
  schema?.$ref ? document.components.schemas[schema.$ref.split("/").at(-1)] : schema;

function expectPlain({ body, status }: Awaited<ReturnType<typeof call>>, field: string): void {
  const { message, param } = body.error;
  expect([status, body.error.code]).toEqual([400, "invalid_request_error"]);
  expect(param).toMatch(new RegExp(`^${field}\\b`));
  expect(message).toContain(`\`${param}\``);
  expect(message).toMatch(/must|is required|is not/);
  expect(message).toMatch(/^`[^`]+` [a-z].*[.?]$/);
  expect(message).not.toMatch(VALIDATORS_WORDS);
  expect(message).not.toContain(MARKER);
}

describe("what the operator reads", () => {
  it("every field of every body, wrong or missing, is a plain sentence", async () => {
    const silent: string[] = [];
    let fields = 0;
    for (const { method, path, schema } of places()) {
      for (const field of Object.keys(schema?.properties ?? {})) {
        fields++;
        let refused = 0;
        const values = schema.required?.includes(field) ? [undefined, ...WRONG] : WRONG;
        for (const value of values) {
          // A body that misses what else is required is refused for that field first only where that stands before.
          const answer = await call(method, path, { ...fixture(schema, field), [field]: value });
          if (answer.status !== 400 || !String(answer.body.error.param).startsWith(field)) continue;
          refused++;
          expectPlain(answer, field);
        }
        if (refused === 0 && !ANY_TEXT.has(field)) silent.push(`${method} ${path} ${field}`);
      }
    }
    expect(silent).toEqual([]);
    expect(fields).toBeGreaterThan(60);
  });

  it("every parameter of every query is held to the same", async () => {
    let refused = 0;
    for (const { method, path, query, schema } of places()) {
      for (const { name } of query) {
        const others = query.filter((one) => one.required && one.name !== name);
        const right = others.map((one) => `&${one.name}=${one.name === "kind" ? "ledger" : "a"}`).join("");
        const values = ["", "no such thing", "-1", "0.5", MARKER];
        for (const value of [...values.map((one) => `${name}=${encodeURIComponent(one)}`), `${name}=a&${name}=b`]) {
          const answer = await call(method, `${path}?${value}${right}`, schema && {});
          if (answer.status !== 400) continue;
          refused++;
          expectPlain(answer, name);
        }
      }
    }
    expect(refused).toBeGreaterThan(20);
  });

  it.each<[string, string, unknown, string]>([
    ["POST", "/accounts", {}, "`name` is required: a string of 1 to 200 characters."],
    [
      "POST",
      "/accounts",
      { name: "A", rpm_limt: 5 },
      "`rpm_limt` is not a field of this call. Did you mean `rpm_limit`?",
    ],
    [
      "POST",
      "/accounts",
      { name: "A", rpm_limit: 1.5 },
      "`rpm_limit` must be a whole number from 0 to 1000000000; it was 1.5.",
    ],
    [
      "POST",
      "/accounts",
      { name: "A", balance_usd: "ten" },
      '`balance_usd` must be an amount in USD such as 12.5 or "12.50"; it was "ten".',
    ],
    [
      "POST",
      "/accounts",
      { name: "A", on_disconnect: "wait" },
      '`on_disconnect` must be one of cancel, drain; it was "wait".',
    ],
    ["POST", "/accounts", [], "The body must be an object; it was an empty array."],
    ["POST", "/accounts", '{"name":1,}', "The request body is not valid JSON: look at character 11."],
    ["PUT", "/aliases/a", { targets: [] }, "`targets` must be an array of 1 to 32 objects; it was an empty array."],
    [
      "PUT",
      "/aliases/a",
      { targets: [{ upstream: "u", model: "m", weight: 0 }] },
      "`targets.0.weight` must be a number above 0 and at most 1000000; it was 0.",
    ],
    [
      "PUT",
      "/aliases/a",
      { targets: [{ upstream: "u", model: "m" }], retry_on: [503] },
      "`retry_on.0` must be 500 or 502; it was 503.",
    ],
    [
      "PUT",
      "/models/m",
      { kind: "chat", prices: { input_token: {} } },
      "`prices.input_token` is not a field of this call. Did you mean `input_tokens` or `cached_input_tokens`?",
    ],
    [
      "PUT",
      "/models/m",
      { kind: "chat", prices: {}, from: "soon" },
      '`from` must be a time such as 2026-01-31T12:00:00Z, or Unix milliseconds; it was "soon".',
    ],
    [
      "PUT",
      "/upstreams/u",
      { base_url: "https://a.example", api_key: "sk with a space" },
      "`api_key` must be 1 to 4096 visible ASCII characters; it was a string of 15 characters.",
    ],
    ["GET", "/accounts?limit=many", undefined, '`limit` must be a whole number from 1 to 1000; it was "many".'],
    ["GET", "/usage?group_by=colour", undefined, "`group_by` must be any of account, "],
  ])("%s %s %j", async (method, path, body, message) => {
    const answer = await call(method, path, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error.message.slice(0, message.length)).toBe(message);
  });
});

/** The fields that are required besides this one, right enough not to be refused first. */
function fixture(schema: Json, field: string): Json {
  const right: Json = {
    name: "A",
    base_url: "https://a.example",
    url: "https://a.example/told",
    targets: [{ upstream: "u", model: "m" }],
    kind: schema.properties?.kind?.enum?.[0],
    upstream_id: 1,
    prices: {},
    account: "a",
    upstreams: ["u"],
    amount_usd: 1,
    reference: "r",
  };
  const required: string[] = (schema.required ?? []).filter((name: string) => name !== field);
  return Object.fromEntries(required.map((name) => [name, right[name]]));
}

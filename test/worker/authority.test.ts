/**
 * A key that is no longer live learns nothing but that: on every route, whatever is wrong or right with what it sends,
 * and though the edge that it asks still knows it.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { ENDPOINTS } from "../../src/core/endpoints/table.ts";
import { FIXTURES } from "../support/fixtures.ts";
import { done, type Json, settled } from "../support/worker/operator.ts";
import { ask, keyOf } from "../support/worker/tenant.ts";

const app = createApp();

beforeAll(async () => {
  await done("PUT", "/upstreams/main", { base_url: "https://inference.example", api_key: "k" });
  const unit = { cost_usd: 1, price_usd: 2 };
  await done("PUT", "/models/llama", {
    kind: "chat",
    prices: { input_tokens: unit, output_tokens: unit },
    max_output_tokens: 16,
    upstream: "main",
  });
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
    const made = { id: "resp_1", object: "response", status: "completed", output: [], usage };
    upstreamCalls.push(String(input instanceof Request ? input.url : input));
    return Response.json(made);
  });
});
afterAll(async () => {
  vi.restoreAllMocks();
  await settled();
});
const upstreamCalls: string[] = [];

interface Scene {
  readonly account: string;
  readonly team: Json;
  readonly key: Json;
}
const operator =
  (method: string, path: (scene: Scene) => string, body?: object) =>
  (scene: Scene): Promise<Json> =>
    done(method, `/accounts/${scene.account}${path(scene)}`, body);

const ENDS: [name: string, end: (scene: Scene) => Promise<Json>][] = [
  ["revoked", operator("DELETE", ({ key }) => `/keys/${key.id}`)],
  ["expired", operator("PATCH", ({ key }) => `/keys/${key.id}`, { expires_at: 1 })],
  ["blocked", operator("PATCH", ({ key }) => `/keys/${key.id}`, { blocked: true })],
  ["of a blocked team", operator("PATCH", ({ team }) => `/teams/${team.id}`, { blocked: true })],
  ["of a deleted team", operator("DELETE", ({ team }) => `/teams/${team.id}`)],
  ["of a blocked account", operator("PATCH", () => "", { blocked: true })],
  ["of a deleted account", operator("DELETE", () => "")],
];

/** What a route may be sent: as it should be, garbage, nothing of its type, a name that nobody made. */
type Sent = readonly [what: string, init: RequestInit, model: string];

function bodiesOf(id: string, kind: string): readonly Sent[] {
  const json = (value: unknown): RequestInit => ({
    body: typeof value === "string" ? value : JSON.stringify(value),
    headers: { "content-type": "application/json", "idempotency-key": "once" },
  });
  const form = (model: string): RequestInit => {
    const data = new FormData();
    data.set("model", model);
    data.set("file", new File(["no audio"], "a.wav"));
    return { body: data };
  };
  if (kind === "none") return [["a known name", {}, "llama"] as const, ["an unknown name", {}, "no-such"] as const];
  if (kind === "any") return [["any bytes", { body: "x" }, "llama"]];
  if (kind === "form") {
    return [
      ["a form", form("llama"), "llama"],
      ["an unknown model", form("no-such"), "no-such"],
      ["another type", json({}), "llama"],
      ["no boundary", { body: "x", headers: { "content-type": "multipart/form-data; boundary=b" } }, "llama"],
    ];
  }
  const raw = FIXTURES[id]?.body;
  const fields = raw?.kind === "json" ? (raw.value as object) : {};
  return [
    ["a good body", json({ ...fields, model: "llama" }), "llama"],
    ["an unknown model", json({ ...fields, model: "no-such" }), "no-such"],
    ["somebody's instance", json({ ...fields, model: "theirs:77" }), "theirs:77"],
    ["a bad body", json({ model: 1 }), "llama"],
    ["no JSON", json("{"), "llama"],
    ["another type", { body: "x", headers: { "content-type": "text/plain" } }, "llama"],
    ["a bad idempotency key", { ...json({ ...fields, model: "llama" }), ...badKey }, "llama"],
  ];
}
const badKey = { headers: { "content-type": "application/json", "idempotency-key": "x".repeat(300) } };

interface Ask {
  readonly method: string;
  readonly path: string;
  readonly init: RequestInit;
  readonly errors: "openai" | "video" | "compute";
  readonly what: string;
}

const TABLE: readonly Ask[] = ENDPOINTS.flatMap(({ id, method, path, body, errors }) =>
  bodiesOf(id, body.kind).map(([what, init, model]) => ({
    method,
    path: path
      .replace(/\{model\*?\}/, model)
      .replace("{instance_id}", "7")
      .replaceAll(/\{\w+\*?\}/g, "x"),
    init,
    errors,
    what,
  })),
);

/** Self-service as the application has it, so that a new route is here by itself. */
const SELF: readonly Ask[] = app.routes
  .filter(({ method, path }) => method !== "ALL" && /^\/(account|billing|v1\/models)/.test(path))
  .flatMap(({ method, path }) => {
    const base = { method, errors: path.startsWith("/billing") ? "compute" : "openai" } as const;
    const named = path.replaceAll(/:\w+(\{[^}]*\})?/g, "no-such");
    const json = { headers: { "content-type": "application/json" } };
    const good = method === "GET" || method === "DELETE" ? {} : { ...json, body: JSON.stringify({ name: "n" }) };
    const bad = method === "GET" || method === "DELETE" ? {} : { ...json, body: "{" };
    return [
      { ...base, path: named, init: good, what: "a good body" },
      { ...base, path: `${named}?limit=-1`, init: bad, what: "a bad query and body" },
    ];
  });
const NOWHERE: readonly Ask[] = ["/account/nothing", "/billing/nothing"].map((path) => ({
  method: "GET",
  path,
  init: {},
  errors: path.startsWith("/billing") ? "compute" : "openai",
  what: "no such path",
}));
const ASKS = [...TABLE, ...SELF, ...NOWHERE];

/** What is said of the key, in the endpoint's shape. */
function wordOf({ errors }: Ask, text: string): unknown {
  const { error, code } = JSON.parse(text);
  if (errors === "compute") return typeof error === "string" && /key/i.test(error) && "invalid_api_key";
  return errors === "video" ? code : error.code;
}

let scenes = 0;
async function newScene(): Promise<Scene> {
  const account = `authority-${++scenes}`;
  await done("POST", "/accounts", { id: account, name: account, balance_usd: 5, compute_enabled: true });
  const team = await done("POST", `/accounts/${account}/teams`, { name: "T" });
  const key = await keyOf(account, { team: team.id, role: "owner", scopes: ["inference", "compute"] });
  return { account, team, key };
}

describe("authority first", () => {
  it("the table has every row, with what is good and what is not", () => {
    expect(ASKS.length).toBeGreaterThan(90);
    expect(new Set(TABLE.map(({ path }) => path)).size).toBeGreaterThanOrEqual(ENDPOINTS.length);
  });

  it("a live key is told what is wrong with its calls", async () => {
    const { key } = await newScene();
    const statuses = new Set<number>();
    for (const { method, path, init } of TABLE) {
      if (init.body instanceof FormData || path.includes("inference-instances")) continue;
      statuses.add((await ask(key.key, method, path, init)).status);
    }
    for (const status of [200, 400, 404]) expect(statuses).toContain(status);
  });

  it.each(ENDS)("a key that is %s gets 401 on every route, whatever it sends", async (_, end) => {
    const scene = await newScene();
    const once = { "content-type": "application/json", "idempotency-key": "made" };
    const make = { headers: once, body: JSON.stringify({ model: "llama", input: "hi" }) };
    expect((await ask(scene.key.key, "POST", "/v1/responses", make)).status).toBe(200);
    await end(scene);
    upstreamCalls.length = 0;
    // What it made itself, its repeat among that.
    const own: readonly Ask[] = [
      { method: "POST", path: "/v1/responses", init: make, errors: "openai", what: "the repeat" },
      { method: "GET", path: "/v1/responses/resp_1", init: {}, errors: "openai", what: "its own response" },
      { method: "POST", path: "/v1/responses/resp_1/cancel", init: {}, errors: "openai", what: "its own response" },
    ];
    const told = new Map<string, string>();
    for (const one of [...ASKS, ...own]) {
      const { status, text } = await ask(scene.key.key, one.method, one.path, one.init);
      const word = wordOf(one, text);
      if (status !== 401 || word !== "invalid_api_key") told.set(`${one.method} ${one.path}, ${one.what}`, text);
    }
    expect([...told]).toEqual([]);
    expect(upstreamCalls).toEqual([]);
  });

  it("an unknown route needs no key", async () => {
    const scene = await newScene();
    await ENDS[0]?.[1](scene);
    expect((await ask(scene.key.key, "GET", "/v1/nothing")).status).toBe(404);
  });
});

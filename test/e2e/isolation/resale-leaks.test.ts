/**
 * No answer to a tenant shows what the operator pays or earns, who serves it, or that there is anybody else: every
 * documented call, as it should be, wrong in each way, by every sort of key, searched to the last header.
 */
import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { IN_FULL, partOf } from "../../support/in-full.ts";
import { unique } from "../../support/operator.ts";
import {
  callIdOf,
  callOf,
  ENDPOINT_NAMES,
  executionsOf,
  instanceFor,
  jsonTo,
  type Names,
  serviceFor,
  useOf,
} from "../../support/service.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator, sandboxUrl } = world();

/** USD, in no price: cost, and the markups that make prices of it. */
const COST = 0.137931;
const PRICE = 0.5;
const MARKUP = 17.319;
const CREDENTIAL = "sandbox-key";

let tenant: Tenant;
let names: Names;
let instance: { id: number; model: string };
let upstream: string;
/** Text that no tenant may see, by what it would betray. */
let secrets: Record<string, string[]>;
let keys: Record<string, string>;

const answered: { what: string; status: number; head: string; text: string }[] = [];

async function ask(what: string, path: string, init: RequestInit, key: string | undefined): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("authorization", key === undefined ? "" : `Bearer ${key}`);
  const response = await tenant.fetch(path, { ...init, headers });
  const text = await response.clone().text();
  answered.push({
    what: `${what} ${path}`,
    status: response.status,
    head: JSON.stringify([...response.headers]),
    text,
  });
  return response;
}

beforeAll(async () => {
  const notes = { name: unique("secret-name") };
  const other = await operator.tenant(notes);
  const team = await operator.call<{ id: string }>("POST", `/accounts/${other.account}/teams`, {
    name: unique("nteam"),
  });
  const foreignInstance = await instanceFor(operator, other, "chat");
  const foreignAlias = await operator.alias(other, [{ upstream: "sandbox", model: foreignInstance.model }]);

  tenant = await operator.tenant({ balance_usd: 20, plan: { markup_percent: MARKUP } });
  upstream = await operator.upstream(sandboxUrl);
  names = await serviceFor(operator, tenant, { upstreams: [upstream] });
  instance = await instanceFor(operator, tenant, "chat");
  for (const name of [...Object.values(names), instance.model]) await reprice(name);
  const credit = { amount_usd: 1, reference: "visible", note: unique("hidden-note") };
  await operator.call("POST", `/accounts/${tenant.account}/credits`, credit);

  const { number } = await operator.call<{ number: number }>("GET", `/accounts/${other.account}`);
  secrets = {
    cost: [String(COST), "137931", "0.36206", "362069", "cost_usd", "costNanoUsd", "margin", "overrun", "loss_usd"],
    plan: [String(MARKUP), "markup", "price_rule", "priceRule"],
    upstream: [upstream, CREDENTIAL, "x-service-account", "set-cookie", "service_lb"],
    neighbour: [other.account, notes.name, other.keyId, other.key, team.id, foreignInstance.model, foreignAlias],
    operator: [credit.note, "e2e-admin-token"],
    number: [`"number":${number},`, `"account_id":${number},`],
  };
  const made = async (fields: object) => (await operator.key(tenant.account, { ...fields })).key;
  const [owner, member, revoked] = [await made({ role: "owner" }), tenant.key, await operator.key(tenant.account)];
  await operator.call("DELETE", `/accounts/${tenant.account}/keys/${revoked.id}`);
  keys = { owner, member, revoked: revoked.key, narrow: await made({ models: ["nothing"] }) };
});

/** The same units at a cost that can be recognised. */
async function reprice(name: string): Promise<void> {
  const path = `/models/${encodeURIComponent(name)}`;
  const row = await operator.call<{ kind: string; prices: object; max_output_tokens: number | null }>("GET", path);
  const unit = { cost_usd: COST, price_usd: PRICE };
  const prices = Object.fromEntries(Object.keys(row.prices).map((name) => [name, unit]));
  await operator.call("PUT", path, { kind: row.kind, prices, max_output_tokens: row.max_output_tokens });
}

const BODIES = IN_FULL ? ["", "{", "{}"] : ["{}"];

test("every call of the document, by every key, with nothing, with nonsense and with unknown ids", async () => {
  const { paths } = (await (await ask("document", "/openapi.json", {}, undefined)).json()) as {
    paths: Record<string, Record<string, unknown>>;
  };
  expect(Object.keys(paths).length).toBeGreaterThan(20);
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => [path, method.toUpperCase()] as const),
  );
  for (const [path, method] of partOf(operations, 3)) {
    for (const id of ["nothing", String(instance.id), ...(secrets.neighbour ?? []).slice(0, 3)]) {
      if (!path.includes("{") && id !== "nothing") continue;
      const at = path.replace(/\{\w+\}/g, encodeURIComponent(id));
      for (const [whose, key] of Object.entries({ ...keys, nobody: undefined })) {
        if (whose === "owner" && method !== "GET" && path.startsWith("/account")) continue;
        const headers = { "content-type": "application/json" };
        const bodies = method === "POST" || method === "PUT" || method === "PATCH" ? BODIES : [undefined];
        for (const body of bodies) {
          await ask(`${whose} ${method}`, at, { method, headers, ...(body !== undefined && { body }) }, key);
        }
      }
    }
  }
});

test("every endpoint as it should be, with a model that is nobody's, somebody else's or not allowed", async () => {
  for (const endpoint of ENDPOINT_NAMES) {
    const model = names[useOf(endpoint)];
    const { path, init } = callOf(endpoint, model);
    const served = await ask("served", path, init, keys.member);
    expect(served.status, endpoint).toBe(200);
    expect((await executionsOf(tenant, callIdOf(served))).length, endpoint).toBe(1);
    for (const other of ["nothing-here", ...(secrets.neighbour ?? []).slice(-2)]) {
      const wrong = callOf(endpoint, other);
      expect((await ask("wrong", wrong.path, wrong.init, keys.member)).status).toBeGreaterThan(399);
    }
    await ask("narrow", path, init, keys.narrow);
  }
  for (const stream of [true, false]) {
    const { path, init } = jsonTo("/v1/chat/completions", {
      model: instance.model,
      stream,
      messages: [{ role: "user", content: "Hi" }],
    });
    expect((await ask("own instance", path, init, keys.member)).status).toBe(200);
  }
});

test("failures of the upstream, which tells its caller all that it was sent", async () => {
  for (const fault of [
    { fault: "echo_headers" },
    { fault: "status", status: 400, body: { error: { message: `${sandboxUrl} says no to ${CREDENTIAL}` } } },
    { fault: "status", status: 402, body: { error: { message: `owe ${COST}` } } },
    { fault: "status", status: 500, body: { error: { message: `${CREDENTIAL} ${COST}` } } },
    { fault: "status", status: 503 },
    { fault: "redirect", location: `${sandboxUrl}/elsewhere` },
    { fault: "json_error_200" },
    { fault: "error_frame", error: { message: `${CREDENTIAL} at ${sandboxUrl}` } },
  ]) {
    for (const stream of [true, false]) {
      const own = await operator.upstream(sandboxUrl);
      secrets.upstream?.push(own);
      const broken = await operator.instance(tenant, { upstreams: [own] });
      await reprice(broken);
      await operator.sandbox.fault(broken, fault);
      const messages = [{ role: "user", content: "Hi" }];
      const { path, init } = jsonTo("/v1/chat/completions", { model: broken, stream, messages });
      await ask(`${fault.fault} ${stream}`, path, init, keys.member).catch(() => undefined);
    }
  }
});

test("its own state, usage, keys, balance and transactions, after all that", async () => {
  await eventually(
    "usage",
    async () => {
      const own = await tenant.fetch("/account/usage", { headers: { authorization: `Bearer ${keys.owner}` } });
      return ((await own.json()) as { data: unknown[] }).data.length > 0;
    },
    { withinMs: 15_000 },
  );
  for (const path of [
    "/account",
    "/account/usage?group_by=team,key,model,alias,day,hour",
    "/account/usage?group_by=model&format=csv",
    "/account/keys?limit=1000",
    "/account/teams",
    "/billing/balance",
    "/billing/transactions?limit=1000",
    "/v1/models",
    `/v1/models/${encodeURIComponent(instance.model)}`,
  ]) {
    for (const [whose, key] of Object.entries(keys)) {
      const { status } = await ask(whose, path, {}, key);
      if (whose === "owner") expect(status, path).toBe(200);
    }
  }
});

test("none of it holds what it must not", () => {
  expect(answered.length).toBeGreaterThan(300);
  expect(new Set(answered.map(({ status }) => status)).size).toBeGreaterThan(6);
  const host = new URL(sandboxUrl).host;
  for (const { what, status, head, text } of answered) {
    // The document describes errors by their words: it says nothing of anybody.
    if (what.startsWith("document")) continue;
    for (const [betrays, needles] of Object.entries(secrets)) {
      for (const needle of needles) {
        // Ids that the caller itself sent are said back.
        const said = what.includes(needle) || what.includes(encodeURIComponent(needle));
        const echoed = said || (what.startsWith("wrong") && betrays === "neighbour");
        if (!echoed && text.includes(needle))
          throw new Error(`${what} (${status}) shows ${betrays} ${needle}: ${text}`);
        expect(head.includes(needle), `a header of ${what} shows ${betrays} ${needle}: ${head}`).toBe(false);
      }
    }
    expect(head.includes(host), `a header of ${what} shows the upstream's host`).toBe(false);
    // Links to results pass as they are; nothing else has the host.
    if (status !== 200) expect(text.includes(host), `${what} shows the upstream's host: ${text}`).toBe(false);
  }
});

/** Ways to lose money by accident, each walked into through the real process: it is refused, or nothing is lost. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import { ADMIN_TOKEN } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { url, sandboxUrl, operator } = world();

/** So many USD for a million tokens, either way. */
const priced = (cost_usd: number, price_usd: number) => ({
  input_tokens: { cost_usd, price_usd },
  output_tokens: { cost_usd, price_usd },
});

async function say(tenant: Tenant, model: string): Promise<string> {
  const answer = await tenant.post({ model, messages: [{ role: "user", content: "hello" }], max_tokens: 5 });
  expect(answer.status, await answer.text()).toBe(200);
  return answer.headers.get("x-request-id") ?? "";
}

interface Call {
  readonly upstream: string;
  readonly tries: readonly { readonly model: string }[];
  readonly usage: Record<"input_tokens" | "output_tokens", number>;
  readonly charged_usd: number;
  readonly cost_usd: number;
}

/** The record of a call, once it is in the books. */
async function callOf(id: string): Promise<Call> {
  return eventually("the call is in the books", async () => {
    const { status, body } = await operator.ask<Call>("GET", `/calls/${id}`);
    return status === 200 && body;
  });
}

const tokensOf = ({ usage }: Call): number => usage.input_tokens + usage.output_tokens;

test("an alias whose second target costs more than it sells for is refused with the figures, shown and told", async () => {
  const tenant = await operator.tenant();
  const cheap = await operator.instance(tenant, { model: { prices: priced(0.5, 1) } });
  const dear = await operator.instance(tenant, { model: { prices: priced(3, 4) } });
  const targets = [cheap, dear].map((model, priority) => ({ upstream: "sandbox", model, priority }));
  const path = `/aliases/${unique("pair")}`;
  const pair = { account: tenant.account, targets };
  const refused = await operator.ask<{ error: { message: string } }>("PUT", path, pair);
  expect(refused).toMatchObject({ status: 409, body: { error: { code: "alias_at_a_loss", param: "allow_loss" } } });
  expect(refused.body.error.message).toMatch(/for 1 USD.*costs 3 USD/);
  expect((await operator.ask("GET", `${path}?account=${tenant.account}`)).status).toBe(404);

  await operator.call("PUT", path, { ...pair, allow_loss: true });
  const shown = await operator.call<{ data: { margins: unknown }[] }>("GET", `/aliases?account=${tenant.account}`);
  expect(shown.data.map(({ margins }) => margins)).toMatchObject([
    [
      { model: cheap, loss: false, units: { input_tokens: { margin_usd: 0.5 } } },
      { model: dear, loss: true, units: { input_tokens: { margin_usd: -2 } } },
    ],
  ]);
  await operator.sandbox.fault(cheap, { fault: "status", status: 503, times: 1 });
  const call = await callOf(await say(tenant, path.slice("/aliases/".length)));
  expect(call.tries.map(({ model }) => model)).toEqual([cheap, dear]);
  expect(call.charged_usd).toBeCloseTo(tokensOf(call) / 1e6, 9);
  expect(call.cost_usd).toBeCloseTo((3 * tokensOf(call)) / 1e6, 9);
  await eventually("the operator is told", async () => {
    const { data } = await operator.call<{ data: object[] }>("GET", `/alerts?account=${tenant.account}`);
    return data.some((alert) => "type" in alert && alert.type === "margin.negative");
  });
});

test("a price to come moves no traffic; where a model runs changes at once and moves no price", async () => {
  const tenant = await operator.tenant();
  const model = await operator.instance(tenant, { upstreams: ["sandbox"], model: { prices: priced(0.5, 1) } });
  const prices = `/models/${encodeURIComponent(model)}/prices`;
  const ids = [await say(tenant, model)];
  const from = Date.now() + 1_500;
  await operator.call("PUT", prices, { prices: priced(1, 2), from });
  const moved = await operator.ask("PUT", prices, { prices: priced(1, 2), from, upstream: "sandbox" });
  expect(moved).toMatchObject({ status: 400, body: { error: { param: "upstream" } } });
  ids.push(await say(tenant, model));
  const sooner = Date.now() < from;
  await sleep(Math.max(0, from - Date.now()) + 100);
  ids.push(await say(tenant, model));
  const [before, soon, after] = (await Promise.all(ids.map(callOf))) as [Call, Call, Call];
  expect([before, soon, after].map(({ upstream }) => upstream)).toEqual(["sandbox", "sandbox", "sandbox"]);
  expect(before.charged_usd).toBeCloseTo(tokensOf(before) / 1e6, 9);
  expect(after.charged_usd).toBeCloseTo((2 * tokensOf(after)) / 1e6, 9);
  if (sooner) expect(soon.charged_usd).toBeCloseTo(tokensOf(soon) / 1e6, 9);
});

test("a price of the past is refused, and one to come can be taken back", async () => {
  const model = await operator.model(unique("dated"));
  const prices = `/models/${model}/prices`;
  const past = await operator.ask("PUT", prices, { prices: priced(1, 2), from: Date.now() - 61_000 });
  expect(past).toMatchObject({ status: 400, body: { error: { param: "from" } } });
  const from = new Date(Date.now() + 3_600_000).toISOString();
  await operator.call("PUT", prices, { prices: priced(1, 2), from });
  const history = async () => (await operator.call<{ history: object[] }>("GET", `/models/${model}`)).history.length;
  expect(await history()).toBe(2);
  await operator.call("DELETE", `${prices}/${from}`);
  expect(await history()).toBe(1);
});

test("a credit's sign belongs to its kind, and the books stay as they were where it does not", async () => {
  const tenant = await operator.tenant({ balance_usd: 5 });
  const credit = (kind: string, amount_usd: number) =>
    operator.ask("POST", `/accounts/${tenant.account}/credits`, {
      kind,
      amount_usd,
      reference: `${kind}${amount_usd}`,
    });
  const wrong: [kind: string, amount: number][] = [
    ["top_up", -1],
    ["top_up", 0],
    ["refund", 1],
    ["correction", 0],
  ];
  for (const [kind, amount] of wrong) {
    expect(await credit(kind, amount), kind).toMatchObject({ status: 400, body: { error: { param: "amount_usd" } } });
  }
  expect(await operator.audit(tenant.account)).toMatchObject({ ok: true, balance_usd: 5 });
  for (const [kind, amount] of [["refund", -2] as const, ["correction", -1] as const, ["top_up", 3] as const]) {
    expect((await credit(kind, amount)).status, kind).toBe(201);
  }
  expect(await operator.audit(tenant.account)).toMatchObject({ ok: true, balance_usd: 5 });
});

test("a change of an upstream resets nothing, and a credential goes to no other origin", async () => {
  const upstream = await operator.upstream(sandboxUrl, { region: "eu-west-1", timeouts: { connect_ms: 4_321 } });
  const path = `/upstreams/${upstream}`;
  const kept = { region: "eu-west-1", timeouts: { connect_ms: 4_321, idle_ms: 7_000 } };
  expect(await operator.call("PATCH", path, { timeouts: { idle_ms: 7_000 } })).toMatchObject(kept);
  const elsewhere = "https://elsewhere.example";
  const timeouts = { connect_ms: 4_321, idle_ms: 7_000 };
  for (const [method, body] of [
    ["PATCH", { base_url: elsewhere }],
    ["PUT", { base_url: elsewhere, region: "eu-west-1", timeouts }],
  ] as const) {
    expect(await operator.ask(method, path, body), method).toMatchObject({ status: 400 });
  }
  // A whole PUT at the same origin keeps the credential: the check calls with it.
  expect(await operator.call("PUT", path, { base_url: sandboxUrl, region: "eu-west-1", timeouts })).toMatchObject(kept);
  expect(await operator.call("POST", `${path}/check`)).toMatchObject({ ok: true });
});

test("a wrong credential is refused by the check, and the right one serves on", async () => {
  const tenant = await operator.tenant();
  const upstream = await operator.upstream(sandboxUrl);
  const alias = await operator.alias(tenant, [{ upstream, model: await operator.instance(tenant) }]);
  const path = `/upstreams/${upstream}`;
  expect(await operator.call("POST", `${path}/check`)).toMatchObject({ ok: true, status: 200 });
  for (const [method, body] of [
    ["PATCH", { api_key: "wrong" }],
    ["PUT", { base_url: sandboxUrl, api_key: "wrong" }],
  ] as const) {
    expect((await operator.ask(method, `${path}?check=true`, body)).status, method).toBeGreaterThanOrEqual(400);
  }
  expect((await callOf(await say(tenant, alias))).upstream).toBe(upstream);
});

test("the lost answer of a new key is no second key and no secret on the way: the repeat shows none", async () => {
  const tenant = await operator.tenant();
  const create = async () => {
    const answer = await fetch(`${url}/admin/accounts/${tenant.account}/keys`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${ADMIN_TOKEN}`,
        "content-type": "application/json",
        "idempotency-key": `key of ${tenant.account}`,
      },
      body: JSON.stringify({ name: "second" }),
    });
    return { status: answer.status, body: (await answer.json()) as { id: string; key: string | null } };
  };
  const [lost, repeated] = [await create(), await create()];
  expect(lost.body.key).toMatch(/^sk-tg-/);
  expect(repeated.body).toMatchObject({ id: lost.body.id, key: null });
  const { data } = await operator.call<{ data: object[] }>("GET", `/accounts/${tenant.account}/keys`);
  expect(data).toHaveLength(2);
  const rotated = await operator.call<{ key: string }>(
    "POST",
    `/accounts/${tenant.account}/keys/${lost.body.id}/rotate`,
  );
  expect(rotated.key).toMatch(/^sk-tg-/);
});

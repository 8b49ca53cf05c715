/** Reselling through the real process: whose price holds when, money in and out, and how far it goes. */
import { describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();

const tokens = (cost: number, price?: number) => {
  const unit = { cost_usd: cost, ...(price !== undefined && { price_usd: price }) };
  return { prices: { input_tokens: unit, output_tokens: unit } };
};
/** Reports come with the queue. */
const PATIENCE = { withinMs: 15_000 };

/** 10 tokens in, 10 out: at a USD a million, 20 millionths. */
const SMALL = { max_tokens: 10, sandbox_output_tokens: 10 };

async function chargeOf(tenant: Tenant, callId: string | null): Promise<number> {
  const charge = await eventually("the charge", async () =>
    (await tenant.charges()).find(({ call_id }) => call_id === callId),
  );
  return Math.round(0 - charge.amount_usd * 1e9);
}
async function priceOfCall(tenant: Tenant, model: string): Promise<number> {
  const answer = await tenant.chat({ model, ...SMALL });
  expect(answer.status).toBe(200);
  return chargeOf(tenant, answer.headers.get("x-request-id"));
}
const errorOf = (body: unknown) => (body as ErrorBody).error;

describe("prices", () => {
  test("markup of the plan, the book's own price, overrides of account and model; a change holds from the next call", async () => {
    const tenant = await operator.tenant({ plan: { markup_percent: 20 } });
    const path = `/accounts/${tenant.account}`;
    const marked = await operator.instance(tenant, { model: tokens(1) });
    const own = await operator.instance(tenant, { model: tokens(1, 3) });
    expect([await priceOfCall(tenant, marked), await priceOfCall(tenant, own)]).toEqual([24_000, 60_000]);
    const overrides = {
      [marked]: { input_tokens: 5, output_tokens: 7 },
      [own]: { markup_percent: 50 },
    };
    await operator.call("PATCH", path, { plan: { markup_percent: 20, overrides } });
    expect([await priceOfCall(tenant, marked), await priceOfCall(tenant, own)]).toEqual([120_000, 30_000]);
    const state = (await (await tenant.fetch("/account")).json()) as { models: { id: string; prices: object }[] };
    const shown = Object.fromEntries(state.models.map(({ id, prices }) => [id, prices]));
    expect(shown[marked]).toEqual({ input_tokens: 5, output_tokens: 7 });
    expect(shown[own]).toEqual({ input_tokens: 1.5, output_tokens: 1.5 });
    await operator.call("PATCH", path, { plan: {} });
    expect(await priceOfCall(tenant, marked)).toBe(20_000);
  });

  test("a call keeps the price of its admission; the history says from when each price holds", async () => {
    const tenant = await operator.tenant();
    const model = await operator.instance(tenant, { model: tokens(1, 1) });
    const body = {
      model,
      stream: true,
      messages: [{ role: "user", content: "Hi" }],
      sandbox_frame_delay_ms: 40,
      ...SMALL,
    };
    const running = await tenant.post(body);
    await operator.model(model, tokens(2, 4));
    const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
    const path = `/models/${encodeURIComponent(model)}/prices`;
    await operator.call("PUT", path, { ...tokens(3, 9), from: inAnHour });
    await running.text();
    expect(await chargeOf(tenant, running.headers.get("x-request-id"))).toBe(20_000);
    expect(await priceOfCall(tenant, model)).toBe(80_000);
    const book = await operator.call<{ prices: object; history: { from: string; prices: object }[] }>(
      "GET",
      `/models/${encodeURIComponent(model)}`,
    );
    const price = (row: { prices: object }) =>
      (row.prices as Record<string, { price_usd: number }>).input_tokens?.price_usd;
    expect(price(book)).toBe(4);
    expect(book.history.map(price)).toEqual([9, 4, 1]);
    expect(book.history[0]?.from).toBe(inAnHour);
  });

  test("no price is 402, free is free, and nothing costs nothing by a slip", async () => {
    const tenant = await operator.tenant({ balance_usd: 0 });
    const instance = await operator.instance(tenant, { model: tokens(1, 1) });
    const alias = await operator.alias(tenant, [{ upstream: "sandbox", model: instance }]);
    expect((await tenant.chat({ model: alias, ...SMALL })).status).toBe(402);
    await operator.call("DELETE", `/models/${encodeURIComponent(instance)}`);
    const unpriced = await tenant.chat({ model: alias, ...SMALL });
    expect([unpriced.status, errorOf(unpriced.body).code]).toEqual([402, "model_not_priced"]);
    expect(unpriced.headers.get("x-should-retry")).toBe("false");
    for (const slip of [tokens(0), tokens(1, 0), tokens(0, 0)]) {
      const answer = await operator.ask("PUT", `/models/${alias}`, { kind: "chat", max_output_tokens: 10, ...slip });
      expect(answer.status).toBe(400);
    }
    const account = `/accounts/${tenant.account}`;
    const gift = { plan: { overrides: { [alias]: { input_tokens: 0 } } } };
    expect((await operator.ask("PATCH", account, gift)).status).toBe(400);
    // A cost of nothing times any markup is nothing: the book's own price stands.
    await operator.model(alias, tokens(0, 2));
    await operator.call("PATCH", account, { plan: { overrides: { [alias]: { markup_percent: 100 } } } });
    expect((await tenant.chat({ model: alias, ...SMALL })).status).toBe(402);
    await operator.model(alias, { ...tokens(1), free: true });
    expect(await priceOfCall(tenant, alias)).toBe(0);
  });
});

describe("money in", () => {
  test("forty top-ups at once under one reference are one; another amount under it is 409", async () => {
    const tenant = await operator.tenant({ balance_usd: 1 });
    const path = `/accounts/${tenant.account}/credits`;
    const send = (amount: number, kind?: string) =>
      operator.ask("POST", path, { amount_usd: amount, reference: "invoice", ...(kind && { kind }) });
    const statuses = (await Promise.all(Array.from({ length: 40 }, () => send(2)))).map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(1);
    expect(statuses.filter((status) => status === 200)).toHaveLength(39);
    expect((await send(3)).status).toBe(409);
    expect((await send(2, "correction")).status).toBe(409);
    expect(await operator.call("GET", `/accounts/${tenant.account}`)).toMatchObject({ balance_usd: 3 });
  });

  test("refunds and corrections are entries of their own, and take nothing that a call holds", async () => {
    const tenant = await operator.tenant({ balance_usd: 0.001 });
    const model = await operator.instance(tenant);
    const path = `/accounts/${tenant.account}/credits`;
    const take = (amount: number, reference: string, kind = "refund") =>
      operator.ask("POST", path, { amount_usd: amount, reference, kind });
    const body = {
      model,
      stream: true,
      messages: [{ role: "user", content: "Hi" }],
      sandbox_frame_delay_ms: 60,
      ...SMALL,
    };
    const running = await tenant.post(body);
    const { held_usd } = await operator.call<{ held_usd: number }>("GET", `/accounts/${tenant.account}`);
    expect(held_usd).toBeGreaterThan(0);
    expect((await take(-0.001, "all of it")).status).toBe(409);
    expect((await take(-0.0001, "some")).status).toBe(201);
    expect((await take(0.00005, "too much", "correction")).status).toBe(201);
    await running.text();
    await chargeOf(tenant, running.headers.get("x-request-id"));
    const callId = running.headers.get("x-request-id");
    const given = { amount_usd: 0.00002, reference: "it was poor", kind: "correction", call_id: callId };
    expect(await operator.call("POST", path, given)).toMatchObject({ call_id: callId });
    const kinds = (await tenant.ledger()).map(({ kind, amount_usd }) => [kind, amount_usd]);
    expect(kinds).toEqual([
      ["correction", 0.00002],
      ["charge", -0.00002],
      ["correction", 0.00005],
      ["refund", -0.0001],
      ["top_up", 0.001],
    ]);
    expect(await tenant.audit()).toMatchObject({ ok: true, balance_usd: 0.00095 });
  });
});

describe("as far as the money goes", () => {
  test("402 says what the call needs, what is there and what is held, and asks for no repeat", async () => {
    const tenant = await operator.tenant({ balance_usd: 0.0007 });
    const model = await operator.instance(tenant);
    const call = { model, max_tokens: 200, sandbox_output_tokens: 10 };
    const running = await tenant.post({
      ...call,
      stream: true,
      sandbox_frame_delay_ms: 60,
      messages: [{ role: "user", content: "Hi" }],
    });
    const { held_usd, balance_usd } = await operator.call<{ held_usd: number; balance_usd: number }>(
      "GET",
      `/accounts/${tenant.account}`,
    );
    const refused = await tenant.chat(call);
    await running.text();
    expect(refused.status).toBe(402);
    expect(refused.headers.get("x-should-retry")).toBe("false");
    const numbers = /needs up to ([\d.]+) USD and ([\d.]+) USD is available \(([\d.]+) USD is held/;
    const [needed = 0, available = 0, held] = (numbers.exec(errorOf(refused.body).message) ?? []).slice(1).map(Number);
    expect(held).toBe(held_usd);
    expect(available).toBeCloseTo(balance_usd - held_usd, 9);
    expect(needed).toBeGreaterThan(available);
    expect(errorOf(refused.body).code).toBe("insufficient_quota");
    // What was held is there again: the same call passes now.
    await eventually("the hold is gone", async () => (await tenant.audit()).open_holds === 0);
    expect((await tenant.chat(call)).status).toBe(200);
  });

  test("who pays monthly goes down to the credit limit and no further, 32 calls at once", async () => {
    const tenant = await operator.tenant({ balance_usd: 0, bills_monthly: true, credit_limit_usd: 0.002 });
    const model = await operator.instance(tenant);
    const statuses: number[] = [];
    for (let round = 0; round < 4; round++) {
      const calls = Array.from({ length: 32 }, () =>
        tenant.chat({ model, max_tokens: 100, sandbox_output_tokens: 100 }),
      );
      statuses.push(...(await Promise.all(calls)).map(({ status }) => status));
    }
    expect(new Set(statuses)).toEqual(new Set([200, 402]));
    const executions = await operator.sandbox.executions(model);
    expect(executions).toHaveLength(statuses.filter((status) => status === 200).length);
    const audit = await eventually("rest", async () => {
      const found = await tenant.audit();
      return found.open_holds === 0 && found;
    });
    expect(audit.ok).toBe(true);
    expect(audit.balance_usd).toBeLessThan(0);
    expect(audit.balance_usd).toBeGreaterThanOrEqual(-0.002);
    const balance = await (await tenant.fetch("/billing/balance")).json();
    expect(balance).toEqual({ balance: audit.balance_usd, account_id: expect.any(Number), bills_monthly: true });
    // The invoice is paid.
    const owed = 0 - audit.balance_usd;
    await operator.call("POST", `/accounts/${tenant.account}/credits`, { amount_usd: owed, reference: "2026-11" });
    expect((await tenant.chat({ model, ...SMALL })).status).toBe(200);
  });

  test("an owner reads what was booked, in the contract's shape; the operator's notes are not there", async () => {
    const tenant = await operator.tenant({}, { role: "owner" });
    const model = await operator.instance(tenant);
    await priceOfCall(tenant, model);
    const note = { amount_usd: 1, reference: "bank-7", note: "paid late again" };
    await operator.call("POST", `/accounts/${tenant.account}/credits`, note);
    const text = await (await tenant.fetch("/billing/transactions")).text();
    const entries = JSON.parse(text) as Record<string, unknown>[];
    expect(entries.map(({ kind, amount }) => [kind, amount])).toEqual([
      ["top_up", 1],
      ["charge", -0.00002],
      ["top_up", 1],
    ]);
    expect(entries[0]).toMatchObject({ reference: "bank-7", request_id: null });
    expect(text).not.toContain("paid late");
  });
});

test("an account that is deleted leaves no route behind and keeps its ledger and its reports", async () => {
  const tenant = await operator.tenant();
  const model = await operator.instance(tenant);
  const alias = await operator.alias(tenant, [{ upstream: "sandbox", model }]);
  await priceOfCall(tenant, alias);
  const path = `/accounts/${tenant.account}`;
  await eventually(
    "the report",
    async () => {
      const { data } = await operator.call<{ data: { calls: number }[] }>("GET", `/usage?account=${tenant.account}`);
      return data[0]?.calls === 1;
    },
    PATIENCE,
  );
  await operator.call("DELETE", path);
  expect((await tenant.fetch("/v1/models")).status).toBe(401);
  expect([401, 404]).toContain((await tenant.chat({ model: alias })).status);
  for (const gone of [`/aliases/${alias}?account=${tenant.account}`, `/instances/${model.split(":")[1]}`]) {
    expect((await operator.ask("GET", gone)).status).toBe(404);
  }
  expect(await tenant.ledger()).toHaveLength(2);
  expect(await tenant.audit()).toMatchObject({ ok: true });
  const { data } = await operator.call<{ data: object[] }>("GET", `/usage?account=${tenant.account}&group_by=key`);
  expect(data).toMatchObject([{ key: tenant.keyId, calls: 1, price_usd: 0.00002 }]);
});

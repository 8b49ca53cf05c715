/** What was executed, what was charged and what is reported are the same. */
import { expect, test } from "vitest";
import type { LedgerEntry } from "../../../client/operator.ts";
import { eventually } from "../../support/eventually.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();

/**
 * A mixed lot: JSON and streams, some of them failing, some with a first target that is down. Gives the models that
 * were asked, and the entries once all are written: a stream is charged after its last frame.
 */
async function mixedCalls(tenant: Tenant): Promise<{ models: string[]; charges: LedgerEntry[] }> {
  const [down, good] = [await operator.instance(tenant), await operator.instance(tenant)];
  await operator.sandbox.fault(down, { fault: "status", status: 503 });
  const alias = await operator.alias(tenant, [
    { upstream: "sandbox", model: down },
    { upstream: "sandbox", model: good },
  ]);
  const calls = Array.from({ length: 24 }, (_, at) =>
    tenant.chat({ model: at % 3 === 0 ? good : alias, stream: at % 2 === 0, max_tokens: 1 + at }),
  );
  const statuses = (await Promise.all(calls)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([200]));
  await tenant.chat({ model: good, temperature: 9 });
  await tenant.chat({ model: down });
  const charges = await eventually("every call is charged", async () => {
    const entries = await tenant.charges();
    return entries.filter(({ amount_usd }) => amount_usd !== 0).length === calls.length && entries;
  });
  return { models: [down, good], charges };
}

test("the ledger joins the upstream's executions one to one, at the price of what each used", async () => {
  const tenant = await operator.tenant();
  const { models, charges } = await mixedCalls(tenant);
  const executions = await operator.sandbox.executions(...models);
  expect(executions).toHaveLength(24);
  const charged = new Map<string | null, number>();
  for (const { call_id, amount_usd } of charges) {
    expect(charged.has(call_id)).toBe(false);
    if (amount_usd !== 0) charged.set(call_id, amount_usd);
  }
  expect([...charged.keys()].sort()).toEqual(executions.map(({ request_id }) => request_id).sort());
  for (const { request_id, usage } of executions) {
    const tokens = (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
    expect(charged.get(request_id)).toBeCloseTo(-tokens / 1e6, 9);
  }
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, overrun_usd: 0, operator_loss_usd: 0 });
});

test("five seconds after the last call the reports equal the ledger", async () => {
  const tenant = await operator.tenant();
  const { charges } = await mixedCalls(tenant);
  const spent = -charges.reduce((sum, { amount_usd }) => sum + amount_usd, 0);
  const from = new Date(Date.now() - 3_600_000).toISOString();
  const to = new Date(Date.now() + 3_600_000).toISOString();
  const path = `/usage?account=${tenant.account}&group_by=account&from=${from}&to=${to}`;
  const row = await eventually("the reports", async () => {
    const { data } = await operator.call<{ data: Record<string, unknown>[] }>("GET", path);
    const [first] = data;
    return Number(first?.price_usd) >= spent - 1e-9 && first;
  });
  expect(row.price_usd).toBeCloseTo(spent, 9);
  expect(row.cost_usd).toBeCloseTo(spent / 2, 9);
  // Calls that cost nothing are reported too, and not in the sum.
  const { ok } = await eventually("every event is on its way", async () => {
    const audit = await tenant.audit();
    return audit.outbox === 0 && audit;
  });
  expect(ok).toBe(true);
});

test("the operator's route: account, team, key, credit, ledger, rotation, deletion", async () => {
  const tenant = await operator.tenant({ balance_usd: 2 });
  const path = `/accounts/${tenant.account}`;
  const target = await operator.instance(tenant);
  const top_up = { amount_usd: "0.5", reference: "invoice-1" };
  expect((await operator.ask("POST", `${path}/credits`, top_up)).status).toBe(201);
  expect((await operator.ask("POST", `${path}/credits`, top_up)).status).toBe(200);
  expect((await operator.ask("POST", `${path}/credits`, { ...top_up, amount_usd: 1 })).status).toBe(409);
  expect(await operator.call("GET", path)).toMatchObject({ balance_usd: 2.5, held_usd: 0 });

  const team = await operator.call<{ id: string }>("POST", `${path}/teams`, { name: "research", rpm_limit: 2 });
  const member = await operator.key(tenant.account, { team: team.id });
  const call = async (key: string) => {
    const body = { model: target, max_tokens: 1, messages: [{ role: "user", content: "Hi" }] };
    return (await tenant.post(body, { headers: { authorization: `Bearer ${key}` } })).status;
  };
  expect([await call(member.key), await call(member.key), await call(member.key)]).toEqual([200, 200, 429]);

  const rotated = await operator.call<{ key: string }>("POST", `${path}/keys/${tenant.keyId}/rotate`, {});
  expect([await call(tenant.key), await call(rotated.key)]).toEqual([401, 200]);

  expect((await operator.ask("POST", "/accounts", { name: "x", surprise: 1 })).status).toBe(400);
  expect((await operator.ask("GET", "/accounts/nobody-here")).status).toBe(404);
  expect((await operator.ask("DELETE", path)).status).toBe(200);
  expect(await call(rotated.key)).toBe(401);
  expect((await operator.ledger(tenant.account)).length).toBe(5);
});

test("the operator's API serves nobody without the token", async () => {
  for (const authorization of [undefined, "Bearer wrong", "Basic abc", "Bearer "]) {
    const headers = new Headers(authorization === undefined ? {} : { authorization });
    expect((await fetch(`${operator.url}/admin/accounts`, { headers })).status).toBe(401);
  }
});

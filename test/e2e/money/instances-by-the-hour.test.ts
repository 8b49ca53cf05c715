/**
 * Inference instances that an account pays by the hour, through the real process: deployed, called, charged, unpaid.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";

const DAY_MS = 3_000;
/** USD of a day of its four GPUs, and of a ms. */
const DAY_USD = 24 * 4 * 0.25;
const HOURLY = { gpu_type: "H100 SXM", gpu_count: 2, replicas: 2 };

let gateway: TollgateProcess;
let operator: Operator;
let next = 500;

beforeAll(async () => {
  gateway = await TollgateProcess.start({ env: { COMPUTE_HOUR_MS: "125", COMPUTE_DAY_MS: String(DAY_MS) } });
  operator = new Operator(gateway);
  const prices = { gpu_hours: { cost_usd: 0.1, price_usd: 0.25 } };
  await operator.call("PUT", "/models/gpu%2FH100%2520SXM", { kind: "gpu", prices });
});
afterAll(() => gateway.stop());

async function deployed(balanceUsd: number): Promise<{ tenant: Tenant; id: number; model: string }> {
  const tenant = await operator.tenant({ balance_usd: balanceUsd });
  const id = next++;
  await operator.sandbox.addInstance(id, "llama-7b");
  const body = { account: tenant.account, name: "llama-7b", upstreams: ["sandbox"], hourly: HOURLY };
  expect(await operator.ask("PUT", `/instances/${id}`, body)).toMatchObject({ status: 200 });
  return { tenant, id, model: `llama-7b:${id}` };
}

async function chat(tenant: Tenant, model: string): Promise<{ status: number; code: string | undefined }> {
  const response = await tenant.fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] }),
  });
  const { error } = (await response.json()) as { error?: { code: string } };
  return { status: response.status, code: error?.code };
}
const gpuCharges = async (tenant: Tenant): Promise<number[]> =>
  (await tenant.charges()).filter(({ model }) => model?.startsWith("gpu/")).map(({ amount_usd }) => 0 - amount_usd);
const sum = (amounts: readonly number[]) => amounts.reduce((all, one) => all + one, 0);

test("its calls are served and cost nothing; its GPU-hours are held a day ahead and charged to the ms of its end", async () => {
  const { tenant, id, model } = await deployed(1_000);
  const fromMs = Date.now();
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 1, held_usd: DAY_USD });
  expect(await chat(tenant, model)).toMatchObject({ status: 200 });
  expect((await operator.sandbox.executions(model)).length).toBe(1);
  await eventually("a day is charged", async () => (await gpuCharges(tenant)).length >= 1, { withinMs: 15_000 });
  expect((await gpuCharges(tenant))[0]).toBeCloseTo(DAY_USD, 9);
  const endedMs = Date.now();
  expect((await operator.ask("DELETE", `/instances/${id}`)).status).toBe(200);
  const total = sum(await gpuCharges(tenant));
  // It began before its PUT was answered, and ended while its DELETE ran.
  expect(total).toBeGreaterThanOrEqual((DAY_USD * (endedMs - fromMs)) / DAY_MS);
  expect(total).toBeLessThan((DAY_USD * (Date.now() - fromMs + 1_000)) / DAY_MS);
  const audit = await tenant.audit();
  expect(audit).toMatchObject({ ok: true, problems: [], open_holds: 0, held_usd: 0, operator_loss_usd: 0 });
  expect(audit.balance_usd).toBeCloseTo(1_000 - total, 6);
  expect((await chat(tenant, model)).status).toBe(401);
});

test("without money its calls are 402 and reach nobody; with money again it is paid from then on", async () => {
  const { tenant, id, model } = await deployed(1.5 * DAY_USD);
  await eventually("it is unpaid", async () => (await tenant.audit()).balance_usd === 0, { withinMs: 15_000 });
  expect(sum(await gpuCharges(tenant))).toBeCloseTo(1.5 * DAY_USD, 9);
  const asked = (await operator.sandbox.executions(model)).length;
  expect(await chat(tenant, model)).toEqual({ status: 402, code: "insufficient_quota" });
  expect((await operator.sandbox.executions(model)).length).toBe(asked);
  const told = () =>
    gateway.output
      .split("\n")
      .some((line) => line.includes('"instance_unpaid"') && line.includes(`"account":"${tenant.account}"`));
  await eventually("the operator is told", async () => told());
  await sleep(500);
  await operator.call("POST", `/accounts/${tenant.account}/credits`, { amount_usd: 10 * DAY_USD, reference: "more" });
  await eventually("it is served again", async () => (await chat(tenant, model)).status === 200);
  expect((await operator.ask("DELETE", `/instances/${id}`)).status).toBe(200);
  const audit = await tenant.audit();
  expect(audit).toMatchObject({ ok: true, problems: [], open_holds: 0, held_usd: 0 });
  expect(audit.balance_usd).toBeCloseTo(11.5 * DAY_USD - sum(await gpuCharges(tenant)), 6);
  // The half second that nobody paid.
  expect(audit.operator_loss_usd).toBeGreaterThan((24 * 4 * 0.1 * 500) / DAY_MS);
});

/** A target that cannot take a call hands it to the next; what was executed is charged, once. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { chatPost, RawClient } from "../../support/raw-client.ts";
import type { Execution } from "../../support/sandbox.ts";
import { TcpProxy } from "../../support/tcp-proxy.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator, sandboxUrl } = world();
let tenant: Tenant;
let proxy: TcpProxy;

beforeAll(async () => {
  tenant = await operator.tenant();
  proxy = await TcpProxy.start(sandboxUrl);
});
afterAll(() => proxy.stop());

/** Two instances, the first by way of the proxy, behind an alias. */
async function pair(): Promise<{ alias: string; first: string; second: string }> {
  const broken = await operator.upstream(proxy.url);
  const first = await operator.instance(tenant, { upstreams: [broken] });
  const second = await operator.instance(tenant);
  const alias = await operator.alias(tenant, [
    { upstream: broken, model: first },
    { upstream: "sandbox", model: second },
  ]);
  return { alias, first, second };
}

/** One charge, for exactly what this one execution says it used, under the call's id. */
async function expectCharged(callId: string | null, execution: Execution | undefined): Promise<void> {
  const entries = (await tenant.charges()).filter(({ call_id }) => call_id === callId);
  expect(entries).toHaveLength(1);
  expect(execution?.request_id).toBe(callId);
  const { input_tokens = 0, output_tokens = 0 } = execution?.usage ?? {};
  expect(entries[0]?.amount_usd).toBeCloseTo(-(input_tokens + output_tokens) / 1e6, 9);
}

test("503 from the first target: the second serves, one execution, one charge", async () => {
  await proxy.become({ kind: "pass" });
  const { alias, first, second } = await pair();
  await operator.sandbox.fault(first, { fault: "status", status: 503 });
  const answer = await tenant.chat({ model: alias });
  expect(answer.status).toBe(200);
  expect(await operator.sandbox.calls(first)).toHaveLength(1);
  const executions = await operator.sandbox.executions(first, second);
  expect(executions.map(({ model }) => model)).toEqual([second]);
  expect(answer.headers.get("x-service-region")).toBe(executions[0]?.region);
  await expectCharged(answer.headers.get("x-service-request-id"), executions[0]);
});

test("503 from the first target of a stream: the second serves it whole, no word of the first", async () => {
  await proxy.become({ kind: "pass" });
  const { alias, first, second } = await pair();
  await operator.sandbox.fault(first, { fault: "status", status: 503 });
  const answer = await tenant.chat({ model: alias, stream: true });
  expect(answer.status).toBe(200);
  expect(answer.body).toContain("[DONE]");
  expect(answer.body).not.toContain(first);
  const executions = await operator.sandbox.executions(first, second);
  expect(executions).toHaveLength(1);
  await expectCharged(answer.headers.get("x-service-request-id"), executions[0]);
});

test("a refused connection: the second serves", async () => {
  await proxy.become({ kind: "refuse" });
  const { alias, first, second } = await pair();
  const answer = await tenant.chat({ model: alias });
  expect(answer.status).toBe(200);
  const executions = await operator.sandbox.executions(first, second);
  expect(executions.map(({ model }) => model)).toEqual([second]);
  await expectCharged(answer.headers.get("x-service-request-id"), executions[0]);
});

test("a connection reset before the answer: the second serves, for chat may be executed twice", async () => {
  await proxy.become({ kind: "reset" });
  const { alias, first, second } = await pair();
  const answer = await tenant.chat({ model: alias });
  expect(answer.status).toBe(200);
  const executions = await operator.sandbox.executions(first, second);
  expect(executions.map(({ model }) => model)).toEqual([second]);
  await expectCharged(answer.headers.get("x-service-request-id"), executions[0]);
});

test("no first byte of a stream within the upstream's time: the second serves", async () => {
  await proxy.become({ kind: "half_open" });
  const silent = await operator.upstream(proxy.url, {
    timeouts: { first_byte_ms: 300, idle_ms: 1_000, total_ms: 5_000 },
  });
  const first = await operator.instance(tenant, { upstreams: [silent] });
  const second = await operator.instance(tenant);
  const alias = await operator.alias(tenant, [
    { upstream: silent, model: first },
    { upstream: "sandbox", model: second },
  ]);
  const body = { model: alias, messages: [{ role: "user", content: "Hi" }], stream: true };
  const answer = await tenant.fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(answer.status).toBe(200);
  expect(await answer.text()).toContain("[DONE]");
  expect((await operator.sandbox.executions(first, second)).map(({ model }) => model)).toEqual([second]);
});

test("reset in the middle of a stream: an error, no second target, one charge for the part", async () => {
  const { alias, first, second } = await pair();
  await proxy.become({ kind: "reset_after", bytes: 1_500 });
  const body = { model: alias, messages: [{ role: "user", content: "Hi" }], stream: true };
  const text = await new RawClient(operator.url, chatPost(tenant.key, body)).untilClosed();
  expect(text).toMatch(/^HTTP\/1.1 200 /);
  expect(text).toMatch(/\ndata: \{"error":/);
  expect(text).not.toContain("[DONE]");
  expect(await operator.sandbox.calls(second)).toEqual([]);
  const [execution] = await operator.sandbox.executions(first);
  const charged = await eventually("the charge", async () =>
    (await tenant.charges()).filter(({ call_id }) => call_id === execution?.request_id),
  );
  expect(charged).toHaveLength(1);
  expect(charged[0]?.amount_usd).toBeLessThan(0);
});

test("an instance with pods in two regions is served by the one that is up, and the answer names it", async () => {
  const regions = ["us-east-1", "eu-west-1"];
  const upstreams = [];
  for (const region of regions) {
    upstreams.push(await operator.upstream(`${sandboxUrl}/regions/${region}`, { region }));
  }
  const everywhere = await operator.instance(tenant, { upstreams });
  const europe = await operator.instance(tenant, { upstreams, regions: ["eu-west-1"] });
  for (let call = 0; call < 4; call++) {
    const answer = await tenant.chat({ model: europe });
    expect([answer.status, answer.headers.get("x-service-region")]).toEqual([200, "eu-west-1"]);
    const other = await tenant.chat({ model: everywhere });
    expect(regions).toContain(other.headers.get("x-service-region"));
  }
  expect(await operator.sandbox.executions(europe)).toHaveLength(4);
});

test("429 from the first target: the second serves", async () => {
  await proxy.become({ kind: "pass" });
  const { alias, first, second } = await pair();
  await operator.sandbox.fault(first, { fault: "status", status: 429 });
  const answer = await tenant.chat({ model: alias });
  expect(answer.status).toBe(200);
  expect((await operator.sandbox.executions(first, second)).map(({ model }) => model)).toEqual([second]);
});

test("400 of an upstream is final: no second target, its words pass, nothing is charged", async () => {
  await proxy.become({ kind: "pass" });
  const { alias, first, second } = await pair();
  const words = { error: { message: "No such voice.", type: "invalid_request_error", param: "voice", code: "odd" } };
  await operator.sandbox.fault(first, { fault: "status", status: 400, body: words });
  const answer = await tenant.chat({ model: alias });
  expect(answer.status).toBe(400);
  expect(answer.body).toMatchObject({ error: { param: "voice", code: "odd" } });
  expect(await operator.sandbox.calls(second)).toEqual([]);
  const callId = answer.headers.get("x-service-request-id");
  const entries = (await tenant.charges()).filter(({ call_id }) => call_id === callId);
  expect(entries.reduce((sum, { amount_usd }) => sum + amount_usd, 0)).toBe(0);
});

test("401 of an upstream is the operator's problem: the tenant sees 503 and no credential", async () => {
  await proxy.become({ kind: "pass" });
  const { first } = await pair();
  await operator.sandbox.fault(first, { fault: "status", status: 401, body: { error: { message: "sandbox-key" } } });
  const answer = await tenant.chat({ model: first });
  expect(answer.status).toBe(503);
  expect(JSON.stringify(answer.body)).not.toContain("sandbox-key");
});

test("every target answers 503: 503, nothing executed, nothing held or charged", async () => {
  await proxy.become({ kind: "pass" });
  const down = await operator.tenant();
  const targets = [await operator.instance(down), await operator.instance(down)];
  for (const model of targets) await operator.sandbox.fault(model, { fault: "status", status: 503 });
  const alias = await operator.alias(
    down,
    targets.map((model) => ({ upstream: "sandbox", model })),
  );
  for (const stream of [false, true]) {
    const answer = await down.chat({ model: alias, stream });
    expect(answer.status).toBe(503);
    expect(answer.body).toMatchObject({ error: { code: "no_healthy_upstream" } });
    expect(answer.headers.get("x-service-request-id")).toBeTruthy();
  }
  expect(await operator.sandbox.executions(...targets)).toEqual([]);
  expect(await down.audit()).toMatchObject({ ok: true, balance_usd: 1, held_usd: 0, open_holds: 0 });
});

test("the only target refuses connections: 503, nothing held or charged", async () => {
  await proxy.become({ kind: "refuse" });
  const down = await operator.tenant();
  const broken = await operator.upstream(proxy.url);
  const target = await operator.instance(down, { upstreams: [broken] });
  const answer = await down.chat({ model: target });
  expect(answer.status).toBe(503);
  expect(await operator.sandbox.calls(target)).toEqual([]);
  expect(await down.audit()).toMatchObject({ ok: true, balance_usd: 1, held_usd: 0, open_holds: 0 });
});

test("a body of 19 MB fails over whole", async () => {
  await proxy.become({ kind: "refuse" });
  const { alias, first, second } = await pair();
  const url = `data:image/png;base64,${"A".repeat(19_000_000)}`;
  const content = [
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url } },
  ];
  const answer = await tenant.chat({ model: alias, messages: [{ role: "user", content }] });
  expect(answer.status).toBe(200);
  expect(await operator.sandbox.executions(first, second)).toHaveLength(1);
});

test("the tenant's books are whole after all this", async () => {
  expect(await tenant.audit()).toMatchObject({ ok: true, held_usd: 0, open_holds: 0, overrun_usd: 0 });
});

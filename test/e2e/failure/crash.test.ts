/** workerd killed with -9: what was in flight is booked once, what was booked stays, and it serves again. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";

const HOLD_TTL_MS = 2_000;
let tollgate: TollgateProcess;
let operator: Operator;

beforeAll(async () => {
  tollgate = await TollgateProcess.start({ env: { HOLD_TTL_MS: String(HOLD_TTL_MS) } });
  operator = new Operator(tollgate);
});
afterAll(() => tollgate.stop());

const slow = { stream: true, max_tokens: 200, sandbox_output_tokens: 200, sandbox_frame_delay_ms: 50 };

test("mid stream: the client sees an error, the hold expires, the loss is booked once, the audit is clean", async () => {
  const tenant = await operator.tenant();
  const target = await operator.instance(tenant);
  const before = await tenant.chat({ model: target, max_tokens: 1 });
  expect(before.status).toBe(200);
  const response = await tenant.post({ model: target, messages: [{ role: "user", content: "Hi" }], ...slow });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  for (let frame = 0; frame < 3; frame++) await reader.read();
  const callId = response.headers.get("x-request-id");
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 1 });

  await tollgate.kill9Workerd();
  const cut = async () => {
    while (!(await reader.read()).done);
  };
  await expect(cut()).rejects.toThrow();

  await eventually("the hold has expired", async () => (await tenant.audit()).open_holds === 0, { withinMs: 8_000 });
  const audit = await tenant.audit();
  expect(audit).toMatchObject({ ok: true, held_usd: 0, problems: [] });
  expect(audit.operator_loss_usd).toBeGreaterThan(0);
  // What the tenant paid is what it was served whole.
  expect(audit.balance_usd).toBeCloseTo(1 - 11e-6, 9);
  expect((await operator.sandbox.executions(target)).map(({ request_id }) => request_id)).toContain(callId);

  await tollgate.kill9Workerd();
  await sleep(HOLD_TTL_MS + 500);
  expect(await tenant.audit()).toEqual(audit);
  expect((await tenant.chat({ model: target, max_tokens: 1 })).status).toBe(200);
});

test("a stream that outlives the hold's first term is renewed and charged, not expired", async () => {
  const tenant = await operator.tenant();
  const target = await operator.instance(tenant);
  const answer = await tenant.chat({ model: target, ...slow, max_tokens: 60, sandbox_output_tokens: 60 });
  expect(answer.body).toContain("[DONE]");
  const [charge] = await tenant.charges();
  expect(charge?.amount_usd).toBeCloseTo(-70e-6, 9);
  await sleep(HOLD_TTL_MS + 500);
  expect(await tenant.audit()).toMatchObject({ ok: true, operator_loss_usd: 0, open_holds: 0, overrun_usd: 0 });
});

test("right after settled calls: their charges stand and their usage still reaches the reports", async () => {
  const tenant = await operator.tenant();
  const target = await operator.instance(tenant);
  // What its first credit told may be in the queue, whose messages a local process loses; they come again in two minutes.
  await eventually("its credit is told", async () => (await tenant.audit()).outbox === 0, { withinMs: 10_000 });
  await Promise.all(Array.from({ length: 10 }, () => tenant.chat({ model: target, max_tokens: 1 })));
  await tollgate.kill9Workerd();
  expect(await tenant.charges()).toHaveLength(10);
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, operator_loss_usd: 0 });
  await eventually("the outbox is empty", async () => (await tenant.audit()).outbox === 0, { withinMs: 20_000 });
});

test("the sandbox killed mid stream: the client sees an error, what was delivered is charged", async () => {
  const tenant = await operator.tenant();
  const target = await operator.instance(tenant);
  const response = await tenant.post({ model: target, messages: [{ role: "user", content: "Hi" }], ...slow });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  for (let frame = 0; frame < 3; frame++) await reader.read();
  await tollgate.kill9Workerd("sandbox");
  const rest = async () => {
    let text = "";
    const decoder = new TextDecoder();
    for (let read = await reader.read(); !read.done; read = await reader.read()) text += decoder.decode(read.value);
    return text;
  };
  await expect(rest()).rejects.toThrow();
  await eventually("no hold", async () => (await tenant.audit()).open_holds === 0);
  const [charge] = await tenant.charges();
  expect(charge?.amount_usd).toBeLessThan(0);
  expect(await tenant.audit()).toMatchObject({ ok: true, operator_loss_usd: 0, overrun_usd: 0 });
});

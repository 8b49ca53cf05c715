/** Rented machines through the real process: what ran upstream, by the service's own account, is what was charged. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Instance, PRICE, Renter } from "../../support/compute/renter.ts";
import { ED25519 } from "../../support/compute/ssh-keys.ts";
import { ComputeSandbox } from "../../support/compute-sandbox.ts";
import { eventually } from "../../support/eventually.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import { allowedMs } from "../../support/slowness.ts";

const HOUR_MS = 5_000;
const INTERRUPTIBLE = PRICE / 2;

let gateway: TollgateProcess;
let operator: Operator;
let sandbox: ComputeSandbox;
let at: Parameters<typeof Renter.make>[0];

beforeAll(async () => {
  gateway = await TollgateProcess.start({ env: { COMPUTE_HOUR_MS: String(HOUR_MS), COMPUTE_DAY_MS: "120000" } });
  operator = new Operator(gateway);
  sandbox = new ComputeSandbox(gateway.sandboxUrl);
  at = { operator, sandboxUrl: gateway.sandboxUrl };
});
afterAll(() => gateway.stop());

/** What ran, and what was charged for it: to the nano-USD, rounded up a period. */
async function expectExact({ seat, tenant }: Renter, periods = 1): Promise<void> {
  const executions = await sandbox.executions(seat);
  const nano = executions.reduce((sum, { ms, gpus }) => sum + (PRICE * 1e9 * gpus * ms) / HOUR_MS, 0);
  const charged = 0 - (await tenant.charges()).reduce((sum, { amount_usd }) => sum + amount_usd, 0);
  // Upstream's clock and ours stop the run at the request; they may differ by what the call took.
  expect(charged).toBeGreaterThan(nano / 1e9 - (PRICE * allowedMs(400)) / HOUR_MS);
  expect(charged).toBeLessThanOrEqual(nano / 1e9 + periods * 1e-9);
  expect(await tenant.audit()).toMatchObject({ problems: [], open_holds: 0, held_usd: 0 });
}

/** The gateway sees now what upstream shows. */
const reconcile = ({ seat }: Renter) => operator.call("POST", `/compute/${seat}/reconcile`);
const rent = (balanceUsd: number, fields: Record<string, unknown> = {}) => Renter.make(at, balanceUsd, fields);

describe.concurrent("an instance", () => {
  test("is held for, billed from its start to the request that ends it, and the rest comes back", async () => {
    const renter = await rent(20);
    const launched = await renter.launch({}, {});
    expect(launched).toMatchObject({ status: 202, body: { id: 1000, name: "mine", status: "pending" } });
    expect(launched.body.created_by_user_id).toBe(7);
    expect(await renter.tenant.audit()).toMatchObject({ open_holds: 1, held_usd: PRICE });
    await renter.until(1000, "running");
    expect(await renter.send("POST", "/gpu-instances/1000/terminate")).toMatchObject({
      status: 202,
      body: { status: "terminating_requested" },
    });
    const ended = await renter.until(1000, "terminated");
    expect(ended.termination_reason).toBe("user");
    await expectExact(renter);
    const [execution] = await sandbox.executions(renter.seat);
    expect(execution).toMatchObject({ reason: "user", gpus: 1 });
    expect(execution?.name).toMatch(/^tg[0-9a-f]{6}-\d+-1000-[a-z2-7]{6}$/);
    expect((await renter.send("DELETE", "/gpu-instances/1000")).status).toBe(204);
    expect((await renter.send("GET", "/gpu-instances")).body).toEqual([]);
  });

  test("by the hour is renewed while money lasts, and stopped at zero", async () => {
    const renter = await rent(PRICE * 1.5);
    await renter.launch();
    const ended = await renter.until(1000, "terminated");
    expect(ended.termination_reason).toBe("credit_depleted");
    const charges = await renter.tenant.charges();
    expect(charges.map(({ amount_usd }) => amount_usd).sort((a, b) => a - b)).toEqual([-PRICE, -PRICE / 2]);
    expect(await renter.tenant.audit()).toMatchObject({ ok: true, open_holds: 0, balance_usd: 0 });
    const [execution] = await sandbox.executions(renter.seat);
    expect(execution?.ms).toBeGreaterThanOrEqual(1.5 * HOUR_MS);
    expect(execution?.ms).toBeLessThan(1.5 * HOUR_MS + 3_000);
  });

  test("topped up before its money is used up runs on, to the call that ends it", async () => {
    const renter = await rent(PRICE * 1.8);
    await renter.launch();
    await eventually("its second hour is short", async () => (await renter.tenant.charges()).length === 1, {
      withinMs: 20_000,
    });
    await operator.call("POST", `/accounts/${renter.tenant.account}/credits`, {
      kind: "top_up",
      amount_usd: 5 * PRICE,
      reference: "at the last",
    });
    await eventually("its third hour", async () => (await renter.tenant.charges()).length >= 2, { withinMs: 20_000 });
    expect((await renter.get(1000)).status).toBe("running");
    expect((await renter.send("POST", "/gpu-instances/1000/terminate")).status).toBe(202);
    expect((await renter.until(1000, "terminated")).termination_reason).toBe("user");
    await expectExact(renter, 4);
  });

  test("that is preempted pays nothing until it runs again", async () => {
    const renter = await rent(50);
    await renter.launch({ interruptible: true, estimated_duration_hours: 5 });
    await renter.until(1000, "running");
    const [machine] = await sandbox.executions(renter.seat);
    await sandbox.force(machine?.id ?? 0, "preempted");
    await reconcile(renter);
    expect((await renter.get(1000)).status).toBe("preempted");
    expect((await renter.send("POST", "/gpu-instances/1000/terminate")).status).toBe(409);
    const charged = await renter.tenant.charges();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(await renter.tenant.charges()).toEqual(charged);
    await sandbox.force(machine?.id ?? 0, "resumed");
    await reconcile(renter);
    expect((await renter.get(1000)).status).toBe("running");
    expect((await renter.send("POST", "/gpu-instances/1000/terminate")).status).toBe(202);
    await renter.until(1000, "terminated");
    const [ran] = await sandbox.executions(renter.seat);
    const ms =
      (await renter.tenant.charges()).reduce((sum, one) => sum - one.amount_usd, 0) / (INTERRUPTIBLE / HOUR_MS);
    // Its time is what it was seen to run: less by what passed between a state and the list that showed it.
    expect(ms).toBeLessThanOrEqual((ran?.ms ?? 0) + 1);
    expect(ms).toBeGreaterThan(0);
    expect(await renter.tenant.audit()).toMatchObject({ problems: [], open_holds: 0 });
  });

  test("whose extension, PATCH and end get no answer, or a late one, has each of them once", async () => {
    const renter = await rent(100);
    await renter.launch({ estimated_duration_hours: 20 });
    const path = "/gpu-instances/1000";
    const changes: readonly (readonly [string, string, unknown])[] = [
      ["POST", `${path}/extend`, { hours: 2 }],
      ["PATCH", path, { container_image: "img:2" }],
      ["POST", `${path}/terminate`, undefined],
    ];
    for (const [index, [method, of, body]] of changes.entries()) {
      await renter.until(1000, "running");
      const fault = index === 1 ? { fault: "late", ms: 1_500 } : { fault: "lost_answer" };
      await sandbox.fault(renter.seat, { ...fault, times: 1 }, { method });
      // One change at a time: 409 until a list has shown the one before.
      await eventually(`${method} ${of}`, async () => (await renter.send(method, of, body)).status < 300, {
        withinMs: 30_000,
        everyMs: 1_500,
      });
    }
    const ended = await renter.until(1000, "terminated");
    expect(ended).toMatchObject({ termination_reason: "user" });
    const [ran, ...others] = await sandbox.executions(renter.seat);
    expect([ran?.hours, ran?.image, others]).toEqual([22, "img:2", []]);
    await expectExact(renter, 22);
  });

  test("for a fixed time is held whole and ends by itself, paid to its end and no further", async () => {
    const renter = await rent(20);
    await renter.launch({ estimated_duration_hours: 1, gpu_count: 2 });
    expect(await renter.tenant.audit()).toMatchObject({ held_usd: 2 * PRICE });
    const ended = await renter.until(1000, "terminated");
    expect(ended.termination_reason).toBe("duration_expired");
    expect((await renter.tenant.charges()).map(({ amount_usd }) => amount_usd)).toEqual([-2 * PRICE]);
  });

  test("whose launch got no answer is found by its tag: one machine, one charge", async () => {
    const renter = await rent(20);
    await sandbox.fault(renter.seat, { fault: "lost_answer", times: 1 }, { method: "POST" });
    expect(await renter.launch()).toMatchObject({ status: 202, body: { status: "pending" } });
    await renter.until(1000, "running");
    await renter.send("POST", "/gpu-instances/1000/terminate");
    await renter.until(1000, "terminated");
    expect(await sandbox.executions(renter.seat)).toHaveLength(1);
    await expectExact(renter);
  });

  test("that upstream refuses costs nothing, and its words reach the tenant without our names", async () => {
    const renter = await rent(100);
    await sandbox.region(renter.region, { gpu_type: `GPU ${renter.region}`, hourly_rate_usd: 2, taken_gpus: 1_000 });
    const refused = await renter.launch({ gpu_count: 8 });
    expect(refused.status).toBe(409);
    expect(JSON.stringify(refused.body)).not.toMatch(/tg[0-9a-f]{6}-/);
    expect(await renter.tenant.audit()).toMatchObject({ open_holds: 0, held_usd: 0 });
    expect((await renter.send("GET", "/gpu-instances")).body).toEqual([]);
  });

  test("that cannot be paid is 402, and upstream hears nothing of it", async () => {
    const renter = await rent(PRICE - 0.01);
    expect((await renter.launch()).status).toBe(402);
    expect((await sandbox.calls(renter.seat)).filter(({ method }) => method !== "GET")).toEqual([]);
  });

  test("launched twice under one Idempotency-Key is one", async () => {
    const renter = await rent(50);
    const headers = { "idempotency-key": "once" };
    const first = await renter.launch({}, headers);
    const again = await renter.launch({}, headers);
    expect([first.body.id, again.body.id]).toEqual([1000, 1000]);
    expect((await renter.launch({ name: "other" }, headers)).status).toBe(409);
    expect(await sandbox.executions(renter.seat)).toHaveLength(1);
    await renter.until(1000, "running");
    await renter.send("POST", "/gpu-instances/1000/terminate");
  });
});

describe.concurrent("who may", () => {
  test("a key without the scope, and an account without access, are told so", async () => {
    const renter = await rent(1);
    const plain = await operator.key(renter.tenant.account, {});
    const ask = (key: string) => fetch(`${gateway.url}/gpu-instances`, { headers: { authorization: `Bearer ${key}` } });
    const scopeless = await ask(plain.key);
    expect([scopeless.status, await scopeless.text()]).toEqual([403, expect.stringContaining("scope")]);
    await operator.call("PATCH", `/accounts/${renter.tenant.account}`, { compute_enabled: false });
    const disabled = await ask(renter.tenant.key);
    expect([disabled.status, await disabled.text()]).toEqual([403, expect.stringContaining("Compute API access")]);
  });

  test("sixty calls a minute of a key, exactly, however many come at once", async () => {
    const renter = await rent(1);
    const answers = await Promise.all(Array.from({ length: 64 }, () => renter.send("GET", "/gpu-instances")));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(60);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(4);
    expect(Number(refused[0]?.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("two tenants on one shared upstream see and reach nothing of each other", async () => {
    const one = await rent(20, { shared: true });
    const other = await Renter.on(at, one.seat, one.region, 20);
    await one.launch({ name: "same" });
    expect((await other.send("GET", "/gpu-instances")).body).toEqual([]);
    const foreign = await other.send("GET", "/gpu-instances/1000");
    const random = await other.send("GET", "/gpu-instances/999999");
    expect([foreign.status, foreign.body]).toEqual([random.status, random.body]);
    const before = (await sandbox.calls(one.seat)).filter(({ method }) => method !== "GET").length;
    expect((await other.send("POST", "/gpu-instances/1000/terminate")).status).toBe(404);
    expect((await sandbox.calls(one.seat)).filter(({ method }) => method !== "GET")).toHaveLength(before);
    const ssh = { ssh_enabled: true, ssh_public_key: ED25519 };
    const both = [other.launch({ name: "same", ...ssh }), one.launch({ name: "keyed", ...ssh })];
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([202, 202]);
    expect((await other.send<Instance[]>("GET", "/gpu-instances")).body.map(({ id }) => id)).toEqual([1000]);
    expect(await sandbox.executions(one.seat)).toHaveLength(3);
    // Each launch brought the same key, found none of it there, and took it away again.
    const keyCalls = async () =>
      (await sandbox.calls(one.seat)).flatMap(({ method, path, executed }) =>
        executed && (method === "DELETE" || (method === "POST" && path === "/gpu-instances")) ? [method] : [],
      );
    await eventually("the second key is deleted", async () => (await keyCalls()).length === 5);
    expect(await keyCalls()).toEqual(["POST", "POST", "DELETE", "POST", "DELETE"]);
  });

  test("an upstream that is not shared seats one account", async () => {
    const one = await rent(1);
    const second = await operator.tenant({ compute_enabled: true });
    const taken = await operator.ask("PATCH", `/accounts/${second.account}`, { compute_upstream: one.seat });
    expect(taken).toMatchObject({ status: 409, body: { error: { code: "seat_taken" } } });
  });
});

test("the operator sees what runs, for whom and at what cost, and stops it", async () => {
  const renter = await rent(20);
  await renter.launch();
  await renter.until(1000, "running");
  const path = `/accounts/${renter.tenant.account}/compute`;
  expect(await operator.call("GET", path)).toMatchObject({
    upstream: renter.seat,
    data: [{ id: 1000, status: "running", gpus: 1, hourly_price_usd: PRICE, hourly_cost_usd: 2, held_usd: PRICE }],
  });
  const seen = await operator.call<{ seen: unknown[] }>("POST", `/compute/${renter.seat}/reconcile`);
  expect(seen).toMatchObject({
    upstream: renter.seat,
    burn_usd_per_hour: 2,
    seen: [{ kind: "instance", status: "running" }],
  });
  expect(await operator.call("POST", `${path}/stop`)).toEqual({ stopping: [1000] });
  expect((await renter.until(1000, "terminated")).termination_reason).toBe("admin");
  await expectExact(renter);
});

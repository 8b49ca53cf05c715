/**
 * The gateway killed with -9 at each named point of a call's way, and under the load of hot keys with leases, and
 * started again on the same state. `KILL_ROUNDS=9` does the points nine times over. In short it does each third.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { IN_FULL, partOf } from "../../support/in-full.ts";
import {
  atOneUsdAMillion,
  atRest,
  lostLeases,
  mismatches,
  unrecordedExecutions,
  usageEventsOf,
} from "../../support/joined-books.ts";
import {
  type AlertPoint,
  FILES,
  KILL_POINTS,
  KillSwitch,
  LEASE_KILL_POINTS,
  type LeasePoint,
  pointsIn,
  TRACE,
  withPoints,
} from "../../support/kill-points.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";

/** No lease is granted where holds live shorter. */
const HOLD_TTL_MS = 5_000;
const root = join(import.meta.dirname, "../../..");

const POINTS = Object.keys(KILL_POINTS) as (keyof typeof KILL_POINTS)[];
const rounds = Array.from({ length: Number(process.env.KILL_ROUNDS ?? 1) }, () => partOf(POINTS, 3)).flat();

/** `webhook-id` and body of all that a receiver of alerts got, by path. */
const heard: { readonly path: string; readonly id: string; readonly body: string }[] = [];
const receiver = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  heard.push({ path: request.url ?? "", id: String(request.headers["webhook-id"]), body });
  response.writeHead(204).end();
});
let hooks: string;
let killSwitch: KillSwitch;
let tollgate: TollgateProcess;
let operator: Operator;
const tenants: Tenant[] = [];
const models: string[] = [];

beforeAll(async () => {
  killSwitch = await KillSwitch.start();
  const TEST_BUILD_PLUGIN = join(root, "test/support/kill-points.ts");
  await once(receiver.listen(0, "127.0.0.1"), "listening");
  hooks = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const env = {
    // The calls below are few enough to be admitted by their object, except under load.
    LEASES: "on",
    HOLD_TTL_MS: String(HOLD_TTL_MS),
    TEST_BUILD_PLUGIN,
    KILL_SWITCH_URL: killSwitch.url,
    WEBHOOK_TEST_ORIGINS: hooks,
  };
  tollgate = await TollgateProcess.start({ env });
  operator = new Operator(tollgate);
});
afterAll(async () => {
  await tollgate?.stop();
  killSwitch?.stop();
  receiver.closeAllConnections();
  receiver.close();
});

test.each(rounds)("killed %s: it serves again, and what it had said stands", async (name) => {
  const tenant = await operator.tenant();
  const model = await operator.instance(tenant);
  tenants.push(tenant);
  models.push(model);
  const first = await tenant.chat({ model, max_tokens: 5, sandbox_output_tokens: 5 });
  expect(first.status).toBe(200);
  const before = await tenant.ledger();

  const reached = killSwitch.armed(name, name === "mid stream" ? 6 : 0);
  // Whole, streamed, and streamed on the runtime's own pipe; which of them stands at the point, the point decides.
  const ways = [{}, { stream: true }, { stream: true, stream_options: { include_usage: true } }];
  const calls = ways.map((way) =>
    tenant
      .chat({ model, max_tokens: 30, sandbox_output_tokens: 30, sandbox_frame_delay_ms: 15, ...way })
      .then(({ status }) => status)
      .catch(() => "broken"),
  );
  await reached;
  await tollgate.kill9Workerd();
  expect(await Promise.all(calls)).not.toContain(500);

  expect((await tenant.ledger()).slice(-before.length)).toEqual(before);
  // What a killed process was busy with may hold its first calls up on a slow machine.
  await eventually("it serves again", async () => {
    const { status } = await tenant.chat({ model, max_tokens: 5, sandbox_output_tokens: 5 });
    return status === 200 || undefined;
  });
});

test("killed just before an end that comes after its hold's expiry: what expiry charged stands, beside the loss", async () => {
  const tenant = await operator.tenant();
  const model = await operator.instance(tenant);
  tenants.push(tenant);
  models.push(model);
  const reached = killSwitch.armed("before its end is told");
  const body = { model, max_tokens: 30, sandbox_output_tokens: 30, sandbox_frame_delay_ms: 60, stream: true };
  const call = tenant.chat(body).catch(() => "broken");
  await reached;
  // The end waits, and nobody renews the hold any more.
  const expired = await eventually(
    "the hold expires",
    async () => {
      const audit = await tenant.audit();
      return audit.open_holds === 0 && audit;
    },
    { withinMs: HOLD_TTL_MS + 5_000 },
  );
  expect(expired.operator_loss_usd).toBeGreaterThan(0);
  const before = await tenant.ledger();
  await tollgate.kill9Workerd();
  await call;
  expect(await tenant.ledger()).toEqual(before);
  const { operator_loss_usd, ok, problems } = await tenant.audit();
  expect({ operator_loss_usd, ok, problems }).toEqual({
    operator_loss_usd: expired.operator_loss_usd,
    ok: true,
    problems: [],
  });
});

/** Calls of three clients on one key, each as soon as the one before was answered, until workerd is gone. */
async function hotCalls(tenant: Tenant, model: string, isOver: () => boolean): Promise<void> {
  const client = async (at: number) => {
    for (let calls = at; !isOver(); calls++) {
      const way = [{}, { stream: true }, { stream: true, stream_options: { include_usage: true } }][calls % 3];
      const tokens = 1 + (calls % 20);
      const body = { model, ...way, max_tokens: tokens, sandbox_output_tokens: tokens };
      await tenant.chat(body).catch(() => sleep(20));
    }
  };
  await Promise.all(Array.from({ length: 3 }, (_, at) => client(at)));
}

const POINTS_OF_LEASES = Object.keys(LEASE_KILL_POINTS) as LeasePoint[];
const KILLS = IN_FULL ? 100 : 3;
/** At a named point, and at any moment. */
const kills = Array.from({ length: KILLS }, (_, at) => POINTS_OF_LEASES[at % (POINTS_OF_LEASES.length + 1)] ?? null);

test("killed under load with leases, over and over: no more is lost than was leased or held", async () => {
  const hot: { tenant: Tenant; model: string }[] = [];
  for (let made = 0; made < 2; made++) {
    const tenant = await operator.tenant({ balance_usd: 100 });
    hot.push({ tenant, model: await operator.instance(tenant) });
  }
  for (const point of kills) {
    let over = false;
    const reached = point ? killSwitch.armed(point, 2) : sleep(500 + Math.random() * 1_500);
    const load = Promise.all(hot.map(({ tenant, model }) => hotCalls(tenant, model, () => over)));
    await reached;
    await tollgate.kill9Workerd();
    over = true;
    await load;
  }
  for (const { tenant, model } of hot) {
    const { operator_loss_usd } = await atRest(tenant, HOLD_TTL_MS + 15_000);
    const executions = await operator.sandbox.executions(model);
    expect(await mismatches(tollgate.stateDir, tenant, executions)).toEqual([]);
    expect(unrecordedExecutions(tollgate.stateDir, [tenant], executions)).toEqual([]);
    const events = usageEventsOf(tollgate.stateDir, tenant.account);
    expect(lostLeases(events).length).toBeGreaterThan(0);
    const usedUsd = new Map(executions.map((one) => [one.request_id, atOneUsdAMillion(one) / 1e9]));
    const exact = events.filter(({ source }) => source === "exact");
    const dearer = exact.filter((one) => one.price_nano_usd / 1e9 > (usedUsd.get(one.event_id) ?? 0) + 1e-12);
    expect(dearer).toEqual([]);
    // What was executed was paid, or is in the operator's loss.
    const sum = (amounts: readonly number[]) => amounts.reduce((all, one) => all + one, 0);
    const paidUsd = -sum((await tenant.charges()).map(({ amount_usd }) => amount_usd));
    expect(sum([...usedUsd.values()]) - paidUsd).toBeLessThanOrEqual(operator_loss_usd + 1e-9);
  }
}, 1_800_000);

const ALERT_POINTS: readonly AlertPoint[] = IN_FULL
  ? ["settled", "outbox written", "consumer wrote", "alerts stored", "claimed", "received"]
  : ["outbox written", "received"];

test.each(ALERT_POINTS)("killed %s: an alert is decided once, and comes at least once under one id", async (name) => {
  const tenant = await operator.tenant({}, { role: "owner" });
  const model = await operator.instance(tenant, { model: { max_output_tokens: 4_000 } });
  tenants.push(tenant);
  models.push(model);
  const call = () => tenant.chat({ model, max_tokens: 2_000, sandbox_output_tokens: 2_000 });
  expect((await call()).status).toBe(200);
  const { balance_usd } = await atRest(tenant, 10_000);
  // The second call makes 83 % of it.
  await operator.call("PATCH", `/accounts/${tenant.account}`, { max_budget: ((1 - balance_usd) * 2.4).toFixed(9) });
  const url = `${hooks}/${tenant.account}`;
  const events = ["budget.threshold", "credit.booked"];
  const webhook = await operator.call<{ id: string }>("POST", "/webhooks", { url, events });
  const reached = killSwitch.armed(name);
  const answered = call().catch(() => "broken");
  await reached;
  await tollgate.kill9Workerd();
  await answered;

  const own = () => heard.filter(({ path }) => url.endsWith(path));
  const kinds = () =>
    own()
      .map(({ body }) => JSON.parse(body))
      .map(({ type, data }) => `${type} ${data.percent}`);
  let credits = 0;
  await eventually(
    "both parts of the budget are heard of",
    async () => {
      // Whatever is raised next takes along what broke off.
      const credit = { amount_usd: 0.1, reference: `${tenant.account} ${credits++}` };
      await operator.call("POST", `/accounts/${tenant.account}/credits`, credit);
      // Who was killed after the receiver had it sends it again.
      const again = name !== "received" || kinds().length > new Set(own().map(({ id }) => id)).size;
      return again && [50, 80].every((percent) => kinds().includes(`budget.threshold ${percent}`));
    },
    { withinMs: 20_000, everyMs: 500 },
  );
  const query = `/alerts?account=${tenant.account}&type=budget.threshold`;
  const { data } = await operator.call<{ data: { id: string; data: { percent: number } }[] }>("GET", query);
  expect(data.map((alert) => alert.data.percent).sort()).toEqual([50, 80]);
  const ids = new Set(
    own()
      .filter(({ body }) => body.includes("budget.threshold"))
      .map(({ id }) => id),
  );
  expect([...ids].sort()).toEqual(data.map(({ id }) => id).sort());
  expect(new Set(own().map(({ id, body }) => id + body)).size).toBe(new Set(own().map(({ id }) => id)).size);
  // It hears of every account: the next kill is to meet the next test's own.
  await operator.call("DELETE", `/webhooks/${webhook.id}`);
});

test("afterwards each execution is billed once, or lost once; nothing is held; nothing waits", async () => {
  const executions = await operator.sandbox.executions(...models);
  expect(executions.length).toBeGreaterThanOrEqual(2 * rounds.length);
  for (const tenant of tenants) {
    await atRest(tenant, HOLD_TTL_MS + 15_000);
    expect(await mismatches(tollgate.stateDir, tenant, executions)).toEqual([]);
  }
  const outcomes = tenants.flatMap(({ account }) => usageEventsOf(tollgate.stateDir, account));
  expect(outcomes.map(({ outcome }) => outcome)).toContain("expired");
  expect(unrecordedExecutions(tollgate.stateDir, tenants, executions)).toEqual([]);
});

test("each point stands in a test's build, and in no source", () => {
  for (const file of FILES) {
    const source = readFileSync(join(root, "src", file), "utf8");
    expect(source).not.toContain(TRACE);
    expect(withPoints(file, source, "http://test").split(TRACE)).toHaveLength(pointsIn(file).length + 1);
  }
});

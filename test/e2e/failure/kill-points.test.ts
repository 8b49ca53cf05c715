/**
 * The gateway killed with -9 at each named point of a call's way, and started again on the same state. `KILL_ROUNDS=9`
 * does it nine times over.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { atRest, mismatches, unrecordedExecutions, usageEventsOf } from "../../support/joined-books.ts";
import { FILES, KILL_POINTS, KillSwitch, pointsIn, TRACE, withPoints } from "../../support/kill-points.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import type { Tenant } from "../../support/tenant.ts";

const HOLD_TTL_MS = 2_000;
const root = join(import.meta.dirname, "../../..");

const POINTS = Object.keys(KILL_POINTS) as (keyof typeof KILL_POINTS)[];
const rounds = Array.from({ length: Number(process.env.KILL_ROUNDS ?? 1) }, () => POINTS).flat();

let killSwitch: KillSwitch;
let tollgate: TollgateProcess;
let operator: Operator;
const tenants: Tenant[] = [];
const models: string[] = [];

beforeAll(async () => {
  killSwitch = await KillSwitch.start();
  const TEST_BUILD_PLUGIN = join(root, "test/support/kill-points.ts");
  const env = { HOLD_TTL_MS: String(HOLD_TTL_MS), TEST_BUILD_PLUGIN, KILL_SWITCH_URL: killSwitch.url };
  tollgate = await TollgateProcess.start({ env });
  operator = new Operator(tollgate);
});
afterAll(async () => {
  await tollgate?.stop();
  killSwitch?.stop();
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

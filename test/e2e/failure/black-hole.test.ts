/**
 * Upstreams that say nothing at all. One that nobody can connect to costs a try `connect_ms`, one that is connected and
 * silent costs a stream `first_byte_ms`, and after three in a row neither is asked for a while. One that thinks is
 * waited for; an answer that is not streamed is waited for `answer_ms`, and asked for once.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BlackHole } from "../../support/black-hole.ts";
import { sleep } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import { allowedMs } from "../../support/slowness.ts";
import { TcpProxy } from "../../support/tcp-proxy.ts";
import type { Tenant } from "../../support/tenant.ts";
import { completion, ScriptedUpstream } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator, sandboxUrl } = world();
let tenant: Tenant;
let hole: BlackHole;
let silent: TcpProxy;

beforeAll(async () => {
  tenant = await operator.tenant();
  hole = await BlackHole.open();
  silent = await TcpProxy.start(sandboxUrl);
  await silent.become({ kind: "half_open" });
});
afterAll(async () => {
  await hole.close();
  await silent.stop();
});

const STRIKES = 3;
/** Of a call that asks no silent target, on a machine that others use too. */
const QUICK_MS = 400;

/** What calls cost, one after the other, that name this upstream first and the sandbox second. */
async function timesOf(url: string, timeouts: Record<string, number>, calls: number, streams?: boolean) {
  const owner = await operator.tenant();
  const upstream = await operator.upstream(url, { timeouts });
  const first = await operator.model(unique("silent"), { upstream });
  const second = await operator.instance(owner);
  const alias = await operator.alias(owner, [
    { upstream, model: first },
    { upstream: "sandbox", model: second },
  ]);
  const times: number[] = [];
  for (let call = 0; call < calls; call++) {
    const startedAtMs = Date.now();
    const answer = await owner.chat({ model: alias, stream: streams ?? call % 2 === 1 });
    times.push(Date.now() - startedAtMs);
    expect(answer.status).toBe(200);
  }
  // One execution and one charge for each, whatever the first target may have had.
  expect(await operator.sandbox.executions(first, second)).toHaveLength(calls);
  expect(await owner.charges()).toHaveLength(calls);
  expect(await owner.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
  return times;
}

const silences: [string, () => string, Record<string, number>, number, true?][] = [
  ["nobody can connect to costs connect_ms", () => hole.url, { connect_ms: 1_000, first_byte_ms: 20_000 }, 1_000],
  [
    "connects and is silent costs a stream first_byte_ms",
    () => silent.url,
    { connect_ms: 200, first_byte_ms: 800 },
    800,
    true,
  ],
];
test.each(silences)("an upstream that %s, three times", async (_name, url, timeouts, costsMs, streams) => {
  const times = await timesOf(url(), timeouts, STRIKES + 2, streams);
  for (const ms of times.slice(0, STRIKES)) {
    expect(ms).toBeGreaterThanOrEqual(costsMs - 20);
    expect(ms).toBeLessThan(costsMs + allowedMs(1_000));
  }
  expect(Math.min(...times.slice(STRIKES))).toBeLessThan(allowedMs(QUICK_MS));
  expect(Math.max(...times.slice(STRIKES))).toBeLessThan(allowedMs(costsMs));
});

test("the only target cannot be connected to: 503 after connect_ms, nothing charged or held", async () => {
  const owner = await operator.tenant();
  const upstream = await operator.upstream(hole.url, { timeouts: { connect_ms: 300 } });
  const model = await operator.model(unique("silent"), { upstream });
  const answer = await owner.chat({ model });
  expect([answer.status, answer.body]).toMatchObject([503, { error: { code: "no_healthy_upstream" } }]);
  expect(await owner.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0, balance_usd: 1 });
});

test("an upstream that thinks for longer than connect_ms is waited for, and asked once", async () => {
  const thinking = await ScriptedUpstream.start(async (exchange) => {
    await sleep(900);
    exchange.answer(completion("at last"));
  });
  const upstream = await operator.upstream(thinking.url, { timeouts: { connect_ms: 200, first_byte_ms: 5_000 } });
  const model = await operator.model(unique("thinking"), { upstream });
  const answer = await tenant.chat({ model });
  expect(answer.status).toBe(200);
  expect(thinking.exchanges).toHaveLength(1);
  await thinking.stop();
});

test("an answer that takes longer than answer_ms: executed once, 504, no second target, the operator's loss", async () => {
  const owner = await operator.tenant();
  const upstream = await operator.upstream(sandboxUrl, { timeouts: { first_byte_ms: 100, answer_ms: 700 } });
  const first = await operator.instance(owner, { upstreams: [upstream] });
  const second = await operator.instance(owner);
  const quick = await operator.instance(owner, { upstreams: [upstream] });
  await operator.sandbox.fault(first, { fault: "slow", ms: 2_000 });
  const alias = await operator.alias(owner, [
    { upstream, model: first },
    { upstream: "sandbox", model: second },
  ]);
  const startedAtMs = Date.now();
  const answer = await owner.chat({ model: alias });
  expect([answer.status, answer.body]).toMatchObject([504, { error: { code: "upstream_timeout" } }]);
  expect(answer.headers.get("x-should-retry")).toBe("false");
  expect(Date.now() - startedAtMs).toBeGreaterThanOrEqual(650);
  expect((await operator.sandbox.calls(first, second)).map(({ model }) => model)).toEqual([first]);
  const audit = await owner.audit();
  expect(audit).toMatchObject({ ok: true, open_holds: 0, held_usd: 0, balance_usd: 1 });
  expect(audit.operator_loss_usd).toBeGreaterThan(0);

  // One that keeps within it though it takes longer than a stream's first byte may is served.
  await operator.sandbox.fault(quick, { fault: "slow", ms: 300 });
  expect((await owner.chat({ model: quick })).status).toBe(200);
});

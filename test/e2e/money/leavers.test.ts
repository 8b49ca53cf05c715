/**
 * Clients that leave when there is nothing more to hear, and clients that stay and take nothing. On both ways of
 * relaying: read one by one (the gateway asked for usage), and on the runtime's own pipe (the caller asked for it).
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { chatPost, RawClient } from "../../support/raw-client.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { Tenant } from "../../support/tenant.ts";
import { chunk, DONE, type Exchange, ScriptedUpstream, usageChunk } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator } = world();

const IDLE_MS = 700;
/** More than the pieces that are read before they pass, whatever they are. */
const OPENING = 20;

let upstream: ScriptedUpstream;
let upstreamId: string;
let script: (exchange: Exchange) => void | Promise<void>;

beforeAll(async () => {
  upstream = await ScriptedUpstream.start((exchange) => script(exchange));
  upstreamId = await operator.upstream(upstream.url, { timeouts: { idle_ms: IDLE_MS } });
});
afterAll(() => upstream.stop());

let models = 0;

/**
 * A target of its own, whose usage was read before: what one stream teaches of its target does not reach the others.
 */
async function scriptedModel(): Promise<string> {
  const name = `leavers-${upstreamId}-${models++}`;
  const model = await operator.model(name, { upstream: upstreamId, max_output_tokens: 1000 });
  const asked = script;
  script = (exchange) => exchange.stream(word(0) + usageChunk(1, 1) + DONE);
  const first = await (await operator.tenant()).post(bodyOf(model, true));
  expect(await first.text()).toContain("[DONE]");
  script = asked;
  return model;
}

const ways: [string, boolean][] = [
  ["read one by one", false],
  ["on the runtime's own pipe", true],
];
const bodyOf = (model: string, usage: boolean, fields: object = {}) => ({
  model,
  messages: [{ role: "user", content: "Hi" }],
  stream: true,
  max_tokens: 500,
  ...(usage && { stream_options: { include_usage: true } }),
  ...fields,
});

const word = (index: number) => chunk({ content: `word-${index} ` }, { usage: null });
const finish = (index = 0) => chunk({}, { choices: [{ index, delta: {}, finish_reason: "stop" }], usage: null });

/** The opening, one by one, so that the pipe takes over. */
async function begin(exchange: Exchange): Promise<void> {
  exchange.begin();
  for (let index = 0; index < OPENING; index++) {
    await exchange.send(word(index));
    await sleep(15);
  }
}

/** The last of so many. */
const chargeOf = async (tenant: Tenant, count = 1) => {
  const charges = await eventually("the charge", async () => {
    const all = await tenant.charges();
    return all.length >= count && all;
  });
  expect(charges).toHaveLength(count);
  const charge = charges.at(-1);
  return Math.round(-(charge?.amount_usd ?? 0) * 1e6);
};

describe.each(ways)("a stream %s, whose client leaves", (_way, usage) => {
  test("when it has seen the finish_reason: its usage is waited for, and charged exactly", async () => {
    const tenant = await operator.tenant();
    const left = Promise.withResolvers<void>();
    script = async (exchange) => {
      await begin(exchange);
      await exchange.send(finish());
      await left.promise;
      await sleep(300);
      // The connection stays open: nobody waits for its end.
      await exchange.send(usageChunk(700, 80) + DONE);
    };
    const client = new RawClient(operator.url, chatPost(tenant.key, bodyOf(await scriptedModel(), usage)));
    await client.until('"finish_reason":"stop"');
    client.reset();
    const leftAtMs = Date.now();
    left.resolve();
    expect(await chargeOf(tenant)).toBe(780);
    expect(Date.now() - leftAtMs).toBeLessThan(allowedMs(3_000));
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, operator_loss_usd: 0 });
  });

  test("of the service, at the same moment: the ledger says what its log of executions says", async () => {
    const tenant = await operator.tenant();
    const model = await operator.instance(tenant);
    expect((await tenant.chat(bodyOf(model, true, { max_tokens: 1 }))).status).toBe(200);
    const fields = { sandbox_output_tokens: 40, sandbox_frame_delay_ms: 20, max_tokens: 40 };
    const client = new RawClient(operator.url, chatPost(tenant.key, bodyOf(model, usage, fields)));
    await client.until('"finish_reason":"', 6_000);
    client.reset();
    const charged = await chargeOf(tenant, 2);
    const [, execution] = await operator.sandbox.executions(model);
    const { input_tokens = 0, output_tokens = 0 } = execution?.usage ?? {};
    expect([charged, output_tokens]).toEqual([input_tokens + output_tokens, 40]);
  });

  test("when one of two choices has finished: the upstream is closed within a second", async () => {
    const tenant = await operator.tenant();
    const reached = Promise.withResolvers<Exchange>();
    script = async (exchange) => {
      await begin(exchange);
      await exchange.send(finish(1));
      reached.resolve(exchange);
    };
    const body = bodyOf(await scriptedModel(), usage, { n: 2 });
    const client = new RawClient(operator.url, chatPost(tenant.key, body));
    await client.until('"finish_reason":"stop"');
    const leftAtMs = Date.now();
    client.reset();
    expect((await (await reached.promise).closedEarly) - leftAtMs).toBeLessThan(allowedMs(1_000));
    expect(await chargeOf(tenant)).toBeGreaterThan(OPENING);
  });

  test("and whose engine goes on after a finish_reason: closed after 5 s, and charged for what was read", async () => {
    const tenant = await operator.tenant();
    const reached = Promise.withResolvers<Exchange>();
    script = async (exchange) => {
      await begin(exchange);
      await exchange.send(finish());
      reached.resolve(exchange);
      const closed = exchange.closedEarly.then(() => "closed" as const);
      for (let index = OPENING; index < 400; index++) {
        if ((await Promise.race([exchange.send(word(index)), closed])) === "closed") return;
        await sleep(50);
      }
    };
    const client = new RawClient(operator.url, chatPost(tenant.key, bodyOf(await scriptedModel(), usage)));
    await client.until('"finish_reason":"stop"');
    const leftAtMs = Date.now();
    client.reset();
    const keptMs = (await (await reached.promise).closedEarly) - leftAtMs;
    expect(keptMs).toBeGreaterThan(4_000);
    expect(keptMs).toBeLessThan(allowedMs(6_500));
    expect(await chargeOf(tenant)).toBeGreaterThan(OPENING * 2);
  });
});

describe.each(ways)("a stream %s, whose client stays and takes nothing", (_way, usage) => {
  test("is let go, and what was passed is charged", async () => {
    const tenant = await operator.tenant();
    const large = chunk({ content: "x".repeat(2_000) }, { usage: null });
    let sentBytes = 0;
    let closedAtMs = 0;
    script = async (exchange) => {
      await begin(exchange);
      void exchange.closedEarly.then((atMs) => (closedAtMs = atMs));
      while (closedAtMs === 0 && sentBytes < 60_000_000) {
        await Promise.race([exchange.send(large), exchange.closedEarly]);
        sentBytes += large.length;
      }
    };
    const client = new RawClient(operator.url, chatPost(tenant.key, bodyOf(await scriptedModel(), usage)));
    await client.until("word-1");
    client.pause();
    const pausedAtMs = Date.now();
    const charged = await eventually("the charge", async () => (await tenant.charges())[0], { withinMs: 25_000 });
    expect(Date.now() - pausedAtMs).toBeGreaterThan(IDLE_MS);
    await eventually("upstream is let go", () => closedAtMs > pausedAtMs);
    // It was held back, not read to the end; what was passed on is charged, up to the hold.
    expect(sentBytes).toBeLessThan(30_000_000);
    expect(charged.amount_usd).toBeLessThan(-500e-6);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0 });
    client.resume();
    await client.untilClosed(5_000);
    expect(client.text).not.toContain("[DONE]");
  });
});

/**
 * A call that outlives the longest time of a hold, on a gateway where that time is short: it is ended one TTL before,
 * and settled, so that nothing of it is ever booked by an expiry. `idle_ms` is far longer here: nothing else ends these
 * calls.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sleep } from "../../support/eventually.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";
import { chatPost, RawClient } from "../../support/raw-client.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";
import { chunk, DONE, type Exchange, ScriptedUpstream, usageChunk } from "../../support/upstream.ts";
import { usageEventOf } from "../../support/usage-events.ts";

const HOLD_TTL_MS = 1_600;
const LONGEST_HOLD_MS = 4_800;
/** When a call is ended, and how late a busy machine may be. */
const CUT_MS = LONGEST_HOLD_MS - HOLD_TTL_MS;
const LATE_MS = 1_500;
/** By then an open hold would have expired, and its expiry be booked. */
const EXPIRED_MS = LONGEST_HOLD_MS + HOLD_TTL_MS;

let tollgate: TollgateProcess;
let operator: Operator;
let upstream: ScriptedUpstream;
let upstreamId: string;
/** Of the calls under way, by what they say. */
const reached = new Map<string, Exchange>();

const word = (index: number) => chunk({ content: `word-${index} ` }, { usage: null });
const large = chunk({ content: "x".repeat(2_000) }, { usage: null });

async function script(exchange: Exchange): Promise<void> {
  const said = exchange.text.match(/"content":"([^"]+)"/)?.[1] ?? exchange.text.match(/"input":"([^"]+)"/)?.[1] ?? "";
  reached.set(said, exchange);
  if (said === "Hi") return exchange.stream(word(0) + usageChunk(1, 1) + DONE);
  if (said.startsWith("silent")) return;
  let closed = false;
  void exchange.closedEarly.then(() => (closed = true));
  if (said.startsWith("speech")) {
    exchange.begin("audio/pcm");
    while (!closed) await Promise.race([exchange.send(new Uint8Array(4_800)), exchange.closedEarly, sleep(100)]);
    return;
  }
  exchange.begin();
  for (let index = 0; !closed; index++) {
    const paused = said.startsWith("paused") && index > 20;
    await Promise.race([exchange.send(paused ? large : word(index)), exchange.closedEarly]);
    if (!paused) await sleep(index < 20 ? 10 : 50);
  }
}

beforeAll(async () => {
  const env = { HOLD_TTL_MS: String(HOLD_TTL_MS), LONGEST_HOLD_MS: String(LONGEST_HOLD_MS) };
  upstream = await ScriptedUpstream.start(script);
  tollgate = await TollgateProcess.start({ env });
  operator = new Operator(tollgate);
  const timeouts = { idle_ms: 60_000, first_byte_ms: 60_000, total_ms: 60_000 };
  upstreamId = await operator.upstream(upstream.url, { timeouts });
});
afterAll(async () => {
  await tollgate.stop();
  await upstream.stop();
});

let models = 0;
/** A target of its own, whose usage was read before: its streams may go to the runtime's own pipe. */
async function scriptedModel(tenant: Tenant): Promise<string> {
  const model = await operator.model(`endless-${models++}`, { upstream: upstreamId, max_output_tokens: 1_000 });
  const first = await tenant.post(bodyOf(model, "Hi", true));
  expect(await first.text()).toContain("[DONE]");
  return model;
}

const bodyOf = (model: string, said: string, usage: boolean, fields: object = {}) => ({
  model,
  messages: [{ role: "user", content: said }],
  stream: true,
  max_tokens: 900,
  ...(usage && { stream_options: { include_usage: true } }),
  ...fields,
});

/** Nothing of the call was booked but one charge, long after its hold would have expired. */
async function chargeAtRest(tenant: Tenant, startedAtMs: number, calls: number): Promise<number> {
  await sleep(Math.max(0, startedAtMs + EXPIRED_MS - Date.now()));
  const charges = await tenant.charges();
  expect(charges).toHaveLength(calls);
  const audit = await tenant.audit();
  expect(audit).toMatchObject({ ok: true, open_holds: 0, held_usd: 0, operator_loss_usd: 0, problems: [] });
  return Math.round(-(charges.at(-1)?.amount_usd ?? 0) * 1e6);
}

const ways: [string, boolean][] = [
  ["read one by one", false],
  ["on the runtime's own pipe", true],
];
const inTime = (ms: number) => {
  expect(ms).toBeGreaterThan(CUT_MS - 200);
  expect(ms).toBeLessThan(CUT_MS + allowedMs(LATE_MS));
};

describe.concurrent("a call that outlives the longest hold", () => {
  test.each(ways)("a stream %s: ended, its upstream closed, charged for what was delivered", async (way, usage) => {
    const tenant = await operator.tenant();
    const model = await scriptedModel(tenant);
    const startedAtMs = Date.now();
    const client = new RawClient(operator.url, chatPost(tenant.key, bodyOf(model, `endless ${way}`, usage)));
    await client.untilClosed(CUT_MS + LATE_MS);
    inTime(Date.now() - startedAtMs);
    expect(client.text).toContain('"upstream_error"');
    expect(client.text).not.toContain("[DONE]");
    inTime(((await reached.get(`endless ${way}`)?.closedEarly) ?? 0) - startedAtMs);

    const charged = await chargeAtRest(tenant, startedAtMs, 2);
    const delivered = client.text.match(/word-\d+ /g) ?? [];
    // Enough of them that a charge for the call as a whole would be seen; how many come in time is the machine's
    // matter.
    expect(delivered.length).toBeGreaterThan(10);
    // Own count: a quarter of the bytes that are neither taken nor set by the gateway, and of the text.
    const { model: _model, max_tokens: _cap, ...sent } = bodyOf("", `endless ${way}`, false);
    const own = Math.ceil(JSON.stringify(sent).length / 4);
    const tokensOf = (words: readonly string[]) => Math.ceil(words.join("").length / 4);
    // What the last moment of an abort takes away from a client was passed to it.
    expect(charged).toBeGreaterThanOrEqual(own + tokensOf(delivered));
    expect(charged).toBeLessThanOrEqual(own + tokensOf(delivered) + 8);
    const callId = /x-request-id: (\S+)/i.exec(client.text)?.[1] ?? "";
    expect(await usageEventOf(tollgate.stateDir, callId)).toMatchObject({ outcome: "stream_broken", loss_nano_usd: 0 });
  });

  test.each(ways)("a stream %s, whose client takes nothing: the same", async (way, usage) => {
    const tenant = await operator.tenant();
    const model = await scriptedModel(tenant);
    const startedAtMs = Date.now();
    const client = new RawClient(operator.url, chatPost(tenant.key, bodyOf(model, `paused ${way}`, usage)));
    await client.until("word-1 ");
    client.pause();
    const closedAtMs = (await reached.get(`paused ${way}`)?.closedEarly) ?? 0;
    expect(closedAtMs - startedAtMs).toBeLessThan(CUT_MS + allowedMs(LATE_MS));
    expect(await chargeAtRest(tenant, startedAtMs, 2)).toBeGreaterThan(500);
    client.reset();
  });

  test("a stream of bytes: ended as broken, charged for what it was asked to say", async () => {
    const tenant = await operator.tenant();
    const prices = {
      input_tokens: { cost_usd: 0.5, price_usd: 1 },
      audio_seconds: { cost_usd: 0.0005, price_usd: 0.001 },
    };
    const model = await operator.model("endless-speech", { kind: "speech", upstream: upstreamId, prices });
    const startedAtMs = Date.now();
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ model, input: "speech without an end", voice: "alloy" });
    const response = await tenant.fetch("/v1/audio/speech", { method: "POST", headers, body });
    expect(response.status).toBe(200);
    await expect(response.arrayBuffer()).rejects.toThrow();
    inTime(Date.now() - startedAtMs);
    expect(await chargeAtRest(tenant, startedAtMs, 1)).toBeGreaterThan(0);
  });

  test("a stream of bytes whose client pauses for a moment, over and over: the same", async () => {
    const tenant = await operator.tenant();
    const prices = { audio_seconds: { cost_usd: 0.0005, price_usd: 0.001 } };
    const model = await operator.model("paused-speech", { kind: "speech", upstream: upstreamId, prices });
    const body = JSON.stringify({ model, input: "speech with pauses", voice: "alloy" });
    const head = `POST /v1/audio/speech HTTP/1.1\r\nhost: t\r\nauthorization: Bearer ${tenant.key}\r\n`;
    const entity = `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const startedAtMs = Date.now();
    const client = new RawClient(operator.url, head + entity);
    await client.until("200 OK");
    const pausing = setInterval(() => {
      client.pause();
      setTimeout(() => client.resume(), 30);
    }, 200);
    await client.untilClosed(CUT_MS + LATE_MS);
    clearInterval(pausing);
    inTime(Date.now() - startedAtMs);
    expect(await chargeAtRest(tenant, startedAtMs, 1)).toBeGreaterThan(0);
  });

  test("one that is not streamed: 504, no charge, and the try is the operator's loss", async () => {
    const tenant = await operator.tenant();
    const model = await scriptedModel(tenant);
    const startedAtMs = Date.now();
    const response = await tenant.post(bodyOf(model, "silent and whole", false, { stream: false }));
    inTime(Date.now() - startedAtMs);
    expect([response.status, ((await response.json()) as ErrorBody).error.code]).toEqual([504, "upstream_timeout"]);
    inTime(((await reached.get("silent and whole")?.closedEarly) ?? 0) - startedAtMs);
    await sleep(Math.max(0, startedAtMs + EXPIRED_MS - Date.now()));
    expect(await tenant.charges()).toHaveLength(1);
    const audit = await tenant.audit();
    expect(audit).toMatchObject({ ok: true, open_holds: 0, problems: [] });
    expect(audit.operator_loss_usd).toBeGreaterThan(0.0009);
    const event = await usageEventOf(tollgate.stateDir, response.headers.get("x-request-id"));
    expect(event).toMatchObject({ outcome: "failed", status: 504 });
  });
});

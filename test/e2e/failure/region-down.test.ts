/**
 * What takes its time, side by side in a process of its own: a region that falls under load and comes back, and streams
 * that live by the renewal of their holds: in `npm run proof` longer than the 30 s which background work has after an
 * answer. The upstreams are the test's own; what they were sent is the judge.
 */
import { randomInt } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { IN_FULL, partOf } from "../../support/in-full.ts";
import { Operator, unique } from "../../support/operator.ts";
import { ownInputTokens } from "../../support/own-count.ts";
import { TollgateProcess } from "../../support/process.ts";
import { jsonTo } from "../../support/service.ts";
import { allowedMs } from "../../support/slowness.ts";
import { type Behaviour, TcpProxy } from "../../support/tcp-proxy.ts";
import type { Tenant } from "../../support/tenant.ts";
import {
  chunk,
  completion,
  DONE,
  type Exchange,
  FINISH,
  ScriptedUpstream,
  usageChunk,
} from "../../support/upstream.ts";

const HOLD_TTL_MS = IN_FULL ? 6_000 : 3_000;
const tollgate = await TollgateProcess.start({ env: { HOLD_TTL_MS: String(HOLD_TTL_MS) } });
const operator = new Operator(tollgate);
const toStop: (() => Promise<void>)[] = [() => tollgate.stop()];
afterAll(async () => {
  for (const stop of toStop) await stop();
});

/** An upstream of the test's own, registered by its address. */
async function upstreamOf(
  script: (exchange: Exchange) => void | Promise<void>,
  name: (url: string) => Promise<string>,
) {
  const upstream = await ScriptedUpstream.start(script);
  toStop.push(() => upstream.stop());
  return { upstream, id: await operator.upstream(await name(upstream.url)) };
}

const WORDS = ["word-0 ", "word-1 ", "word-2 ", "word-3 "];

/** 5 tokens in, 4 out: JSON at once, streams in four frames. */
async function smallAnswer(exchange: Exchange): Promise<void> {
  await sleep(15);
  if (exchange.json.stream !== true) return exchange.answer(completion("one two", 5, 4));
  exchange.begin();
  for (const content of WORDS) {
    await exchange.send(chunk({ content }));
    await sleep(10);
  }
  await exchange.send(usageChunk(5, 4) + DONE);
  exchange.end();
}

const EXACT_TOKENS = 9;
const idOf = (exchange: Exchange) => String(exchange.headers["x-request-id"]);

/** Two regions behind one alias that share its calls; the first by way of a proxy that can fall. */
async function twoRegions(tenant: Tenant) {
  let proxy: TcpProxy | undefined;
  const { upstream: first, id: firstId } = await upstreamOf(smallAnswer, async (url) => {
    proxy = await TcpProxy.start(url);
    return proxy.url;
  });
  if (!proxy) throw new Error("the proxy stands by now");
  const { upstream: second, id: secondId } = await upstreamOf(smallAnswer, async (url) => url);
  toStop.push(() => (proxy as TcpProxy).stop());
  const targets = await Promise.all(
    [firstId, secondId].map(async (upstream) => ({
      upstream,
      model: await operator.model(unique("region"), { upstream }),
      priority: 0,
      weight: 1,
    })),
  );
  const alias = unique("regions");
  await operator.call("PUT", `/aliases/${alias}`, { account: tenant.account, targets });
  return { alias, first, second, proxy };
}

interface Told {
  readonly id: string | null;
  readonly stream: boolean;
  readonly fromMs: number;
  readonly toMs: number;
  readonly status: number | "broken";
  /** What its client got of it. */
  readonly text: string;
}

const bodyOf = (model: string, stream: boolean) => ({
  model,
  max_tokens: 10,
  stream,
  messages: [{ role: "user", content: "Hi" }],
});

/** As far as it comes. */
async function textOf(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const piece of response.body ?? []) text += decoder.decode(piece, { stream: true });
  } catch {
    // It broke.
  }
  return text;
}

/** Between two calls of a client: while something is measured, and while only time has to pass. */
const BUSY_MS = 30;
const CALM_MS = 200;

/** Eight clients, one call after the other each, until told to stop. Gives what every call came to. */
function load(tenant: Tenant, model: string) {
  const told: Told[] = [];
  let over = false;
  let pauseMs = BUSY_MS;
  const clients = Array.from({ length: 8 }, async (_, client) => {
    for (let call = 0; !over; call++) {
      const stream = (client + call) % 2 === 0;
      const fromMs = Date.now();
      const response = await tenant.post(bodyOf(model, stream)).catch(() => null);
      const text = response ? await textOf(response) : "";
      const whole = response && (response.status !== 200 || text.includes(stream ? "[DONE]" : '"usage"'));
      const id = response?.headers.get("x-request-id") ?? null;
      told.push({ id, stream, fromMs, toMs: Date.now(), status: whole ? response.status : "broken", text });
      await sleep(pauseMs);
    }
  });
  const pace = (ms: number) => {
    pauseMs = ms;
  };
  const stop = async () => {
    over = true;
    await Promise.all(clients);
    return told;
  };
  return { pace, stop };
}

const percentile = (of: readonly Told[], share: number): number =>
  of.map(({ fromMs, toMs }) => toMs - fromMs).sort((a, b) => a - b)[Math.floor(of.length * share)] ?? Number.NaN;
/** Other tests and processes share the machine. */
const asQuickAs = (ms: number) => 3 * ms + 100;

/** Longer than an ejection, so that a probe fails shortly before the region returns: the worst case for coming back. */
const DOWN_MS = 11_000;
const BACK_WITHIN_MS = 11_000;

const ways: [string, Behaviour][] = [
  ["resets connections", { kind: "reset" }],
  ["refuses connections", { kind: "refuse" }],
];
for (const [way, fallen] of partOf(ways, 2)) {
  test.concurrent(`one of two regions ${way} under load: no call fails but a stream that had begun, each is charged once, and it serves its share again within 11 s of its return`, async () => {
    const tenant = await operator.tenant();
    const { alias, first, second, proxy } = await twoRegions(tenant);
    const { pace, stop } = load(tenant, alias);
    const startedAtMs = Date.now();
    await sleep(2_000);
    const downAtMs = Date.now();
    const connectionsBefore = proxy.connections;
    await proxy.become(fallen);
    // What had left the proxy arrives. A call takes less time than two others of each client.
    await sleep(100);
    const inFlight = new Set(first.exchanges.slice(-16).map(idOf));
    const seen = first.exchanges.length;
    pace(CALM_MS);
    await sleep(DOWN_MS);
    const connectionsDown = proxy.connections - connectionsBefore;
    expect(first.exchanges).toHaveLength(seen);
    const backAtMs = Date.now();
    await proxy.become({ kind: "pass" });
    await eventually("the region is used again", () => first.exchanges.length > seen, {
      withinMs: BACK_WITHIN_MS,
      everyMs: 10,
    });
    await sleep(Math.max(0, backAtMs + BACK_WITHIN_MS - Date.now()));
    pace(BUSY_MS);
    const shareFrom = [first.exchanges.length, second.exchanges.length] as const;
    const shareFromMs = Date.now();
    await sleep(2_500);
    const told = await stop();

    // What a caller saw: nothing failed but what was being streamed by the region when it fell.
    const failed = told.filter(({ status }) => status !== 200);
    const excused = ({ id, stream, status, fromMs, toMs }: Told) =>
      stream && status === "broken" && fromMs <= downAtMs && toMs >= downAtMs && inFlight.has(String(id));
    expect(failed.filter((one) => !excused(one))).toEqual([]);
    expect(failed.length).toBeLessThanOrEqual(8);

    // What the upstreams saw: only what was in the region's hands when it fell came to the other one too.
    const inFirst = new Set(first.exchanges.map(idOf));
    const twice = second.exchanges.map(idOf).filter((id) => inFirst.has(id));
    expect(twice.filter((id) => !inFlight.has(id))).toEqual([]);
    const all = [...first.exchanges, ...second.exchanges].map(idOf);
    expect(all.length - new Set(all).size).toBe(twice.length);
    // The eight that were on their way, three strikes, probes and a knock each: not half of some hundred calls.
    expect(connectionsDown).toBeLessThan(40);

    // It is used as before, as quickly as the other and as before.
    const [ofFirst, ofSecond] = [first.exchanges.slice(shareFrom[0]), second.exchanges.slice(shareFrom[1])];
    expect(ofFirst.length / (ofFirst.length + ofSecond.length)).toBeGreaterThan(0.35);
    expect(ofFirst.length / (ofFirst.length + ofSecond.length)).toBeLessThan(0.65);
    const back = told.filter(({ fromMs }) => fromMs >= shareFromMs);
    const by = (exchanges: Exchange[]) => back.filter(({ id }) => exchanges.some((one) => idOf(one) === id));
    expect(percentile(by(ofFirst), 0.5)).toBeLessThan(asQuickAs(percentile(by(ofSecond), 0.5)));
    const before = told.filter(({ fromMs, toMs }) => fromMs >= startedAtMs && toMs < downAtMs);
    const down = told.filter(({ fromMs }) => fromMs >= downAtMs + 500 && fromMs < backAtMs);
    // Half a minute lies between them, in which others may have begun to use the machine.
    const asBefore = allowedMs(asQuickAs(percentile(before, 0.95)));
    expect(percentile(down, 0.95)).toBeLessThan(asBefore);
    expect(percentile(back, 0.95)).toBeLessThan(asBefore);

    await expectChargedOnce(tenant, told);
  });
}

/** Own count of the output, once so many frames of a stream have passed. */
const outputOf = (frames: number): number =>
  Math.max(frames, Math.ceil(Buffer.byteLength(WORDS.slice(0, frames).join("")) / 4));

/**
 * What a call may have cost. A whole answer costs what it used, and so does a stream that broke after its usage. One
 * that broke before costs its input and what was delivered, by own count: at least what its client got, as the last
 * frames may have been lost on their way to it.
 */
function mayCost({ status, text }: Told, tokens: number): boolean {
  if (status !== "broken") return tokens === EXACT_TOKENS;
  const input = ownInputTokens(jsonTo("/v1/chat/completions", bodyOf("any", true)));
  const seen = WORDS.filter((word) => text.includes(word)).length;
  const frames = WORDS.map((_, index) => index + 1).filter((count) => count >= seen);
  return [EXACT_TOKENS, ...[...frames, seen].map((count) => input + outputOf(count))].includes(tokens);
}

async function expectChargedOnce(tenant: Tenant, told: readonly Told[]): Promise<void> {
  const audit = await eventually("every hold is ended", async () => {
    const state = await tenant.audit();
    return state.open_holds === 0 && state;
  });
  expect(audit).toMatchObject({ ok: true, held_usd: 0, overrun_usd: 0 });
  const charges = await tenant.charges();
  const charged = new Map(charges.map(({ call_id, amount_usd }) => [call_id, amount_usd]));
  expect(charges).toHaveLength(charged.size);
  const bills = told.map((one) => ({ ...one, tokens: Math.round((0 - (charged.get(one.id) ?? 0)) * 1e6) }));
  expect(bills.filter((one) => !mayCost(one, one.tokens))).toEqual([]);
  const known = new Set(told.map(({ id }) => id));
  expect(charges.filter(({ call_id }) => !known.has(call_id))).toEqual([]);
}

const FRAME_MS = 250;
const FRAMES = IN_FULL ? 160 : 40;
const LASTS_MS = FRAME_MS * FRAMES;

/** One frame after the other, then what ends the stream. */
const paced = (contentType: string, frame: (at: number) => string, end: string) => async (exchange: Exchange) => {
  exchange.begin(contentType);
  for (let at = 0; at < FRAMES; at++) {
    await exchange.send(frame(at));
    await sleep(FRAME_MS);
  }
  await exchange.send(end);
  exchange.end();
};
const events = paced("text/event-stream", (at) => chunk({ content: `word-${at} ` }), usageChunk(10, FRAMES) + DONE);

async function chatStream(include_usage: boolean) {
  const { upstream, id } = await upstreamOf(events, async (url) => url);
  const model = await operator.model(unique("long"), { upstream: id });
  const messages = [{ role: "user", content: "Hi" }];
  const stream_options = { include_usage };
  const body = { model, messages, stream: true, max_tokens: 200, stream_options };
  const ends = include_usage
    ? usageChunk(10, FRAMES) + DONE
    : chunk({ content: `word-${FRAMES - 1} ` }) + FINISH + DONE;
  return { upstream, costsUsd: (10 + FRAMES) / 1e6, ends, ask: (tenant: Tenant) => tenant.post(body) };
}

/** An engine of the tenant's own, whose every answer passes as plain bytes at a price for each. */
async function bytesStream(tenant: Tenant) {
  const { upstream, id } = await upstreamOf(
    paced("application/octet-stream", (at) => `${at};`, "end"),
    async (url) => url,
  );
  const [instance, name] = [randomInt(100_000_000, 900_000_000), unique("engine")];
  const registered = { account: tenant.account, name, upstreams: [id], kind: "custom", custom_api_path: "/run" };
  await operator.call("PUT", `/instances/${instance}`, registered);
  await operator.call("PUT", `/models/${encodeURIComponent(`${name}:${instance}`)}`, {
    kind: "custom",
    prices: { requests: { cost_usd: 0.001, price_usd: 0.002 } },
  });
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
  const ask = () => tenant.fetch(`/inference-instances/${instance}/proxy/run`, init);
  return { upstream, costsUsd: 0.002, ends: `${FRAMES - 1};end`, ask };
}

const streams: [string, (tenant: Tenant) => ReturnType<typeof chatStream>][] = [
  ["of events whose usage was asked for", () => chatStream(true)],
  ["of events whose usage was not asked for", () => chatStream(false)],
  ["of plain bytes", (tenant) => bytesStream(tenant)],
];
for (const [kind, make] of streams) {
  test.concurrent(`a stream of ${LASTS_MS / 1000} s ${kind} is executed once, keeps its hold and is charged exactly`, async () => {
    const tenant = await operator.tenant();
    const { upstream, costsUsd, ends, ask } = await make(tenant);
    const startedAtMs = Date.now();
    const response = await ask(tenant);
    expect(response.status).toBe(200);
    const whole = response.text();
    await sleep(LASTS_MS - HOLD_TTL_MS / 2);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 1, balance_usd: 1 });
    const text = await whole;
    expect(Date.now() - startedAtMs).toBeGreaterThan(LASTS_MS - 500);
    expect(text.endsWith(ends)).toBe(true);
    const id = response.headers.get("x-request-id");
    await eventually("the charge", async () => (await tenant.charges()).length > 0, { withinMs: 1_000 });
    const charges = await tenant.charges();
    expect(charges.map(({ call_id }) => call_id)).toEqual([id]);
    expect(charges[0]?.amount_usd).toBeCloseTo(-costsUsd, 9);
    expect(upstream.exchanges.map(idOf)).toEqual([id]);
    const after = { ok: true, open_holds: 0, held_usd: 0, overrun_usd: 0, operator_loss_usd: 0 };
    expect(await tenant.audit()).toMatchObject(after);
  });
}

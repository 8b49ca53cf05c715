/** Streams whose caller asked for usage pass on the runtime's own pipe and keep every promise of those that do not. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually, sleep } from "../support/eventually.ts";
import { chatPost, RawClient } from "../support/raw-client.ts";
import type { Tenant } from "../support/tenant.ts";
import { chunk, DONE, type Exchange, event, ScriptedUpstream, usageChunk } from "../support/upstream.ts";
import { world } from "../support/world.ts";

const { operator } = world();

let tenant: Tenant;
let upstream: ScriptedUpstream;
let upstreamId: string;
let model: string;
let script: (exchange: Exchange) => void | Promise<void>;

const IDLE_MS = 700;

beforeAll(async () => {
  tenant = await operator.tenant();
  upstream = await ScriptedUpstream.start((exchange) => script(exchange));
  upstreamId = await operator.upstream(upstream.url, { timeouts: { idle_ms: IDLE_MS } });
  model = await modelOf(tenant);
});
afterAll(() => upstream.stop());

async function modelOf(owner: Tenant): Promise<string> {
  const target = await operator.model(`scripted-${upstreamId}`, { upstream: upstreamId, max_output_tokens: 1000 });
  return operator.alias(owner, [{ upstream: upstreamId, model: target }]);
}

const word = (index: number) => chunk({ content: `word-${index} ` }, { usage: null });
const decoder = new TextDecoder();

const bodyOf = (asked: string) => ({
  model: asked,
  messages: [{ role: "user", content: "Hi" }],
  stream: true,
  max_tokens: 500,
  stream_options: { include_usage: true },
});

async function ask(init: RequestInit = {}, owner = tenant, asked = model) {
  const response = await owner.post(bodyOf(asked), init);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let text = "";
  const readUntil = async (awaited: string) => {
    while (!text.includes(awaited)) {
      const { done, value } = await reader.read();
      if (done) throw new Error(`the stream ended after: ${text}`);
      text += decoder.decode(value, { stream: true });
    }
    return text;
  };
  return { response, reader, readUntil };
}

/** Sends some frames one by one, each after the one before was read: by then the pipe carries them. */
async function begin(breakIt: (exchange: Exchange) => unknown, init: RequestInit = {}, owner = tenant, asked = model) {
  const seen = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
  script = async (exchange) => {
    exchange.begin();
    for (const [index, { promise }] of seen.entries()) {
      await exchange.send(word(index));
      await promise;
    }
    await breakIt(exchange);
  };
  const stream = await ask(init, owner, asked);
  for (const [index, { resolve }] of seen.entries()) {
    await stream.readUntil(`word-${index}`);
    resolve();
  }
  return stream;
}

const charges = async (owner = tenant) => (await owner.charges()).length;

test("what was asked for passes, and the call is settled by it within 500 ms though the connection stays open", async () => {
  const before = await charges();
  let open: Exchange | undefined;
  const stream = await begin(async (exchange) => {
    open = exchange;
    await sleep(1_000 * Math.random());
    await exchange.send(usageChunk(10, 4) + DONE);
  });
  const text = await stream.readUntil("[DONE]");
  expect(text).toBe([0, 1, 2, 3].map(word).join("") + usageChunk(10, 4) + DONE);
  await eventually("the charge", async () => (await charges()) === before + 1, { withinMs: 500, everyMs: 20 });
  expect((await tenant.charges()).at(-1)?.amount_usd).toBeCloseTo(-14e-6, 9);
  open?.end();
  expect((await stream.reader.read()).done).toBe(true);
});

describe("a stream that breaks ends with an error event and an aborted body, and what was delivered is charged", () => {
  const faults: [string, (exchange: Exchange) => unknown][] = [
    ["cut", (exchange) => exchange.cut()],
    ["closed without [DONE]", (exchange) => exchange.end()],
    ["closed in the middle of an event", (exchange) => exchange.send('data: {"choi').then(() => exchange.end())],
    ["garbled", (exchange) => exchange.send("data: {no json\n\n")],
    ["an error event", (exchange) => exchange.send(event({ error: { message: "broken" } }))],
    [
      "garbled and closed as if it were whole",
      (exchange) => exchange.send(`data: {no json\n\n${DONE}`).then(() => exchange.end()),
    ],
    ["silence", () => undefined],
  ];
  test.each(faults)("%s", async (_name, breakIt) => {
    const before = await charges();
    const stream = await begin(breakIt);
    const startedAtMs = Date.now();
    await stream.readUntil('"upstream_error"');
    expect(Date.now() - startedAtMs).toBeLessThan(IDLE_MS + 1_500);
    await expect(stream.reader.read()).rejects.toThrow();
    await eventually("the charge", async () => (await charges()) === before + 1);
    // One token in, four words out by their bytes.
    expect((await tenant.charges()).at(-1)?.amount_usd).toBeLessThan(0);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
  });
});

describe("a client that leaves", () => {
  test("by a reset, while the upstream is silent: it is closed within a second, and what was delivered is charged", async () => {
    const before = await charges();
    const reached = Promise.withResolvers<Exchange>();
    script = async (exchange) => {
      exchange.begin();
      for (let index = 0; index < 6; index++) {
        await exchange.send(word(index));
        await sleep(20);
      }
      reached.resolve(exchange);
    };
    const client = new RawClient(operator.url, chatPost(tenant.key, bodyOf(model)));
    await client.until("word-5");
    const exchange = await reached.promise;
    const leftAt = Date.now();
    client.reset();
    expect((await exchange.closedEarly) - leftAt).toBeLessThan(1_000);
    await eventually("the charge", async () => (await charges()) === before + 1);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0 });
  });

  test("while frames come: the upstream is closed within a second, and what was delivered is charged", async () => {
    const before = await charges();
    const leaving = new AbortController();
    const closed = Promise.withResolvers<number>();
    await begin(
      async (exchange) => {
        exchange.closedEarly.then(closed.resolve);
        for (let index = 4; index < 200; index++) {
          await Promise.race([exchange.send(word(index)), closed.promise]);
          await sleep(20);
        }
      },
      { signal: leaving.signal },
    );
    const leftAt = Date.now();
    leaving.abort();
    expect((await closed.promise) - leftAt).toBeLessThan(1_000);
    await eventually("the charge", async () => (await charges()) === before + 1);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0 });
  });

  test("of an account that drains: the upstream is read to its end and the exact usage is charged", async () => {
    const patient = await operator.tenant({ on_disconnect: "drain" });
    const leaving = new AbortController();
    const left = Promise.withResolvers<void>();
    const stream = await begin(
      async (exchange) => {
        await left.promise;
        for (let index = 4; index < 20; index++) {
          await exchange.send(word(index));
          await sleep(20);
        }
        await exchange.send(usageChunk(10, 20) + DONE);
        exchange.end();
      },
      { signal: leaving.signal },
      patient,
      await modelOf(patient),
    );
    leaving.abort();
    left.resolve();
    await stream.reader.read().catch(() => undefined);
    const [charge] = await eventually("the charge", async () => {
      const all = await patient.charges();
      return all.length > 0 && all;
    });
    expect(charge?.amount_usd).toBeCloseTo(-30e-6, 9);
  });
});

describe("a slow reader of a 50 MB stream holds its upstream back", () => {
  const large = chunk({ content: "x".repeat(64_000) }, { usage: null });
  const rows: [string, string, string][] = [
    ["in words", word(0), word(0).repeat(300)],
    ["in large events", large, large],
  ];
  test.each(rows)("%s", async (_name, first, piece) => {
    let sentBytes = 0;
    let open = true;
    script = async (exchange) => {
      exchange.begin();
      exchange.closedEarly.then(() => (open = false));
      await exchange.send(first);
      await sleep(100);
      while (open && sentBytes < 50_000_000) {
        await Promise.race([exchange.send(piece), exchange.closedEarly]);
        sentBytes += piece.length;
      }
    };
    const leaving = new AbortController();
    const stream = await ask({ signal: leaving.signal });
    await sleep(2_000);
    expect(sentBytes).toBeLessThan(20_000_000);
    // The stream was open all the time: a response that nobody holds is let go by the runtime of the test.
    expect([open, stream.response.status]).toEqual([true, 200]);
    leaving.abort();
  });
});

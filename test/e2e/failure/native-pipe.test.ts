/** Streams whose caller asked for usage pass on the runtime's own pipe and keep every promise of those that do not. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { chatPost, RawClient } from "../../support/raw-client.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { Tenant } from "../../support/tenant.ts";
import { chunk, DONE, type Exchange, event, ScriptedUpstream, usageChunk } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator, logFile } = world();

let tenant: Tenant;
let somebody: Tenant;
let upstream: ScriptedUpstream;
let upstreamId: string;
let model: string;
let script: (exchange: Exchange) => void | Promise<void>;

const IDLE_MS = 700;

beforeAll(async () => {
  [tenant, somebody] = await Promise.all([operator.tenant(), operator.tenant()]);
  upstream = await ScriptedUpstream.start((exchange) => script(exchange));
  upstreamId = await operator.upstream(upstream.url, { timeouts: { idle_ms: IDLE_MS } });
  model = await modelOf(tenant);
});
afterAll(() => upstream.stop());

let models = 0;

/**
 * A target of its own: what one stream teaches of its target does not reach the others. `known`: its usage was read
 * before.
 */
async function modelOf(owner: Tenant, known = true, at = upstreamId): Promise<string> {
  const name = `scripted-${at}-${models++}`;
  const model = await operator.model(name, { upstream: at, max_output_tokens: 1000 });
  const target = { upstream: at, model };
  if (known) {
    script = (exchange) => exchange.stream(word(0) + usageChunk(1, 1) + DONE);
    const first = await somebody.post(bodyOf(await operator.alias(somebody, [target])));
    expect(await first.text()).toContain("[DONE]");
  }
  return operator.alias(owner, [target]);
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

/** More than the pieces that are read before they pass, whatever they are. */
const OPENING = 20;

/** Between two frames: quicker ones are read together, before they pass. */
const SLOW_MS = 12;

/**
 * Sends some frames one by one, each after the one before was read: by then the pipe carries them, if they come slowly.
 */
async function begin(
  breakIt: (exchange: Exchange) => unknown,
  init: RequestInit = {},
  owner = tenant,
  asked = model,
  frames = OPENING,
  paceMs = SLOW_MS,
) {
  const seen = Array.from({ length: frames }, () => Promise.withResolvers<void>());
  script = async (exchange) => {
    exchange.begin();
    for (const [index, { promise }] of seen.entries()) {
      await exchange.send(word(index));
      await promise;
      if (paceMs > 0) await sleep(paceMs);
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
    await exchange.send(usageChunk(10, OPENING) + DONE);
  });
  const text = await stream.readUntil("[DONE]");
  expect(text).toBe(
    Array.from({ length: OPENING }, (_, index) => word(index)).join("") + usageChunk(10, OPENING) + DONE,
  );
  await eventually("the charge", async () => (await charges()) === before + 1, { withinMs: 500, everyMs: 20 });
  expect((await tenant.charges()).at(-1)?.amount_usd).toBeCloseTo(-30e-6, 9);
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
    const asked = await modelOf(tenant);
    const before = await charges();
    const stream = await begin(breakIt, {}, tenant, asked);
    const startedAtMs = Date.now();
    await stream.readUntil('"upstream_error"');
    expect(Date.now() - startedAtMs).toBeLessThan(IDLE_MS + allowedMs(1_500));
    await expect(stream.reader.read()).rejects.toThrow();
    await eventually("the charge", async () => (await charges()) === before + 1);
    // One token in, the words out by their bytes.
    expect((await tenant.charges()).at(-1)?.amount_usd).toBeLessThan(0);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
  });
});

describe("what an upstream says of an error in its stream", () => {
  const words = "sk-of-the-operator on 10.1.2.3";
  const breakDown = async (exchange: Exchange) => {
    await exchange.send(event({ error: { message: words } }));
  };

  test("does not pass while a stream begins", async () => {
    const stream = await begin(breakDown, {}, tenant, await modelOf(tenant), 3);
    const text = await stream.readUntil('"upstream_error"');
    expect(text).not.toContain(words);
  });

  test("does not pass where frames come quickly", async () => {
    const stream = await begin(breakDown, {}, tenant, await modelOf(tenant), 60, 0);
    const text = await stream.readUntil('"upstream_error"');
    expect(text).toContain("word-59");
    expect(text).not.toContain(words);
  });

  test("passes at most once from one target: the operator is told, and its next streams are read first", async () => {
    const asked = await modelOf(tenant);
    const first = await begin(breakDown, {}, tenant, asked);
    await first.readUntil('"upstream_error"');
    const call = first.response.headers.get("x-service-request-id") ?? "none";
    await eventually("a line in the log", () => {
      const lines = readFileSync(logFile, "utf8").split("\n");
      return lines.some((line) => line.includes('"broken_event_passed"') && line.includes(call));
    });
    const second = await begin(breakDown, {}, tenant, asked);
    expect(await second.readUntil('"upstream_error"')).not.toContain(words);
  });
});

describe("what an upstream says of its costs in the usage that a client asked for", () => {
  const COSTS = { prompt_tokens: 10, completion_tokens: OPENING, cost: 0.25, provider: "hidden" };
  const end = (usage: object) => async (exchange: Exchange) => {
    await exchange.send(chunk({}, { choices: [], usage }) + DONE);
    exchange.end();
  };
  const shown = async (asked: string, usage: object) => {
    const stream = await begin(end(usage), {}, tenant, asked);
    return stream.readUntil("[DONE]");
  };

  test("never passes from a target of which nothing else was seen", async () => {
    const asked = await modelOf(tenant, false);
    const before = await charges();
    for (let turn = 0; turn < 3; turn++) expect(await shown(asked, COSTS)).not.toMatch(/cost|hidden/);
    await eventually("the charges", async () => (await charges()) === before + 3);
    expect((await tenant.charges()).at(-1)?.amount_usd).toBeCloseTo(-30e-6, 9);
  });

  test("passes at most once from a target whose usage held nothing of them before", async () => {
    const asked = await modelOf(tenant);
    expect(await shown(asked, COSTS)).toContain("cost");
    expect(await shown(asked, COSTS)).not.toMatch(/cost|hidden/);
    expect(await shown(asked, { prompt_tokens: 10, completion_tokens: OPENING })).not.toMatch(/cost|hidden/);
    expect(await shown(asked, COSTS)).not.toMatch(/cost|hidden/);
  });
});

test("a long answer in large events passes whole to a client that takes it", async () => {
  const events = 10_000;
  const large = chunk({ content: "x".repeat(2_000) }, { usage: null });
  script = async (exchange) => {
    exchange.begin();
    for (let index = 0; index < events; index++) await exchange.send(large);
    await exchange.send(usageChunk(10, 500) + DONE);
    exchange.end();
  };
  const response = await tenant.post(bodyOf(model));
  const text = await response.text();
  expect(text.length).toBe(events * large.length + (usageChunk(10, 500) + DONE).length);
});

describe("a client that leaves", () => {
  test("by a reset, while the upstream is silent: it is closed within a second, and what was delivered is charged", async () => {
    const before = await charges();
    const reached = Promise.withResolvers<Exchange>();
    script = async (exchange) => {
      exchange.begin();
      for (let index = 0; index < OPENING; index++) {
        await exchange.send(word(index));
        await sleep(20);
      }
      reached.resolve(exchange);
    };
    const client = new RawClient(operator.url, chatPost(tenant.key, bodyOf(model)));
    await client.until(`word-${OPENING - 1}`);
    const exchange = await reached.promise;
    const leftAt = Date.now();
    client.reset();
    expect((await exchange.closedEarly) - leftAt).toBeLessThan(allowedMs(1_000));
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
        for (let index = OPENING; index < 200; index++) {
          await Promise.race([exchange.send(word(index)), closed.promise]);
          await sleep(20);
        }
      },
      { signal: leaving.signal },
    );
    const leftAt = Date.now();
    leaving.abort();
    expect((await closed.promise) - leftAt).toBeLessThan(allowedMs(1_000));
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
        for (let index = OPENING; index < 40; index++) {
          await exchange.send(word(index));
          await sleep(20);
        }
        await exchange.send(usageChunk(10, 40) + DONE);
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
    expect(charge?.amount_usd).toBeCloseTo(-50e-6, 9);
  });
});

describe("a slow reader of a 50 MB stream holds its upstream back", () => {
  const large = chunk({ content: "x".repeat(64_000) }, { usage: null });
  const rows: [string, string, string][] = [
    ["in words", word(0), word(0).repeat(300)],
    ["in large events", large, large],
  ];
  test.each(rows)("%s", async (_name, first, piece) => {
    // One that lets its clients pause for longer than this takes.
    const patient = await operator.upstream(upstream.url);
    const slow = await modelOf(tenant, true, patient);
    let sentBytes = 0;
    let open = true;
    script = async (exchange) => {
      exchange.begin();
      exchange.closedEarly.then(() => (open = false));
      for (let index = 0; index < OPENING; index++) {
        await exchange.send(first);
        await sleep(5);
      }
      while (open && sentBytes < 50_000_000) {
        await Promise.race([exchange.send(piece), exchange.closedEarly]);
        sentBytes += piece.length;
      }
    };
    const leaving = new AbortController();
    const stream = await ask({ signal: leaving.signal }, tenant, slow);
    await sleep(2_000);
    expect(sentBytes).toBeLessThan(20_000_000);
    // The stream was open all the time: a response that nobody holds is let go by the runtime of the test.
    expect([open, stream.response.status]).toEqual([true, 200]);
    leaving.abort();
  });
});

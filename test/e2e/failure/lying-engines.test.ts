/**
 * Engines that lie: about usage, lengths, types and ends. Whatever they say, a call is charged once, for what passed or
 * for what was sent; nothing stays held; other tenants notice nothing.
 */
import { randomInt } from "node:crypto";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { allowedMs } from "../../support/slowness.ts";
import type { Tenant } from "../../support/tenant.ts";
import { chunk, completion, DONE, type Exchange, event, ScriptedUpstream, usageChunk } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
const MB = 1024 * 1024;
const IDLE_MS = 800;
const TOTAL_MS = 2_500;

let upstream: ScriptedUpstream;
let raw: Server;
let upstreamId: string;
let rawId: string;
let patientId: string;
/** By what the call says. */
const scripts = new Map<string, (exchange: Exchange) => void | Promise<void>>();
const rawAnswers = new Map<string, (socket: Socket) => void | Promise<void>>();

beforeAll(async () => {
  const saidIn = (text: string) => /"(?:content|input|prompt)":"([^"]+)"/.exec(text)?.[1] ?? "";
  upstream = await ScriptedUpstream.start((exchange) => scripts.get(saidIn(exchange.text))?.(exchange));
  raw = createServer((socket) => {
    let text = "";
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      text += data;
      const answer = rawAnswers.get(saidIn(text));
      if (!answer) return;
      text = "";
      void answer(socket);
    });
  });
  await new Promise<void>((resolve) => raw.listen(0, "127.0.0.1", resolve));
  const timeouts = { idle_ms: IDLE_MS, first_byte_ms: 2_000, answer_ms: 2_000, total_ms: TOTAL_MS };
  upstreamId = await operator.upstream(upstream.url, { timeouts });
  patientId = await operator.upstream(upstream.url);
  rawId = await operator.upstream(`http://localhost:${(raw.address() as AddressInfo).port}`, { timeouts });
});
afterAll(async () => {
  raw.close();
  await upstream.stop();
});

let models = 0;
const modelOf = (fields: object = {}) =>
  operator.model(`liar-${upstreamId}-${models++}`, { upstream: upstreamId, max_output_tokens: 100, ...fields });

const bodyOf = (model: string, said: string, fields: object = {}) => ({
  model,
  messages: [{ role: "user", content: said }],
  ...fields,
});
const streamed = { stream: true, stream_options: { include_usage: true } };

/** All that came, and whether it ended well. */
async function readAll(response: Response): Promise<{ text: string; whole: boolean }> {
  let text = "";
  try {
    for await (const piece of response.body as ReadableStream<Uint8Array>)
      text += Buffer.from(piece).toString("latin1");
    return { text, whole: true };
  } catch {
    return { text, whole: false };
  }
}

/** Nothing is held any more. Gives the charges in millionths of a dollar. */
async function chargesAtRest(tenant: Tenant, withinMs = 8_000): Promise<number[]> {
  const audit = await eventually(
    "nothing is held",
    async () => {
      const found = await tenant.audit();
      return found.open_holds === 0 && found;
    },
    { withinMs },
  );
  expect(audit).toMatchObject({ ok: true, problems: [], held_usd: 0 });
  return (await tenant.charges()).map(({ amount_usd }) => Math.round(-amount_usd * 1e6));
}

describe.concurrent("usage that is a lie", () => {
  const LIES = [
    "null",
    '{"prompt_tokens":-5,"completion_tokens":-1}',
    '{"prompt_tokens":1e308,"completion_tokens":1e308}',
    '{"prompt_tokens":"9","completion_tokens":"2"}',
    '{"prompt_tokens":123456789012345678901234567890,"completion_tokens":1}',
    '{"prompt_tokens":9,"completion_tokens":true}',
    '{"completion_tokens":1}',
    "[1]",
    '"much"',
    '{"prompt_tokens":9,"completion_tokens":1},"usage":null',
  ];

  test("is charged by own count, in JSON and in frames, whatever the lie", async () => {
    const model = await modelOf();
    for (const [way, fields] of [["json", {}] as const, ["frames", streamed] as const]) {
      const charges = LIES.map(async (usage, index) => {
        const said = `lie-${way}-${index}!`.padEnd(16, "x");
        scripts.set(said, (exchange) => {
          if (way === "frames")
            return exchange.stream(chunk({ content: "word" }) + event(`{"choices":[],"usage":${usage}}`) + DONE);
          exchange.begin("application/json");
          void exchange.send(
            JSON.stringify({ ...completion("word"), usage: 0 }).replace('"usage":0', `"usage":${usage}`),
          );
          return exchange.end();
        });
        const tenant = await operator.tenant();
        const response = await tenant.post(bodyOf(model, said, fields));
        const { text } = await readAll(response);
        expect([usage, response.status, text.includes("word")]).toEqual([usage, 200, true]);
        return [usage, await chargesAtRest(tenant)];
      });
      const all = await Promise.all(charges);
      const [[, [untold = 0] = []] = []] = all as [string, number[]][];
      expect(untold).toBeGreaterThan(10);
      expect(all).toEqual(LIES.map((usage) => [usage, [untold]]));
    }
  });

  test("early, with words after it: the words are charged", async () => {
    const tenant = await operator.tenant();
    const model = await modelOf();
    scripts.set("early", (exchange) =>
      exchange.stream(usageChunk(7, 0) + chunk({ content: "word" }).repeat(30) + DONE),
    );
    await readAll(await tenant.post(bodyOf(model, "early", streamed)));
    expect(await chargesAtRest(tenant)).toEqual([7 + 30]);
  });
});

describe.concurrent("an answer that is not what it says", () => {
  const HTML = `<html>${"x".repeat(1_000)}</html>`;
  const html = (contentType: string) => (exchange: Exchange) => {
    exchange.begin(contentType);
    void exchange.send(HTML);
    exchange.end();
  };
  const lies: [string, object, (exchange: Exchange) => void | Promise<void>][] = [
    ["json-for-a-stream", streamed, (exchange) => exchange.answer(completion("word"))],
    ["html-for-a-stream", streamed, html("text/html")],
    ["events-for-json", {}, (exchange) => exchange.stream(chunk({ content: "word" }) + DONE)],
    ["html-under-json", {}, html("application/json")],
    ["error-under-200", {}, (exchange) => exchange.answer({ error: { message: "no" }, choices: [] })],
    ["an-array", {}, (exchange) => exchange.answer([completion("word")])],
  ];
  test.each(lies)("%s: 502, not charged", async (said, fields, script) => {
    scripts.set(said, script);
    const tenant = await operator.tenant();
    const response = await tenant.post(bodyOf(await modelOf(), said, fields));
    expect([response.status, (await response.text()).includes("word")]).toEqual([502, false]);
    expect(await chargesAtRest(tenant)).toEqual([]);
  });

  test("a frame of 10 MB ends its stream as broken; what was sent is charged, and others go on", async () => {
    const [tenant, other] = [await operator.tenant(), await operator.tenant()];
    const model = await modelOf();
    scripts.set("frame", (exchange) => exchange.stream(`data: {"x":"${"x".repeat(10 * MB)}"}\n\n${DONE}`));
    scripts.set("other", (exchange) => exchange.answer(completion("fine")));
    const [{ text }, fine] = await Promise.all([
      tenant.post(bodyOf(model, "frame", streamed)).then(readAll),
      other.post(bodyOf(model, "other")),
    ]);
    expect(fine.status).toBe(200);
    expect([text.includes("[DONE]"), text.length < MB]).toEqual([false, true]);
    expect((await chargesAtRest(tenant))[0]).toBeGreaterThan(5);
  });

  const body = JSON.stringify(completion("word"));
  const head = (length: number | string) =>
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
  const frames = chunk({ content: "word" }) + usageChunk(3, 1) + DONE;
  const lengths: [string, object, string, number[], number][] = [
    ["length-too-long", {}, head(body.length + 100) + body, [502, 504], 0],
    ["length-too-short", {}, head(body.length - 10) + body, [502, 504], 0],
    ["length-of-gigabytes", {}, head(9_999_999_999) + body, [502, 504], 0],
    ["length-negative", {}, head(-5) + body, [502, 504], 0],
    ["length-twice", {}, head(`5\r\ncontent-length: ${body.length}`) + body, [502, 504], 0],
    [
      "early-hints-first",
      {},
      `HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${head(body.length)}${body}`,
      [200, 502, 504],
      1,
    ],
    ["hints-for-ever", {}, "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(2_000), [502, 503, 504], 0],
    ["no-headers", {}, "HTTP/1.1 200 OK\r\n", [502, 503, 504], 0],
    [
      "frames-too-long",
      streamed,
      head(frames.length + 100).replace("application/json", "text/event-stream") + frames,
      [200],
      1,
    ],
  ];
  test.each(lengths)("%s", async (said, fields, bytes, statuses, charged) => {
    rawAnswers.set(said, (socket) => void socket.end(bytes));
    const tenant = await operator.tenant();
    const model = await modelOf({ upstream: rawId });
    const response = await tenant.post(bodyOf(model, said, fields));
    await readAll(response);
    expect(statuses).toContain(response.status);
    expect(await chargesAtRest(tenant)).toHaveLength(response.status === 200 ? charged : 0);
  });
});

describe.concurrent("a stream that was whole and goes on for ever", () => {
  test.each([
    ["read one by one", {}],
    ["on the runtime's own pipe", { stream_options: { include_usage: true } }],
  ])("%s: is charged exactly, and let go", async (way, fields) => {
    const tenant = await operator.tenant();
    const model = await modelOf();
    // A target of its own, whose usage was read before.
    scripts.set("first", (exchange) => exchange.stream(chunk({ content: "a" }) + usageChunk(1, 1) + DONE));
    await readAll(await tenant.post(bodyOf(model, "first", { stream: true })));
    const closed = Promise.withResolvers<number>();
    scripts.set(`goes on, ${way}`, async (exchange) => {
      exchange.begin();
      void exchange.closedEarly.then(closed.resolve);
      for (let index = 0; index < 20; index++) {
        await exchange.send(chunk({ content: "word " }, { usage: null }));
        await sleep(10);
      }
      await exchange.send(usageChunk(11, 20) + DONE);
      let open = true;
      void exchange.closedEarly.then(() => (open = false));
      while (open) {
        await Promise.race([exchange.send(chunk({ content: "free" }, { usage: null })), exchange.closedEarly]);
        await sleep(40);
      }
    });
    const startedAtMs = Date.now();
    const read = readAll(await tenant.post(bodyOf(model, `goes on, ${way}`, { stream: true, ...fields })));
    expect((await closed.promise) - startedAtMs).toBeLessThan(allowedMs(9_000));
    expect((await read).text).toContain("[DONE]");
    expect(await chargesAtRest(tenant)).toEqual([2, 31]);
  });
});

describe.concurrent("a tenant's own engine", () => {
  /** An instance behind this upstream, and what it is called at. */
  async function engine(tenant: Tenant, behind = upstreamId): Promise<string> {
    const id = randomInt(100_000_000, 900_000_000);
    const fields = {
      account: tenant.account,
      name: "own",
      upstreams: [behind],
      kind: "custom",
      custom_api_path: "/run",
    };
    await operator.call("PUT", `/instances/${id}`, fields);
    const prices = { requests: { cost_usd: 0.000_001, price_usd: 0.000_001 } };
    await operator.call("PUT", `/models/${encodeURIComponent(`own:${id}`)}`, { kind: "custom", prices });
    return `/inference-instances/${id}/proxy/run`;
  }
  const run = (tenant: Tenant, path: string, said: string) =>
    tenant.fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: `{"input":"${said}"}`,
    });

  test.each([
    ["that drips and never ends: is ended after total_ms", "drips", TOTAL_MS],
    ["that falls silent: is ended after idle_ms", "silent", IDLE_MS],
  ])("%s, charged once; others wait for nothing", async (_, said, afterMs) => {
    const [tenant, other] = [await operator.tenant(), await operator.tenant()];
    const [path, model] = [await engine(tenant), await modelOf()];
    scripts.set(said, async (exchange) => {
      exchange.begin("application/octet-stream");
      let open = true;
      void exchange.closedEarly.then(() => (open = false));
      await exchange.send("x");
      while (open) {
        await sleep(100);
        if (said === "drips") void exchange.send("x");
      }
    });
    scripts.set("beside", (exchange) => exchange.answer(completion("fine")));
    const startedAtMs = Date.now();
    const dripping = Array.from({ length: 8 }, async () => readAll(await run(tenant, path, said)));
    for (let call = 0; call < 5; call++) expect((await other.post(bodyOf(model, "beside"))).status).toBe(200);
    const ends = await Promise.all(dripping);
    expect(ends.map(({ whole }) => whole)).toEqual(ends.map(() => false));
    expect(Date.now() - startedAtMs).toBeGreaterThan(afterMs - 100);
    expect(Date.now() - startedAtMs).toBeLessThan(afterMs + allowedMs(4_000));
    expect(await chargesAtRest(tenant)).toEqual(ends.map(() => 1));
  });

  test("that answers 30 MB of {}: the bytes pass, charged once", async () => {
    const tenant = await operator.tenant();
    const path = await engine(tenant, patientId);
    const megabyte = "{},".repeat(MB / 3);
    scripts.set("braces", async (exchange) => {
      exchange.begin("application/json");
      for (let index = 0; index < 30; index++) await exchange.send(megabyte);
      exchange.end();
    });
    const passed = await (await run(tenant, path, "braces")).arrayBuffer();
    expect(passed.byteLength).toBe(30 * megabyte.length);
    expect(await chargesAtRest(tenant)).toEqual([1]);
  });
});

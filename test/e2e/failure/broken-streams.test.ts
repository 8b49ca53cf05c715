/**
 * The SDK never takes a broken stream for a whole one; who leaves, whenever, frees the upstream and the slot, and pays
 * once.
 */
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually, sleep } from "../../support/eventually.ts";
import { openaiOf } from "../../support/openai.ts";
import { chatPost, RawClient } from "../../support/raw-client.ts";
import { allowedMs } from "../../support/slowness.ts";
import { chunk, DONE, type Exchange, ScriptedUpstream, usageChunk } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator, sandboxUrl } = world();
const HI = [{ role: "user" as const, content: "Hi" }];
let impatient: string;

beforeAll(async () => {
  impatient = await operator.upstream(sandboxUrl, {
    timeouts: { first_byte_ms: 5_000, idle_ms: 500, total_ms: 20_000 },
  });
});

describe("the SDK raises an error", () => {
  test.each([
    ["cut", { fault: "truncate", after_frames: 4 }],
    ["stalled", { fault: "stall", ms: 5_000 }],
    ["garbled", { fault: "garble", after_frames: 4 }],
    ["an error frame", { fault: "error_frame", after_frames: 4 }],
    ["no [DONE]", { fault: "no_done" }],
  ])("%s", async (_name, fault) => {
    const tenant = await operator.tenant();
    const model = await operator.instance(tenant, { upstreams: [impatient] });
    await operator.sandbox.fault(model, fault);
    const asked = { model, messages: HI, max_tokens: 40, sandbox_output_tokens: 40, sandbox_frame_delay_ms: 10 };
    for (const include_usage of [false, true]) {
      const stream = await openaiOf(tenant).chat.completions.create({
        ...asked,
        stream: true,
        stream_options: { include_usage },
      });
      const read = async () => {
        for await (const chunk of stream) expect(chunk.choices).toBeDefined();
      };
      await expect(read()).rejects.toBeInstanceOf(Error);
      const helper = openaiOf(tenant).chat.completions.stream({ ...asked, stream_options: { include_usage } });
      await expect(helper.finalChatCompletion()).rejects.toBeInstanceOf(OpenAI.OpenAIError);
    }
    await eventually("four charges", async () => (await tenant.charges()).length === 4);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0 });
  });
});

describe("a reader that is 20 ms behind at each frame gets all of a broken stream and its error", () => {
  const FRAMES = 60;
  const WORDS = Array.from({ length: FRAMES }, (_, at) => chunk({ content: `word-${at} ` }, { usage: null }));
  let upstream: ScriptedUpstream;
  let model: string;
  let tenant: Awaited<ReturnType<typeof operator.tenant>>;
  beforeAll(async () => {
    upstream = await ScriptedUpstream.start(async (exchange) => {
      exchange.begin();
      for (const word of WORDS) await exchange.send(word);
      exchange.cut();
    });
    tenant = await operator.tenant();
    const id = await operator.upstream(upstream.url);
    model = await operator.alias(tenant, [
      { upstream: id, model: await operator.model(`cut-${id}`, { upstream: id }) },
    ]);
  });
  afterAll(() => upstream.stop());

  test.each([[true], [false]])("as bytes, usage asked for: %s", async (include_usage) => {
    const answer = await tenant.post({ model, messages: HI, stream: true, stream_options: { include_usage } });
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    let text = "";
    let left = "";
    const read = async () => {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return "taken for whole";
        left += new TextDecoder().decode(value);
        for (; left.includes("\n\n"); await sleep(20)) {
          const end = left.indexOf("\n\n") + 2;
          text += left.slice(0, end);
          left = left.slice(end);
        }
      }
    };
    await expect(read()).rejects.toThrow();
    expect(text.split("word-")).toHaveLength(FRAMES + 1);
    expect(text).toContain('"code":"upstream_error"');
  });

  test("as the SDK's chunks", async () => {
    const stream = await openaiOf(tenant).chat.completions.create({ model, messages: HI, stream: true });
    let chunks = 0;
    const read = async () => {
      for await (const _ of stream) {
        chunks++;
        await sleep(20);
      }
    };
    await expect(read()).rejects.toMatchObject({ code: "upstream_error" });
    expect(chunks).toBe(FRAMES);
  });
});

describe("a client that closes: the upstream is closed in time, one charge, the slot is free", () => {
  const FRAMES = 8;
  const frames = Array.from({ length: FRAMES }, (_, at) => chunk({ content: `word-${at} ` }, { usage: null }));
  const stop = chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage: null });
  const whole = [...frames, stop, usageChunk(10, FRAMES), DONE];
  /** When it leaves: after so many events, of which the last is the one it waits for; `exact`: usage had been told. */
  const moments: [string, { sent: number; awaited: string | null; exact?: boolean; withinMs?: number }][] = [
    ["before headers", { sent: 0, awaited: null }],
    ["after the first frame", { sent: 1, awaited: "word-0" }],
    ["in the middle", { sent: FRAMES / 2, awaited: `word-${FRAMES / 2 - 1}` }],
    // Its usage is waited for.
    ["before usage", { sent: FRAMES + 1, awaited: '"finish_reason":"stop"', withinMs: 6_000 }],
    ["after usage", { sent: FRAMES + 2, awaited: '"usage":{', exact: true }],
    ["after [DONE]", { sent: FRAMES + 3, awaited: "[DONE]", exact: true }],
  ];
  let script: (exchange: Exchange) => void | Promise<void>;
  let upstream: ScriptedUpstream;
  let id: string;
  let target: string;
  beforeAll(async () => {
    upstream = await ScriptedUpstream.start((exchange) => script(exchange));
    id = await operator.upstream(upstream.url);
    target = await operator.model(`scripted-${id}`, { upstream: id });
  });
  afterAll(() => upstream.stop());

  test.each(moments)("%s", async (_name, { sent, awaited, exact = false, withinMs = 1_000 }) => {
    const tenant = await operator.tenant({ max_parallel_requests: 1 });
    const model = await operator.alias(tenant, [{ upstream: id, model: target }]);
    const reached = Promise.withResolvers<Exchange>();
    // It says so much, and then keeps the connection open.
    script = async (exchange) => {
      reached.resolve(exchange);
      if (sent > 0) exchange.begin();
      for (const event of whole.slice(0, sent)) {
        await exchange.send(event);
        await sleep(10);
      }
    };
    const body = { model, messages: HI, stream: true, stream_options: { include_usage: true }, max_tokens: FRAMES };
    const client = new RawClient(operator.url, chatPost(tenant.key, body));
    const exchange = await reached.promise;
    if (awaited !== null) await client.until(awaited);
    const leftAtMs = Date.now();
    client.reset();
    expect((await exchange.closedEarly) - leftAtMs).toBeLessThan(allowedMs(withinMs));

    const callId = exchange.headers["x-request-id"];
    const charges = async () => (await tenant.charges()).filter(({ call_id }) => call_id === callId);
    const charge = await eventually("the charge", async () => (await charges())[0]);
    const tokens = -charge.amount_usd * 1e6;
    if (exact) expect(tokens).toBeCloseTo(10 + FRAMES, 3);
    // The prompt, at most a fourth of the bytes sent; of the answer what was sent: a word is one token to six.
    else {
      const prompt = Math.ceil(JSON.stringify(body).length / 4);
      expect([tokens >= 1 + Math.min(sent, FRAMES), tokens <= prompt + 6 * sent]).toEqual([true, true]);
    }

    script = (again) => again.stream(whole.join(""));
    const next = await tenant.chat(body);
    expect([next.status, String(next.body).includes("[DONE]")]).toEqual([200, true]);
    await eventually("the next one's charge", async () => (await tenant.charges()).length === 2);
    expect(await charges()).toHaveLength(1);
    expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0, overrun_usd: 0 });
  });
});

/**
 * What of an upstream's answer reaches the tenant, and how large answers pass: executed once, charged exactly, never
 * held.
 */
import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../src/core/endpoints/inference/chat.ts";
import { embeddings } from "../../src/core/endpoints/inference/embeddings.ts";
import { imageGenerations } from "../../src/core/endpoints/inference/images.ts";
import { cancelResponse, createResponse, getResponse } from "../../src/core/endpoints/inference/responses.ts";
import type { Owned } from "../../src/core/owned.ts";
import { aliasKey, type RoutingSnapshot } from "../../src/core/routing/routes.ts";
import { mayPassUnread } from "../../src/core/routing/target-health.ts";
import { ANSWER_ROOM_BYTES, BodyRoom } from "../../src/core/uploads/upload-limiter.ts";
import { serve } from "../../src/gateway/serve.ts";
import { answer, type FakeOptions, fakeWorld, json, makeKey, ROUTING, ROW } from "../support/fake-ports.ts";
import { allowedMs } from "../support/slowness.ts";

const MB = 1024 * 1024;
const chatAlias = ROUTING.aliases[aliasKey(null, "chat")];
const ROUTES = {
  ...ROUTING,
  aliases: {
    ...ROUTING.aliases,
    [aliasKey(null, "vectors")]: { ...chatAlias, alias: "vectors" },
    // Responses are not for instances.
    [aliasKey(null, "talk")]: {
      ...chatAlias,
      alias: "talk",
      targets: chatAlias?.targets.map((target) => ({ ...target, model: target.model.replace(/:.*/, "") })),
    },
  },
  models: {
    talk: [{ ...ROW, model: "talk" }],
    ...ROUTING.models,
    vectors: [{ ...ROW, model: "vectors", kind: "embedding" }],
    image: [{ ...ROW, model: "image", kind: "image", upstream: "u" }],
  },
} as RoutingSnapshot;

const CHAT = { model: "chat", messages: [{ role: "user", content: "hello" }] };
const MADE: Owned = {
  kind: "response",
  id: "resp_1",
  upstream: "u",
  targetModel: "first:1",
  model: "chat",
  totalTokens: 4,
};

interface Asked extends FakeOptions {
  readonly endpoint?: Endpoint;
  readonly body?: object;
  readonly params?: Record<string, string>;
  readonly own?: (id: string) => Promise<void>;
  readonly headers?: Record<string, string>;
}

async function ask(asked: Asked) {
  const { endpoint = chatCompletions, body = CHAT, params = {}, own, headers = {} } = asked;
  const world = fakeWorld({ routing: ROUTES, ...asked });
  const account: typeof world.ports.account = (number) => {
    const port = world.ports.account(number);
    return {
      ...port,
      recordOwnership: async (owned) => own?.(owned.id),
      authorize: async (digest, free) => {
        const permission = await port.authorize(digest, free);
        return permission.ok ? { ...permission, owned: [MADE] } : permission;
      },
    };
  };
  const ports = { ...world.ports, account };
  const isGet = endpoint.method === "GET";
  const request = new Request("http://gateway.test/", {
    method: endpoint.method,
    headers: {
      authorization: `Bearer ${makeKey()}`,
      ...(!isGet && { "content-type": "application/json" }),
      ...headers,
    },
    ...(!isGet && Object.keys(params).length === 0 && { body: JSON.stringify(body) }),
  });
  return { ...world, response: await serve(request, endpoint, params, ports) };
}

async function whole(asked: Asked) {
  const asking = await ask(asked);
  const text = await asking.response.text();
  await asking.idle();
  return { ...asking, text };
}

/** The text in pieces of 64 KB. `cut`: breaks off after it. */
function streamOf(text: string, cut = false, readBytes = (_: number) => {}): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (at >= bytes.length)
          return cut ? controller.error(new Error("Network connection lost.")) : controller.close();
        controller.enqueue(bytes.slice(at, at + 65_536));
        at += 65_536;
        readBytes(at);
      },
    },
    { highWaterMark: 0 },
  );
}

const jsonHeaders = (text?: string) => ({
  headers: { "content-type": "application/json", ...(text && { "content-length": String(text.length) }) },
});
const large = (text: string, cut = false) => answer(streamOf(text, cut), jsonHeaders());

const FOREIGN = { cost: 0.25, provider: "hidden-provider", is_byok: false, cost_details: { upstream: 1 } };
const CHOICES = [
  { index: 0, message: { role: "assistant", content: "hi", cost: "of choices" }, finish_reason: "stop" },
];

describe("costs and names of providers in an answer's usage or beside it are seen by no tenant, and the charge is exact", () => {
  const foreign = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, ...FOREIGN };

  it("in JSON", async () => {
    const body = { id: "c", provider: "hidden-provider", choices: CHOICES, usage: foreign, account_id: "acc_1" };
    const { text, settled } = await whole({ script: () => json(body) });
    expect(JSON.parse(text)).toEqual({
      id: "c",
      choices: CHOICES,
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    });
    expect(settled[0]?.reading).toEqual({ source: "exact", usage: { input_tokens: 3, output_tokens: 2 } });
  });

  it.each([getResponse, cancelResponse])("in what $id reads back", async (endpoint) => {
    const body = { id: "resp_1", object: "response", output: [], usage: { input_tokens: 3, ...FOREIGN }, billing: {} };
    const { text } = await whole({ endpoint, params: { id: "resp_1" }, script: () => json(body) });
    expect(text).toBe('{"id":"resp_1","object":"response","output":[],"usage":{"input_tokens":3}}');
  });

  it.each([false, true])("in the answer to a repeat, streamed: %s", async (stream) => {
    const made = { id: "resp_1", status: "completed", output: [], usage: { input_tokens: 3, ...FOREIGN }, ...FOREIGN };
    const earlier = { callId: "call-0", state: "completed", status: 200, created: MADE } as never;
    const { text, response } = await whole({
      endpoint: createResponse,
      body: { model: "talk", input: "hi", stream },
      headers: { "idempotency-key": "once" },
      admit: () => ({ ok: false, refusal: { kind: "internal" }, earlier }),
      script: () => json(made),
    });
    expect([response.status, response.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
    expect(text).toContain('"usage":{"input_tokens":3}');
    expect(text).not.toMatch(/cost|hidden-provider/);
  });

  const frame = (data: object | string) => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
  const choices = [{ index: 0, delta: { content: "häh" }, finish_reason: "stop" }];
  const word = frame({ id: "c", provider: "p", choices, usage: null });
  const usageFrame = (usage: object) => frame({ id: "c", choices: [], usage });
  const events = (text: string, pieceBytes: number) => {
    const bytes = new TextEncoder().encode(text);
    const pieces = Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_, turn) =>
      bytes.slice(turn * pieceBytes, (turn + 1) * pieceBytes),
    );
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const piece of pieces) controller.enqueue(piece);
        controller.close();
      },
    });
    return answer(body, { headers: { "content-type": "text/event-stream" } });
  };

  it.each([1, 7, 100_000])(
    "in the usage frame that its client asked for, in pieces of %d bytes",
    async (pieceBytes) => {
      const clean = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
      const options = { body: { ...CHAT, stream: true, stream_options: { include_usage: true } } };
      const stream = (usage: object) =>
        `: a comment\n\n${word}event: x\r\nid: 1\r\n${usageFrame(usage)}${frame("[DONE]")}`;
      const asIs = await whole({ ...options, script: () => events(stream(clean), pieceBytes) });
      expect(asIs.text).toBe(stream(clean));
      const { text, settled } = await whole({ ...options, script: () => events(stream(foreign), pieceBytes) });
      expect(text).toBe(stream(clean).replaceAll("\r\n", "\n"));
      expect(settled[0]?.reading).toEqual({ source: "exact", usage: { input_tokens: 3, output_tokens: 2 } });
    },
  );

  it("in response.completed", async () => {
    const response = {
      id: "resp_1",
      object: "response",
      created_at: 1,
      model: "talk",
      status: "in_progress",
      output: [],
    };
    const ended = (usage: object) => ({ ...response, status: "completed", usage });
    const stream = (usage: object) =>
      frame({ type: "response.created", sequence_number: 0, response }) +
      frame({ type: "response.in_progress", sequence_number: 1, response }) +
      frame({ type: "response.completed", sequence_number: 2, response: ended(usage) });
    const { text, settled } = await whole({
      endpoint: createResponse,
      body: { model: "talk", input: "hi", stream: true },
      script: () => events(stream({ input_tokens: 3, ...FOREIGN, output_tokens: 2 }), 50),
    });
    expect(text).toBe(stream({ input_tokens: 3, output_tokens: 2 }));
    expect(settled[0]?.reading).toEqual({ source: "exact", usage: { input_tokens: 3, output_tokens: 2 } });
  });

  const nested = { id: "g", usage: { prompt_tokens: 1, ...FOREIGN, queue_time: 0.1 } };
  const nestedClean = { id: "g", usage: { prompt_tokens: 1 } };
  const choicesWith = (usage: object) => [{ index: 0, message: { content: "hi" }, finish_reason: "stop", usage }];

  it("in JSON inside `choices`, and in a member of an engine's own", async () => {
    const body = {
      id: "c",
      choices: choicesWith(foreign),
      x_groq: nested,
      usage: { prompt_tokens: 3, completion_tokens: 2 },
    };
    const { text } = await whole({ script: () => json(body) });
    const clean = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    expect(JSON.parse(text)).toEqual({ id: "c", choices: choicesWith(clean), usage: body.usage });
  });

  it("in JSON over 4 MB inside `choices`", async () => {
    const body = { choices: [...choicesWith(foreign), { message: { content: "x".repeat(5 * MB) } }] };
    const { text } = await whole({ script: () => large(JSON.stringify(body)) });
    expect(text.length).toBeGreaterThan(5 * MB);
    expect(text).not.toMatch(/cost|provider|byok/);
  });

  it.each([1, 100_000])(
    "in any frame, beside words or in a member of an engine's own, in pieces of %d bytes",
    async (bytes) => {
      const stream = (usage: object, own: object) =>
        frame({
          id: "c",
          choices: [{ delta: { content: 'says "usage": {"cost": 1}' }, finish_reason: "stop", usage }],
          x_groq: own,
        }) +
        frame(`{"x_groq":${JSON.stringify(own).replace("usage", "\\u0075sage")},"choices":[]}`) +
        usageFrame({ prompt_tokens: 3, completion_tokens: 2 }) +
        frame("[DONE]");
      const options = { body: { ...CHAT, stream: true, stream_options: { include_usage: true } } };
      const clean = stream({ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }, nestedClean);
      expect((await whole({ ...options, script: () => events(clean, bytes) })).text).toBe(clean);
      const { text, settled } = await whole({ ...options, script: () => events(stream(foreign, nested), bytes) });
      expect(text).toBe(clean);
      expect(settled[0]?.reading.source).toBe("exact");
    },
  );

  it("in a second usage of one name, whose last is null, and is charged by own count then", async () => {
    const twice = `{"id":"c","choices":[],"usage":${JSON.stringify(foreign)},"usage":null}`;
    const options = { body: { ...CHAT, stream: true, stream_options: { include_usage: true } } };
    const { text, settled } = await whole({
      ...options,
      script: () => events(word + frame(twice) + frame("[DONE]"), 9),
    });
    expect(text).not.toMatch(/cost|hidden-provider/);
    expect(settled[0]?.reading).toMatchObject({ source: "own_count" });
    const whole2 = twice.replace("[]", JSON.stringify(CHOICES)).replace("of choices", "x");
    const asJson = await whole({ script: () => large(whole2) });
    expect(asJson.text).not.toMatch(/0.25|hidden-provider/);
    expect(asJson.settled[0]?.reading).toMatchObject({ source: "own_count" });
  });

  it("in an item of a response, and the caller's own schema passes as it is", async () => {
    const item = (usage: object) => ({ type: "message", content: [{ text: "hi" }], usage });
    const tools = [{ type: "function", parameters: { properties: { usage: { type: "string", cost: 1 } } } }];
    const stream = (usage: object) =>
      frame({ type: "response.created", response: { id: "resp_1", tools, usage: null } }) +
      frame({ type: "response.output_item.done", item: item(usage) }) +
      frame({ type: "response.completed", response: { id: "resp_1", tools, output: [item(usage)], usage } });
    const { text } = await whole({
      endpoint: createResponse,
      body: { model: "talk", input: "hi", stream: true },
      script: () => events(stream({ input_tokens: 3, ...FOREIGN, output_tokens: 2 }), 50),
    });
    expect(text).not.toMatch(/0\.25|hidden-provider|is_byok/);
    expect(text.split('"usage":{"input_tokens":3,"output_tokens":2}').length).toBeGreaterThan(3);
    expect(text).toContain(JSON.stringify(tools));
  });

  it("and no stream of a target passes unread before a usage frame of it was seen to hold nothing else", async () => {
    const target = { upstream: "u", model: "first:1" };
    const stream = (usage: object) => events(`${word}${usageFrame(usage)}${frame("[DONE]")}`, 64);
    const clean = { prompt_tokens: 3, completion_tokens: 2 };
    const usages: object[] = [];
    const asked = { body: { ...CHAT, stream: true }, script: () => stream(usages.shift() ?? clean) };
    const { ports } = await ask({ ...asked, script: () => events(`${word}${frame("[DONE]")}`, 64) });
    const health = ports.upstreams.health;
    const unread = (atMs = Date.now()) => mayPassUnread(health.of(target), atMs);
    const stream1 = async (...next: object[]) => {
      usages.push(...next);
      const world = fakeWorld({ ...asked, routing: ROUTES });
      const request = new Request("http://gateway.test/", {
        method: "POST",
        headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" },
        body: JSON.stringify(asked.body),
      });
      const upstreams = { ...world.ports.upstreams, health };
      await (await serve(request, chatCompletions, {}, { ...world.ports, upstreams })).text();
      await world.idle();
    };
    expect(unread()).toBe(false);
    await stream1(clean);
    expect(unread()).toBe(true);
    await stream1(foreign);
    expect(unread()).toBe(false);
    await stream1(clean);
    expect(unread()).toBe(false);
    expect(unread(Date.now() + 3_600_000)).toBe(true);
  });
});

describe("figures that are told more than once, or too early", () => {
  const frame = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
  const say = (content: string, usage?: object) => frame({ choices: [{ index: 0, delta: { content } }], usage });
  const told = (input: number, output: number) => ({ prompt_tokens: input, completion_tokens: output });
  const streamed = async (text: string) => {
    const script = () => answer(streamOf(text), { headers: { "content-type": "text/event-stream" } });
    const body = { ...CHAT, stream: true, max_tokens: 10, stream_options: { include_usage: true } };
    const { response, idle, settled } = await ask({ body, script });
    await response.text().catch(() => "broken off");
    await idle();
    return settled[0]?.reading;
  };
  const DONE = "data: [DONE]\n\n";
  const own = (input: number, output: number) => ({
    source: "own_count",
    usage: { input_tokens: input, output_tokens: output },
  });
  const exact = (input: number, output: number) => ({ ...own(input, output), source: "exact" });

  it.each([
    ["with each frame: the last count", say("a", told(9, 1)) + say("b", told(9, 2)) + DONE, exact(9, 2)],
    ["in the first frame, and never again", say("a", told(9, 0)) + say("b").repeat(5) + DONE, own(9, 6)],
    ["in the first frame, and the stream breaks off", say("a", told(9, 0)) + say("b").repeat(5), own(9, 6)],
    ["early and in full", say("a", told(9, 7)) + say("b").repeat(3) + DONE, exact(9, 7)],
    ["early, and more is written than the cap allows", say("", told(9, 1)) + say("b").repeat(50) + DONE, own(9, 10)],
    ["twice: the last count", say("a", told(9, 5)) + frame({ choices: [], usage: told(9, 3) }) + DONE, exact(9, 3)],
  ])("%s", async (_, text, reading) => {
    expect(await streamed(text)).toEqual(reading);
  });
});

/** `megabytes` of vectors, as an engine writes them. */
function vectors(megabytes: number, ending = ""): string {
  const vector = `{"object":"embedding","index":0,"embedding":[${"0.0123456789,".repeat(1535)}1]}`;
  const data = Array.from({ length: Math.ceil((megabytes * MB) / vector.length) }, () => vector).join(",");
  return `{"object":"list","provider":"p","data":[${data}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7,"cost":1}${ending}`;
}
const asPassed = (text: string) => text.replace('"provider":"p",', "").replace(',"cost":1', "");
const VECTORS = { endpoint: embeddings, body: { model: "vectors", input: ["a".repeat(40)] } };
const OWN_COUNT = { source: "own_count" };

describe("a JSON answer over 4 MB", () => {
  it.each([true, false])("passes as it comes, is executed once and charged exactly; length told: %s", async (told) => {
    const text = vectors(9, "}");
    const passed = await whole({
      ...VECTORS,
      script: () => answer(streamOf(text), jsonHeaders(told ? text : undefined)),
    });
    expect(passed.response.status).toBe(200);
    expect(passed.response.headers.get("content-type")).toBe("application/json");
    expect(passed.text === asPassed(text)).toBe(true);
    expect(passed.sent).toHaveLength(1);
    expect(passed.settled).toEqual([
      expect.objectContaining({ outcome: "completed", reading: { source: "exact", usage: { input_tokens: 7 } } }),
    ]);
  });

  it("is read no faster than its client takes it", async () => {
    let readBytes = 0;
    const text = vectors(12, "}");
    const body = streamOf(text, false, (bytes) => {
      readBytes = bytes;
    });
    const { response, settled, idle } = await ask({ ...VECTORS, script: () => answer(body, jsonHeaders(text)) });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect([readBytes < 1.5 * MB, settled.length]).toEqual([true, 0]);
    expect((await response.text()).length).toBe(asPassed(text).length);
    await idle();
    expect(settled).toHaveLength(1);
  });

  it.each([
    ["cut off", () => large(vectors(6), true)],
    ["closed before its end", () => large(vectors(6))],
    ["malformed in the end", () => large(vectors(6, "}}"))],
  ])("that is %s never ends as if it were whole, and is charged by own count, once", async (_, first) => {
    const { response, settled, released, sent, idle } = await ask({ ...VECTORS, script: first });
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
    await idle();
    expect([sent.length, released.length, settled.length]).toEqual([1, 0, 1]);
    expect(settled[0]).toMatchObject({ outcome: "stream_broken" });
    expect(settled[0]?.reading.usage.input_tokens).toBeGreaterThan(0);
  });

  it("of words without usage is charged by the words that passed, up to the cap that was sent", async () => {
    const text = JSON.stringify({ id: "c", choices: [{ message: { content: "x".repeat(5 * MB) } }] });
    const { settled, sent } = await whole({ script: () => large(text) });
    expect(settled[0]?.reading).toMatchObject(OWN_COUNT);
    expect(settled[0]?.reading.usage.output_tokens).toBe(sent[0]?.body.max_tokens);
  });

  it("of one image is one image", async () => {
    const text = JSON.stringify({ created: 1, data: [{ b64_json: "A".repeat(6 * MB) }], cost: 1 });
    const asked = { endpoint: imageGenerations, body: { model: "image", prompt: "a fox" } };
    const { text: passed, settled } = await whole({ ...asked, script: () => large(text) });
    expect(passed === text.replace(',"cost":1', "")).toBe(true);
    expect(settled[0]?.reading).toEqual({ source: "exact", usage: { images: 1 } });
  });

  it.each([
    ["no JSON", `<html>${"x".repeat(5 * MB)}`],
    ["an error", `{"error":{"message":"x"},"data":["${"x".repeat(5 * MB)}"]}`],
  ])("that is %s from its beginning is passed over: nothing was told yet", async (_, text) => {
    let calls = 0;
    const { response, settled } = await whole({
      ...VECTORS,
      script: () => (calls++ === 0 ? large(text) : json({ data: [], usage: { prompt_tokens: 2 } })),
    });
    expect(response.status).toBe(200);
    expect(settled.map(({ servedBy }) => servedBy.model)).toEqual(["second:2"]);
  });

  it("passes free where it is read back", async () => {
    const text = JSON.stringify({ id: "resp_1", output: [{ text: "x".repeat(5 * MB) }], billing: 1, usage: FOREIGN });
    const asked = { endpoint: getResponse, params: { id: "resp_1" } };
    const { text: passed, settled } = await whole({ ...asked, script: () => large(text) });
    expect(passed === `${text.slice(0, text.indexOf(',"billing"'))},"usage":{}}`).toBe(true);
    expect(settled).toEqual([]);
  });
});

describe("a large answer that hands out an id", () => {
  const asked = { endpoint: createResponse, body: { model: "talk", input: "hi" } };
  const output = `"output":[{"content":[{"text":"${"x".repeat(5 * MB)}"}]}]`;

  it("passes once the id is recorded", async () => {
    const recorded: string[] = [];
    const { settled, text } = await whole({
      ...asked,
      own: async (id) => void recorded.push(id),
      script: () => large(`{"id":"resp_9",${output},"usage":{"input_tokens":9,"output_tokens":2}}`),
    });
    expect([recorded, text.length > 5 * MB]).toEqual([["resp_9"], true]);
    expect(settled[0]?.reading).toEqual({ source: "exact", usage: { input_tokens: 9, output_tokens: 2 } });
  });

  it.each([
    ["after all that may be held", async () => undefined, `{${output},"id":"resp_9"}`],
    ["and cannot be recorded", () => Promise.reject(new Error("no object")), `{"id":"resp_9",${output}}`],
  ])("%s does not pass", async (_, own, text) => {
    const refused = await whole({ ...asked, own, script: () => large(text) });
    expect(refused.response.status).toBeGreaterThanOrEqual(500);
    expect(refused.text).not.toContain("resp_9");
    expect([refused.sent.length, refused.released.length, refused.settled.length]).toEqual([1, 1, 0]);
  });
});

describe("an answer of an engine that means harm", () => {
  it.each([
    ["in `choices`", (inside: string) => `{"choices":[${inside}]}`],
    ["beside it", (inside: string) => `{"choices":[],"x":[${inside}]}`],
  ])("of 30 MB of {} %s costs no more than its bytes, is executed once and charged", async (_, around) => {
    const text = around(`${"{},".repeat(10 * MB)}{}`);
    const startedAt = performance.now();
    const before = process.memoryUsage().heapUsed;
    const { response, sent, settled, idle } = await ask({ script: () => large(text) });
    let bytes = 0;
    for await (const chunk of response.body as ReadableStream<Uint8Array>) bytes += chunk.length;
    await idle();
    expect(bytes).toBeGreaterThan(0);
    expect(performance.now() - startedAt).toBeLessThan(allowedMs(5_000));
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(200 * MB);
    expect([sent.length, settled.length]).toEqual([1, 1]);
  });

  it("of 1 MB of {} is not built in memory either", async () => {
    const text = `{"choices":[${"{},".repeat(300_000)}{}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`;
    const { settled, text: passed } = await whole({ script: () => large(text) });
    expect(passed === text).toBe(true);
    expect(settled[0]?.reading.source).toBe("exact");
  });

  it("of {} after {} is none", async () => {
    const { response, sent } = await whole({ script: () => large("{}".repeat(5 * MB)) });
    expect([response.status, sent.length]).toEqual([502, 2]);
  });
});

describe("room for large answers that are held whole", () => {
  const text = vectors(2, "}");

  it("is given back when the client has them", async () => {
    const answers = new BodyRoom(ANSWER_ROOM_BYTES);
    const { response, idle } = await ask({ ...VECTORS, answers, script: () => large(text) });
    expect(answers.heldBytes).toBe(4 * MB);
    expect((await response.text()) === asPassed(text)).toBe(true);
    await idle();
    expect(answers.heldBytes).toBe(0);
  });

  it("is given back when a target broke off, and the next one is asked", async () => {
    const answers = new BodyRoom(ANSWER_ROOM_BYTES);
    let calls = 0;
    const { settled } = await whole({ ...VECTORS, answers, script: () => large(text, calls++ === 0) });
    expect([answers.heldBytes, settled.length, settled[0]?.servedBy.model]).toEqual([0, 1, "second:2"]);
  });

  it("is waited for by nobody: an answer that finds none passes as it comes", async () => {
    const answers = new BodyRoom(1 * MB);
    const { settled, text: passed } = await whole({ ...VECTORS, answers, script: () => large(text) });
    expect([passed === asPassed(text), answers.heldBytes]).toEqual([true, 0]);
    expect(settled[0]?.reading).toEqual({ source: "exact", usage: { input_tokens: 7 } });
  });
});

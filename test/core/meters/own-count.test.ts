/**
 * What a body is held for and what a leaver pays, against what the sandbox's own tokenizers count: four bytes a token,
 * and two, as for text that a vocabulary knows badly.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { inputTokensOf } from "../../../sandbox/chat/prompt.ts";
import { ChatRequest } from "../../../sandbox/chat/request.ts";
import { tokenizerOf } from "../../../sandbox/chat/tokens.ts";
import { newInputTokens, ResponseRequest } from "../../../sandbox/responses/request.ts";
import { embeddedTokens, rankedTokens } from "../../../sandbox/retrieval/tokens.ts";
import { continuing } from "../../../src/core/account/hold.ts";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../../src/core/endpoints/inference/chat.ts";
import { embeddings } from "../../../src/core/endpoints/inference/embeddings.ts";
import { rerank } from "../../../src/core/endpoints/inference/rerank.ts";
import { createResponse } from "../../../src/core/endpoints/inference/responses.ts";
import type { ModelRow } from "../../../src/core/pricing/prices.ts";

const ROW: ModelRow = {
  model: "m",
  kind: "chat",
  fromMs: 0,
  costNanoUsd: {},
  priceNanoUsd: {},
  free: false,
  maxOutputTokens: 500,
};

function callOf(endpoint: Endpoint, value: object) {
  const parsed = endpoint.parse({ askedPath: "", params: {}, body: { kind: "json", value } });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
  return parsed.call;
}

/** What is held for a call's input, and what one pays who leaves before anything came. */
function judged(endpoint: Endpoint, value: object, row: Partial<ModelRow> = {}, earlierTokens = 0) {
  const call = callOf(endpoint, value);
  const priced = { ...ROW, ...row };
  expect(call.boundless(priced)).toBeNull();
  const measured = { sentBytes: call.payload.countedBytes + 8, recordingMs: null };
  const bound = continuing(call.bound(priced, measured), earlierTokens, priced.contextTokens);
  const reader = call.reader({ row: priced, outputCap: bound.output?.cap, measured, earlierTokens });
  const { usage } = reader.reading();
  return { held: bound.fixed.input_tokens ?? 0, charged: usage.input_tokens ?? 0, reader, bound };
}

const COMMON = "llama-7b";
const GLYPHS = "glyph-7b";

/** `trueTokens`: what the model of this name reads. */
function expectSound(endpoint: Endpoint, value: object, trueTokens: (model: string) => number, earlier = 0) {
  const { held, charged } = judged(endpoint, value, {}, earlier);
  for (const model of [COMMON, GLYPHS]) expect(trueTokens(model) + earlier).toBeLessThanOrEqual(held);
  expect(charged).toBeGreaterThanOrEqual(0.95 * (trueTokens(COMMON) + earlier));
  expect(2 * charged).toBeGreaterThanOrEqual(trueTokens(GLYPHS) + earlier);
  expect(charged).toBeLessThanOrEqual(held);
}

const text = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.string({ unit: "grapheme", maxLength: 40 }),
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.nat(3_000).map((length) => "word ".repeat(length)),
);
const imageUrl = fc.constantFrom("https://x.test/a.png", `data:image/png;base64,${"A".repeat(4_000)}`);
const textPart = text.map((said) => ({ type: "text", text: said }));
const imagePart = imageUrl.map((url) => ({ type: "image_url", image_url: { url } }));
const parts = fc.array(fc.oneof(textPart, imagePart), { minLength: 1, maxLength: 6 });
const schema = fc.dictionary(
  fc.string({ maxLength: 8 }),
  fc.record({ type: fc.constant("string"), description: text }),
);
const clean = (value: object): boolean =>
  [chatCompletions, createResponse].some(
    (endpoint) => endpoint.parse({ askedPath: "", params: {}, body: { kind: "json", value } }).ok,
  );
const tools = fc.array(
  schema.map((properties) => ({
    type: "function",
    function: { name: "look_up", description: "d".repeat(300), parameters: { type: "object", properties } },
  })),
  { minLength: 1, maxLength: 4 },
);
const toolCalls = fc.array(
  text.map((said) => ({
    id: "call_1",
    type: "function",
    function: { name: "f", arguments: JSON.stringify({ said }) },
  })),
  { minLength: 1, maxLength: 3 },
);
const message = fc.oneof(
  fc.record({ role: fc.constantFrom("system", "user", "assistant"), content: fc.oneof(text, parts) }),
  fc.record({ role: fc.constant("assistant"), content: fc.constant(null), tool_calls: toolCalls }),
  fc.record({ role: fc.constant("assistant") }),
  fc.record({ role: fc.constant("tool"), tool_call_id: fc.constant("call_1"), content: fc.oneof(text, parts) }),
);
const messages = fc.array(message, { minLength: 1, maxLength: 12 });
const settings = { stream: fc.boolean(), max_tokens: fc.integer({ min: 1, max: 100 }) };

describe("what is held covers what was read, and a leaver pays for it, for any valid", () => {
  it("chat completion", () => {
    const body = fc
      .record({ messages, tools, ...settings }, { requiredKeys: ["messages"] })
      .map((fields) => JSON.parse(JSON.stringify({ model: "m", ...fields })))
      .filter(clean);
    fc.assert(
      fc.property(body, (chat) => {
        expectSound(chatCompletions, chat, (model) => inputTokensOf(ChatRequest.parse({ ...chat, model })));
      }),
    );
  });

  it("response, with or without a conversation before it", () => {
    const content = fc.oneof(
      text,
      fc.array(
        text.map((said) => ({ type: "input_text", text: said })),
        { minLength: 1, maxLength: 5 },
      ),
    );
    const image = imageUrl.map((url) => ({ type: "input_image", image_url: url }));
    const output = fc.oneof(text, fc.array(image, { maxLength: 20 }));
    const item = fc.oneof(
      fc.record({ role: fc.constantFrom("user", "assistant", "system"), content }),
      fc.record({ role: fc.constant("user"), content: fc.constant(null), image_url: imageUrl }),
      fc.record({ type: fc.constant("function_call"), name: text, call_id: fc.constant("c"), arguments: text }),
      fc.record({ type: fc.constant("function_call_output"), call_id: fc.constant("c"), output }),
    );
    const body = fc
      .record(
        {
          input: fc.oneof(text, fc.array(item, { minLength: 1, maxLength: 12 })),
          instructions: text,
          tools,
          ...settings,
        },
        { requiredKeys: ["input"] },
      )
      .map(({ max_tokens, ...fields }) => JSON.parse(JSON.stringify({ model: "m", ...fields })))
      .filter(clean);
    fc.assert(
      fc.property(body, fc.oneof(fc.constant(0), fc.nat(200_000)), (response, earlier) => {
        const read = (model: string) => newInputTokens(ResponseRequest.parse({ ...response, model }));
        expectSound(createResponse, response, read, earlier);
      }),
    );
  });

  it("batch of texts to embed", () => {
    const texts = fc.array(text, { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(texts, (input) => {
        expectSound(embeddings, { model: "m", input }, (model) => embeddedTokens(input, model));
      }),
    );
  });

  it("ranking", () => {
    const documents = fc.array(text, { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(text.filter(Boolean), documents, (query, texts) => {
        const body = { model: "m", query, documents: texts };
        expectSound(rerank, body, (model) => rankedTokens(query, texts, model));
      }),
    );
  });
});

describe("the examples: 13,500 tokens were read and 27 charged", () => {
  const long = "word ".repeat(10_800);
  const user = { role: "user", content: "Hi" };
  const called = { id: "1", type: "function", function: { name: "f", arguments: JSON.stringify({ long }) } };
  const picture = { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(40_000)}` } };

  it.each<[string, object]>([
    [
      "in a tool's description",
      { messages: [user], tools: [{ type: "function", function: { name: "f", description: long } }] },
    ],
    ["in the arguments of a call", { messages: [user, { role: "assistant", content: null, tool_calls: [called] }] }],
    ["in 40 images", { messages: [{ role: "user", content: Array(40).fill(picture) }] }],
    ["in a tool's result", { messages: [user, { role: "tool", tool_call_id: "1", content: Array(40).fill(picture) }] }],
  ])("%s", (_, fields) => {
    const body = { model: "m", stream: true, ...fields };
    const read = inputTokensOf(ChatRequest.parse(body));
    expect(read).toBeGreaterThan(10_000);
    const { charged, held } = judged(chatCompletions, body);
    expect(charged).toBeGreaterThanOrEqual(0.95 * read);
    expect(charged).toBeLessThan(1.1 * read);
    expect(held).toBeGreaterThanOrEqual(charged);
  });

  it("in an earlier conversation", () => {
    const { charged, held } = judged(createResponse, { model: "m", input: "Hi" }, {}, 13_500);
    expect(charged).toBeGreaterThan(13_500);
    expect(charged).toBeLessThan(13_530);
    expect(held).toBeGreaterThanOrEqual(charged);
  });

  it("never above what was held: the context where the row names one, and the cap for each choice", () => {
    const body = { model: "m", stream: true, n: 2, messages: [{ role: "user", content: long }] };
    const { reader, charged } = judged(chatCompletions, body, { contextTokens: 1_000, maxOutputTokens: 3 });
    expect(charged).toBe(1_000);
    if (reader.kind !== "events") throw new Error("expected an event reader");
    for (let frame = 0; frame < 20; frame++) {
      reader.event(JSON.stringify({ choices: [{ delta: { content: "word word word" } }] }));
    }
    expect(reader.reading().usage).toEqual({ input_tokens: 1_000, output_tokens: 6 });
  });

  it("counts at the price book's `part_tokens`", () => {
    const body = { model: "m", messages: [{ role: "user", content: [picture] }] };
    const bytes = judged(chatCompletions, body, { partTokens: 0 }).charged;
    expect(judged(chatCompletions, body).charged).toBe(bytes + 256);
    expect(judged(chatCompletions, body, { partTokens: 1_700 }).charged).toBe(bytes + 1_700);
  });

  it("the second tokenizer reads twice as much", () => {
    expect([tokenizerOf(COMMON).tokenBytes, tokenizerOf(GLYPHS).tokenBytes]).toEqual([4, 2]);
    const body = { messages: [{ role: "user", content: [{ type: "text", text: long }, picture] }] };
    const [four = 0, two = 0] = [COMMON, GLYPHS].map((model) => inputTokensOf(ChatRequest.parse({ ...body, model })));
    expect(two - 9).toBe(2 * (four - 9));
  });
});

describe("parts of unknown length", () => {
  const video = { role: "user", content: [{ type: "video_url", video_url: { url: "https://x.test/a.mp4" } }] };
  const body = { model: "m", messages: [video] };

  it("are refused where the row names neither a context nor the most that a part comes to", () => {
    expect(callOf(chatCompletions, body).boundless(ROW)).toMatchObject({ kind: "invalid_request" });
    const responses = { model: "m", input: [{ role: "user", content: [{ type: "input_file", file_data: "AA" }] }] };
    expect(callOf(createResponse, responses).boundless(ROW)).toMatchObject({ kind: "invalid_request" });
    for (const row of [{ contextTokens: 8_192 }, { maxPartTokens: 5_000 }]) {
      expect(callOf(chatCompletions, body).boundless({ ...ROW, ...row })).toBeNull();
    }
  });

  it("are held and, where usage is not known, charged for the whole context, unless the row says what a part is", () => {
    const context = { contextTokens: 100_000, maxPartTokens: 2_000 };
    expect(judged(chatCompletions, body, context)).toMatchObject({ held: 100_000, charged: 100_000 });
    const said = judged(chatCompletions, body, { ...context, partTokens: 3_000 });
    expect(said.held).toBe(100_000);
    expect(said.charged).toBeLessThan(3_050);
    const most = judged(chatCompletions, body, { maxPartTokens: 50_000 });
    expect(most.held).toBeGreaterThan(50_000);
    expect(most.charged).toBe(most.held);
  });
});

describe("figures of an upstream far below what was sent", () => {
  const body = { model: "m", messages: [{ role: "user", content: "word ".repeat(800) }] };
  const read = (endpoint: Endpoint, value: object, answer: object, earlier = 0) => {
    const { reader } = judged(endpoint, value, {}, earlier);
    if (reader.kind !== "json") throw new Error("expected a JSON reader");
    reader.read(answer);
    return reader.reading();
  };
  const completion = (prompt_tokens: unknown) => ({ choices: [], usage: { prompt_tokens, completion_tokens: 1 } });

  it("are charged as they are, and marked", () => {
    for (const [figure, lowInput] of [
      [0, true],
      [99, true],
      [102, undefined],
      [1_003, undefined],
    ] as const) {
      const reading = read(chatCompletions, body, completion(figure));
      expect([figure, reading]).toEqual([
        figure,
        { source: "exact", usage: { input_tokens: figure, output_tokens: 1 }, ...(lowInput && { lowInput }) },
      ]);
    }
  });

  it("wherever tokens are charged", () => {
    const said = "word ".repeat(800);
    const answers: [Endpoint, object, object][] = [
      [
        createResponse,
        { model: "m", input: said },
        { id: "r", output: [], usage: { input_tokens: 1, output_tokens: 0 } },
      ],
      [embeddings, { model: "m", input: said }, { data: [], usage: { prompt_tokens: 1 } }],
      [rerank, { model: "m", query: "q", documents: [said] }, { results: [], usage: { total_tokens: 1 } }],
    ];
    for (const [endpoint, value, answer] of answers) {
      expect([endpoint.id, read(endpoint, value, answer)]).toMatchObject([
        endpoint.id,
        { source: "exact", lowInput: true },
      ]);
    }
  });

  it("not for the bound that a conversation was recorded with", () => {
    const answer = { id: "r", output: [], usage: { input_tokens: 30, output_tokens: 0 } };
    expect(read(createResponse, { model: "m", input: "Hi" }, answer, 50_000)).not.toHaveProperty("lowInput");
  });
});

describe("output by our own count", () => {
  const stream = (endpoint: Endpoint, value: object) => {
    const { reader } = judged(endpoint, { model: "m", stream: true, ...value });
    if (reader.kind !== "events") throw new Error("expected an event reader");
    return reader;
  };
  const output = (reader: ReturnType<typeof stream>) => reader.reading().usage.output_tokens;
  const long = "x".repeat(400);

  it.each<[string, object, number]>([
    ["text", { content: long }, 100],
    ["a refusal", { refusal: long }, 100],
    ["reasoning, said under two names at once", { reasoning: long, reasoning_content: long }, 100],
    ["a tool call", { tool_calls: [{ index: 0, id: "1", type: "function", function: { arguments: long } }] }, 100],
    ["a custom tool's call", { tool_calls: [{ type: "custom", custom: { input: long } }] }, 100],
    ["an old function call", { function_call: { arguments: long } }, 100],
    ["a transcript, without its sound", { audio: { id: "a", data: long, transcript: long } }, 100],
    ["the role", { role: "assistant", content: "" }, 0],
  ])("of chat: %s", (_, delta, tokens) => {
    const reader = stream(chatCompletions, { messages: [{ role: "user", content: "Hi" }] });
    reader.event(JSON.stringify({ choices: [{ delta }] }));
    expect(output(reader)).toBe(tokens);
  });

  it("of responses: pieces as they come, and items that come whole, once each", () => {
    const reader = stream(createResponse, { input: "Hi" });
    const event = (said: object) => reader.event(JSON.stringify(said));
    event({ type: "response.output_text.delta", delta: long });
    event({ type: "response.function_call_arguments.delta", delta: long });
    expect(output(reader)).toBe(200);
    event({ type: "response.output_item.done", item: { content: [{ type: "output_text", text: long }] } });
    event({ type: "response.output_item.done", item: { type: "function_call", arguments: long } });
    expect(output(reader)).toBe(200);
    event({ type: "response.output_item.done", item: { type: "custom_tool_call", input: long } });
    expect(output(reader)).toBe(300);
    event({ type: "response.audio.delta", delta: long });
    expect(output(reader)).toBe(300);
    const whole = [{ content: [{ text: long }] }, { arguments: long }, { input: long }, { summary: [{ text: long }] }];
    event({ type: "response.completed", response: { id: "r", output: whole } });
    expect(output(reader)).toBe(400);
  });

  it("of responses in JSON: items of any type", () => {
    const { reader } = judged(createResponse, { model: "m", input: "Hi" });
    if (reader.kind !== "json") throw new Error("expected a JSON reader");
    const items = [
      { type: "function_call", arguments: long },
      { type: "mystery", payload: [{ said: long }] },
    ];
    reader.read({ id: "r", output: items });
    expect(output(reader as never)).toBe(200);
  });
});

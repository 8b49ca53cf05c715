import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RawCall } from "../../../src/core/endpoints/call.ts";
import { ChatRequest, chatCompletions } from "../../../src/core/endpoints/inference/chat.ts";
import { isPlainChat } from "../../../src/core/endpoints/inference/plain-chat.ts";
import type { SetFields } from "../../../src/core/endpoints/payload.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";
import type { ModelRow } from "../../../src/core/pricing/prices.ts";

const ROW: ModelRow = {
  model: "m",
  kind: "chat",
  fromMs: 0,
  costNanoUsd: { input_tokens: 1, output_tokens: 1 },
  priceNanoUsd: {},
  free: false,
  maxOutputTokens: 1000,
};
const BASE = { model: "m", messages: [{ role: "user", content: "hi" }] };

const encodePayload = (call: ReturnType<typeof callOf>, fields: SetFields) =>
  joinBytes(call.payload.encode(fields) ?? []);

const raw = (value: unknown): RawCall => ({ askedPath: "", params: {}, body: { kind: "json", value } });

function callOf(body: object) {
  const parsed = chatCompletions.parse(raw(body));
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
  return parsed.call;
}
const paramOf = (body: unknown) => {
  const parsed = chatCompletions.parse(raw(body));
  return parsed.ok
    ? "accepted"
    : parsed.refusal.kind === "invalid_request"
      ? parsed.refusal.param
      : parsed.refusal.kind;
};
const sent = (body: object, fields: Record<string, string | number> = { model: "target", max_tokens: 7 }) =>
  JSON.parse(new TextDecoder().decode(encodePayload(callOf(body), fields)));

/** Names that nobody knows. Without `u` and `h` none reads like the name of a URL. */
const anyName = fc.stringMatching(/^x_[a-gi-tv-z]{0,8}$/);
/** Values of fields that nobody knows; the names that are refused wherever they stand are another test's business. */
const anyValue = fc.jsonValue().filter((value) => chatCompletions.parse(raw({ ...BASE, x: value })).ok);

describe("the body of a chat completion", () => {
  it.each([
    [{ ...BASE, temperature: 2, top_p: 1, presence_penalty: -2, frequency_penalty: 2, seed: -5, n: 128 }],
    [{ ...BASE, stop: ["a", "b"], max_tokens: 1, response_format: { type: "json_object" }, tool_choice: "auto" }],
    [{ ...BASE, temperature: null, stop: null, tools: null, stream: null }],
    [
      {
        model: "m",
        messages: [
          { role: "assistant", content: null, tool_calls: [] },
          { role: "tool", content: "1" },
        ],
      },
    ],
    [{ ...BASE, tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }] }],
    [{ model: "m", messages: [{ role: "user", content: [{ type: "text", text: "a" }, { type: "input_audio" }] }] }],
  ])("is accepted: %j", (body) => {
    expect(paramOf(body)).toBe("accepted");
  });

  it.each([
    [[], null],
    ["text", null],
    [{}, "model"],
    [{ ...BASE, model: "" }, "model"],
    [{ ...BASE, model: 7 }, "model"],
    [{ model: "m" }, "messages"],
    [{ ...BASE, messages: [] }, "messages"],
    [{ ...BASE, messages: [{ role: "king", content: "x" }] }, "messages[0].role"],
    [{ ...BASE, messages: [{ role: "user" }] }, "messages[0].content"],
    [{ ...BASE, messages: [{ role: "user", content: 5 }] }, "messages[0].content"],
    [{ ...BASE, messages: [{ role: "user", content: [{ type: "text" }] }] }, "messages[0].content[0].text"],
    [{ ...BASE, messages: [{ role: "user", content: [{ type: "image_url" }] }] }, "messages[0].content[0].image_url"],
    [image("http://x.test/a.png"), "messages[0].content[0].image_url.url"],
    [image("data:image/png;base64,!!!"), "messages[0].content[0].image_url.url"],
    [image("data:text/plain;base64,aGk="), "messages[0].content[0].image_url.url"],
    [{ ...BASE, max_tokens: 0 }, "max_tokens"],
    [{ ...BASE, max_tokens: 1.5 }, "max_tokens"],
    [{ ...BASE, max_tokens: "5" }, "max_tokens"],
    [{ ...BASE, max_completion_tokens: -1 }, "max_completion_tokens"],
    [{ ...BASE, temperature: 2.1 }, "temperature"],
    [{ ...BASE, temperature: -0.1 }, "temperature"],
    [{ ...BASE, top_p: 1.1 }, "top_p"],
    [{ ...BASE, presence_penalty: 2.1 }, "presence_penalty"],
    [{ ...BASE, frequency_penalty: -2.1 }, "frequency_penalty"],
    [{ ...BASE, seed: 0.5 }, "seed"],
    [{ ...BASE, n: 129 }, "n"],
    [{ ...BASE, stop: 4 }, "stop"],
    [{ ...BASE, stream: "yes" }, "stream"],
    [{ ...BASE, stream_options: [] }, "stream_options"],
    [{ ...BASE, response_format: "json" }, "response_format"],
    [{ ...BASE, tools: {} }, "tools"],
    [{ ...BASE, tool_choice: 1 }, "tool_choice"],
  ])("is refused with the field that is wrong: %j -> %s", (body, param) => {
    expect(paramOf(body)).toBe(param);
  });

  it("passes image parts by https and by data URL", () => {
    expect(paramOf(image("https://x.test/a.png"))).toBe("accepted");
    expect(paramOf(image("data:image/png;base64,aGk="))).toBe("accepted");
  });

  it("goes upstream with the same values, but for model, cap and pseudonyms", () => {
    fc.assert(
      fc.property(fc.dictionary(anyName, anyValue), (unknown) => {
        const plain = JSON.parse(JSON.stringify(unknown));
        expect(sent({ ...BASE, ...plain })).toEqual({ ...BASE, ...plain, model: "target", max_tokens: 7 });
      }),
    );
    expect(sent({ ...BASE, max_tokens: 5, max_completion_tokens: 6 })).toEqual({
      ...BASE,
      model: "target",
      max_tokens: 7,
    });
    expect(sent({ ...BASE, user: "alice", safety_identifier: "bob", prompt_cache_key: "c" })).not.toHaveProperty(
      "user",
    );
    expect(callOf({ ...BASE, user: "alice", safety_identifier: "bob" }).pseudonyms).toEqual({
      user: "alice",
      safety_identifier: "bob",
    });
  });

  it("always asks a streaming upstream for usage, and keeps the caller's other stream options", () => {
    const options = { include_usage: false, x: 1 };
    expect(sent({ ...BASE, stream: true, stream_options: options }).stream_options).toEqual({
      include_usage: true,
      x: 1,
    });
    expect(sent({ ...BASE, stream: true }).stream_options).toEqual({ include_usage: true });
    expect(sent(BASE)).not.toHaveProperty("stream_options");
  });
});

function image(url: string) {
  return { model: "m", messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] };
}

describe("fields that would break a bound or leave the house", () => {
  const FIELDS = ["best_of", "models", "api_base", "base_url", "api_key", "extra_headers", "conversation", "file_id"];

  it.each([...FIELDS, "background", "web_search_options", "__proto__"])("%s is refused at any depth", (field) => {
    const hostile = JSON.parse(`{"${field}":true}`);
    expect(paramOf({ ...BASE, ...JSON.parse(`{"model":"m"}`), x: hostile })).toBe(`x.${field}`);
    expect(paramOf({ ...BASE, messages: [{ role: "user", content: "x", y: [[hostile]] }] })).toBe(
      `messages[0].y[0][0].${field}`,
    );
    expect(paramOf({ ...BASE, tools: [{ type: "function", function: { name: "f", ...hostile } }] })).toBe(
      `tools[0].function.${field}`,
    );
  });

  it("at the top level too, and a stored prompt by its id", () => {
    for (const field of FIELDS) expect(paramOf({ ...BASE, [field]: "x" })).toBe(field);
    expect(paramOf({ ...BASE, prompt: { id: "pmpt_1" } })).toBe("prompt.id");
  });

  it("tools that the service would run are refused, the caller's own pass", () => {
    expect(paramOf({ ...BASE, tools: [{ type: "function" }, { type: "web_search" }] })).toBe("tools[1].type");
    expect(paramOf({ ...BASE, x: { tools: [{ type: "mcp" }] } })).toBe("x.tools[0].type");
    expect(paramOf({ ...BASE, tools: [{ type: "custom" }] })).toBe("accepted");
  });

  it("a caller's own property names in a JSON schema are no fields", () => {
    const parameters = { type: "object", properties: { api_key: { type: "string" }, background: { type: "object" } } };
    expect(paramOf({ ...BASE, tools: [{ type: "function", function: { name: "f", parameters } }] })).toBe("accepted");
    const schema = { properties: { models: { properties: { base_url: {} } } } };
    expect(paramOf({ ...BASE, response_format: { type: "json_schema", json_schema: { schema } } })).toBe("accepted");
    expect(paramOf({ ...BASE, x: { properties: { api_key: 1 } } })).toBe("x.properties.api_key");
  });

  it("asking for nothing is no reason for a refusal", () => {
    expect(paramOf({ ...BASE, background: false, conversation: null })).toBe("accepted");
  });
});

describe("the bound of a chat completion", () => {
  const bound = (body: object, row: Partial<ModelRow> = {}) =>
    callOf(body).bound({ ...ROW, ...row }, { sentBytes: callOf(body).payload.countedBytes + 6, recordingMs: null });

  it("is never below the bytes that are sent, plus the model's overhead", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.dictionary(anyName, anyValue), (text, extra) => {
        const body = { ...BASE, ...JSON.parse(JSON.stringify(extra)), messages: [{ role: "user", content: text }] };
        const bytes = encodePayload(callOf(body), { model: "target", max_tokens: 123_456_789 }).length;
        expect(bound(body).fixed.input_tokens).toBeGreaterThanOrEqual(bytes + 32);
      }),
    );
  });

  it("counts a data URL by its part and not by its bytes", () => {
    const url = `data:image/png;base64,${"A".repeat(1_000_000)}`;
    const small = bound(image("data:image/png;base64,AAAA")).fixed.input_tokens ?? 0;
    expect(bound(image(url)).fixed.input_tokens).toBe(small);
    expect(small).toBeGreaterThan(16_384);
    expect(bound(image(url), { maxPartTokens: 100 }).fixed.input_tokens).toBeLessThan(1000);
  });

  it("never exceeds the model's context where the row names it", () => {
    expect(bound(image("https://x.test/a.png"), { contextTokens: 4096 }).fixed.input_tokens).toBe(4096);
  });

  it("takes the least cap given, the row's at most, times n; only the row's own may be lowered", () => {
    expect(bound({ ...BASE, max_tokens: 50, max_completion_tokens: 40, n: 3 }).output).toEqual({
      cap: 40,
      choices: 3,
      lowerable: false,
    });
    expect(bound({ ...BASE, max_tokens: 5000 }).output?.cap).toBe(1000);
    expect(bound(BASE).output).toEqual({ cap: 1000, choices: 1, lowerable: true });
  });
});

describe("reading a chat completion", () => {
  const answer = (usage: unknown) => ({ choices: [{ message: { content: "a".repeat(40) } }], usage });
  const read = (usage: unknown, body: object = BASE) => {
    const reader = callOf(body).reader({
      row: ROW,
      outputCap: 100,
      earlierTokens: 0,
      measured: { sentBytes: 1, recordingMs: null },
    });
    if (reader.kind !== "json") throw new Error("expected a JSON reader");
    expect(reader.read(answer(usage))).toBe(true);
    return reader.reading();
  };
  // {"messages":[{"role":"user","content":"hi"}]} has 45 bytes.
  const OWN = { source: "own_count", usage: { input_tokens: 12, output_tokens: 10 } };

  it("believes the upstream's figures, an explicit zero too", () => {
    expect(read({ prompt_tokens: 5, completion_tokens: 0 })).toEqual({
      source: "exact",
      usage: { input_tokens: 5, output_tokens: 0 },
    });
    expect(read({ prompt_tokens: 5, completion_tokens: 9, prompt_tokens_details: { cached_tokens: 4 } }).usage).toEqual(
      { input_tokens: 5, output_tokens: 9, cached_input_tokens: 4 },
    );
  });

  it.each([
    [undefined],
    [null],
    [{}],
    [[]],
    [{ prompt_tokens: -1, completion_tokens: 1 }],
    [{ prompt_tokens: 1, completion_tokens: "7" }],
    [{ prompt_tokens: 1.5, completion_tokens: 1 }],
    [{ prompt_tokens: Number.NaN, completion_tokens: 1 }],
    [{ prompt_tokens: 1, completion_tokens: 101 }],
    [{ prompt_tokens: 2 ** 53, completion_tokens: 1 }],
    [{ prompt_tokens: 1e12, completion_tokens: 1 }],
    [{ prompt_tokens: 5, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 6 } }],
    [{ completion_tokens: 5 }],
  ])("settles from our own count where they are missing or absurd: %j", (usage) => {
    expect(read(usage)).toEqual(OWN);
  });

  it("takes an error or a document without choices under status 200 for no answer", () => {
    for (const answer of [{ error: { message: "x" } }, {}, [], null, "text", undefined]) {
      const reader = callOf(BASE).reader({
        row: ROW,
        outputCap: 100,
        earlierTokens: 0,
        measured: { sentBytes: 1, recordingMs: null },
      });
      expect(reader.kind === "json" && reader.read(answer)).toBe(false);
    }
  });

  const stream = (body: object = {}) => {
    const reader = callOf({ ...BASE, stream: true, ...body }).reader({
      row: ROW,
      outputCap: 100,
      earlierTokens: 0,
      measured: { sentBytes: 1, recordingMs: null },
    });
    if (reader.kind !== "events") throw new Error("expected an event reader");
    return reader;
  };
  const delta = (content: string, usage: unknown = null) =>
    JSON.stringify({ choices: [{ index: 0, delta: { content } }], usage });
  const usage = { prompt_tokens: 3, completion_tokens: 2 };

  it("drops only the usage event that the caller did not ask for", () => {
    const quiet = stream();
    expect(quiet.event(delta("a"))).toBe("pass");
    expect(quiet.event(JSON.stringify({ choices: [], usage }))).toBe("drop");
    expect(quiet.event(delta("b", usage))).toBe("pass");
    expect(quiet.event("[DONE]")).toBe("end");
    const asked = stream({ stream_options: { include_usage: true } });
    expect(asked.event(JSON.stringify({ choices: [], usage }))).toBe("pass");
    expect(asked.reading()).toEqual({ source: "exact", usage: { input_tokens: 3, output_tokens: 2 } });
  });

  it("counts what was delivered itself where usage never came: frames or bytes / 4, whichever is more", () => {
    const frames = stream();
    for (const word of ["a", "b", "c"]) frames.event(delta(word));
    expect(frames.reading()).toEqual({ source: "own_count", usage: { input_tokens: 15, output_tokens: 3 } });
    const bytes = stream();
    bytes.event(delta("€".repeat(40)));
    expect(bytes.reading().usage.output_tokens).toBe(30);
  });

  it("counts arguments of tool calls and reasoning as output", () => {
    const reader = stream();
    reader.event(
      JSON.stringify({ choices: [{ delta: { tool_calls: [{ function: { arguments: "x".repeat(40) } }] } }] }),
    );
    reader.event(JSON.stringify({ choices: [{ delta: { reasoning_content: "y".repeat(40) } }] }));
    expect(reader.reading().usage.output_tokens).toBe(20);
  });

  it("knows when only the usage is to come: after the last choice's finish_reason, not before", () => {
    const finish = (index: number | undefined, reason: unknown = "stop") =>
      JSON.stringify({ choices: [{ ...(index !== undefined && { index }), delta: {}, finish_reason: reason }] });
    const one = stream();
    for (const early of [delta("a"), finish(0, null), finish(0, 7), JSON.stringify({ choices: "x" })]) {
      one.event(early);
      expect(one.awaitsUsage?.()).toBe(false);
    }
    one.event(finish(undefined, "tool_calls"));
    expect(one.awaitsUsage?.()).toBe(true);
    one.event(JSON.stringify({ choices: [], usage }));
    expect(one.awaitsUsage?.()).toBe(false);
    const three = stream({ n: 3 });
    for (const index of [2, 2, 2, 0]) three.event(finish(index));
    expect(three.awaitsUsage?.()).toBe(false);
    three.event(finish(1, "length"));
    expect(three.awaitsUsage?.()).toBe(true);
    three.event("[DONE]");
    expect(three.awaitsUsage?.()).toBe(false);
    // Some engines tell it with every event.
    const always = stream();
    always.event(delta("a", usage));
    expect(always.awaitsUsage?.()).toBe(false);
  });

  it.each(["{", "no json", "[]", '{"error":{"message":"x"}}'])("takes the event %j for a broken stream", (data) => {
    expect(stream().event(data)).toBe("broken");
  });
});

describe("the hand check of a common body", () => {
  const good = {
    model: "m",
    messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }],
    max_tokens: 1,
    max_completion_tokens: 9,
    temperature: 2,
    top_p: 0,
    n: 128,
    stream: true,
    stream_options: { include_usage: false },
    user: "u",
  };
  const odd = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom(0, -1, 1.5, 2.1, 129, 2 ** 53, null, "", "x".repeat(257), [], {}, [{}], [null]),
    fc.constantFrom({ include_usage: 1 }, { include_usage: true, x: 1 }, { x: 1 }),
    fc.constantFrom([{ role: "user" }], [{ role: "boss", content: "x" }], [{ role: "user", content: [{ type: 7 }] }]),
  );
  const names = fc.constantFrom(...Object.keys(good), "stop", "seed", "x", "__proto__", "constructor");

  it("says yes to what the schema takes as it is, and to nothing else", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(names, odd), { maxLength: 3 }), fc.array(names, { maxLength: 2 }), (set, left) => {
        const body = Object.fromEntries(Object.entries({ ...good, ...Object.fromEntries(set) }));
        for (const name of left) delete (body as Record<string, unknown>)[name];
        if (!isPlainChat(body)) return;
        const judged = ChatRequest.safeParse(body);
        expect(judged.success && judged.data).toEqual(body);
      }),
    );
  });

  it("says yes to common bodies", () => {
    expect(isPlainChat(good)).toBe(true);
    expect(isPlainChat(BASE)).toBe(true);
    for (const name of ["model", "messages"]) expect(isPlainChat({ ...good, [name]: undefined })).toBe(false);
    for (const body of [{ messages: BASE.messages }, { model: "m" }, { ...BASE, stop: "x" }, {}])
      expect(isPlainChat(body)).toBe(false);
  });
});

describe("a body that was dropped", () => {
  it("frees its memory and cannot be sent again; what was made of it goes on", () => {
    const call = callOf({ ...BASE, stream: true, n: 2, messages: [{ role: "user", content: "x".repeat(100_000) }] });
    const reader = call.reader({
      row: ROW,
      outputCap: 5,
      measured: { sentBytes: 100_100, recordingMs: null },
      earlierTokens: 0,
    });
    const pieces = call.payload.encode({ model: "m", max_tokens: 5 }) ?? [];
    expect(joinBytes(pieces).length).toBeGreaterThan(100_000);
    call.drop();
    call.drop();
    // The first piece is of the try.
    expect(pieces.slice(1).map(({ length }) => length)).toEqual(pieces.slice(1).map(() => 0));
    expect(() => call.payload.encode({})).toThrow("dropped");
    expect(() => call.bound(ROW, { sentBytes: 1, recordingMs: null })).toThrow("dropped");
    if (reader.kind !== "events") throw new Error("a stream is read as events");
    reader.event('{"choices":[{"index":0,"delta":{"content":"word"}}]}');
    reader.event('{"choices":[],"usage":{"prompt_tokens":25000,"completion_tokens":10}}');
    expect(reader.reading()).toEqual({ source: "exact", usage: { input_tokens: 25_000, output_tokens: 10 } });
  });
});

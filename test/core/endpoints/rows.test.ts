import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { embeddings } from "../../../src/core/endpoints/inference/embeddings.ts";
import { imageGenerations } from "../../../src/core/endpoints/inference/images.ts";
import { rerank } from "../../../src/core/endpoints/inference/rerank.ts";
import { createResponse, getResponse } from "../../../src/core/endpoints/inference/responses.ts";
import { ENDPOINTS } from "../../../src/core/endpoints/table.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";
import type { AnswerReader } from "../../../src/core/meters/meter.ts";
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
const parse = (endpoint: Endpoint, value: unknown, params: Record<string, string> = {}) =>
  endpoint.parse({ askedPath: "", params, body: { kind: "json", value } });
function callOf(endpoint: Endpoint, value: object) {
  const parsed = parse(endpoint, value);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
  return parsed.call;
}
const measured = { sentBytes: 1000, recordingMs: null };
const bound = (endpoint: Endpoint, value: object, row: Partial<ModelRow> = {}) =>
  callOf(endpoint, value).bound({ ...ROW, ...row }, measured);
function jsonReader(endpoint: Endpoint, value: object): AnswerReader & { kind: "json" } {
  const reader = callOf(endpoint, value).reader({ row: ROW, outputCap: 100, measured, earlierTokens: 0 });
  if (reader.kind !== "json") throw new Error("expected a JSON reader");
  return reader;
}
function read(endpoint: Endpoint, value: object, answer: unknown) {
  const reader = jsonReader(endpoint, value);
  return { taken: reader.read(answer), ...reader.reading() };
}
const paramOf = (endpoint: Endpoint, value: unknown) => {
  const parsed = parse(endpoint, value);
  return parsed.ok ? "accepted" : parsed.refusal.kind === "invalid_request" && parsed.refusal.param;
};

const EMBED = { model: "m", input: ["ab", "cdef"] };
const RERANK = { model: "m", query: "abcd", documents: ["ef", "gh"] };
const IMAGE = { model: "m", prompt: "a cat" };
const RESPONSE = { model: "m", input: "hello" };

describe("documented fields, at their limits and one beyond", () => {
  it.each<[Endpoint, object, string]>([
    [embeddings, EMBED, "accepted"],
    [embeddings, { ...EMBED, input: "x", encoding_format: "base64" }, "accepted"],
    [embeddings, { ...EMBED, input: [] }, "input"],
    [embeddings, { ...EMBED, input: "" }, "input"],
    [embeddings, { ...EMBED, input: [1, 2] }, "accepted"],
    [embeddings, { ...EMBED, input: [[1, 2], [3]] }, "accepted"],
    [embeddings, { ...EMBED, input: [1, 2.5] }, "input"],
    [embeddings, { ...EMBED, input: [1, -1] }, "input"],
    [embeddings, { ...EMBED, input: [1, "x"] }, "input"],
    [embeddings, { ...EMBED, input: ["x", 1] }, "input"],
    [embeddings, { ...EMBED, input: [[1], []] }, "input[1]"],
    [embeddings, { ...EMBED, input: [[1], 2] }, "input"],
    [embeddings, { ...EMBED, input: [[[1]]] }, "input[0][0]"],
    [embeddings, { ...EMBED, encoding_format: "hex" }, "encoding_format"],
    [rerank, { ...RERANK, documents: Array(1000).fill("x"), top_n: 1, return_documents: true }, "accepted"],
    [rerank, { ...RERANK, documents: Array(1001).fill("x") }, "documents"],
    [rerank, { ...RERANK, documents: [] }, "documents"],
    [rerank, { ...RERANK, documents: [{ text: "x" }] }, "documents[0]"],
    [rerank, { ...RERANK, query: undefined }, "query"],
    [rerank, { ...RERANK, top_n: 0 }, "top_n"],
    [rerank, { ...RERANK, return_documents: "yes" }, "return_documents"],
    [imageGenerations, { ...IMAGE, size: "512x512", n: 1, steps: 1, seed: 0, response_format: "url" }, "accepted"],
    [imageGenerations, { ...IMAGE, prompt: "x".repeat(1500) }, "accepted"],
    [imageGenerations, { ...IMAGE, n: 2 }, "n"],
    [imageGenerations, { ...IMAGE, n: 0 }, "n"],
    [imageGenerations, { ...IMAGE, size: "1x1" }, "size"],
    [imageGenerations, { ...IMAGE, response_format: "png" }, "response_format"],
    [imageGenerations, { ...IMAGE, steps: 0 }, "steps"],
    [imageGenerations, { ...IMAGE, seed: 1.5 }, "seed"],
    [imageGenerations, { model: "m" }, "prompt"],
    [createResponse, { ...RESPONSE, temperature: 2, top_p: 0, max_output_tokens: 1, instructions: "x" }, "accepted"],
    [
      createResponse,
      { ...RESPONSE, input: [{ role: "user", content: [{ type: "input_text", text: "x" }] }] },
      "accepted",
    ],
    [createResponse, { ...RESPONSE, input: [] }, "input"],
    [createResponse, { ...RESPONSE, input: 5 }, "input"],
    [createResponse, { ...RESPONSE, input: [{ type: "item_reference", id: "x" }] }, "input[0]"],
    [createResponse, { ...RESPONSE, temperature: 2.01 }, "temperature"],
    [createResponse, { ...RESPONSE, top_p: -0.01 }, "top_p"],
    [createResponse, { ...RESPONSE, max_output_tokens: 0 }, "max_output_tokens"],
    [createResponse, { ...RESPONSE, previous_response_id: "" }, "previous_response_id"],
    [createResponse, { ...RESPONSE, conversation: "conv_1" }, "conversation"],
    [createResponse, { ...RESPONSE, background: true }, "background"],
    [createResponse, { ...RESPONSE, prompt: { id: "p" } }, "prompt.id"],
    [createResponse, { ...RESPONSE, tools: [{ type: "web_search" }] }, "tools[0].type"],
    [createResponse, { ...RESPONSE, stream: 1 }, "stream"],
  ])("%# $id: %j -> %s", (endpoint, value, param) => {
    expect(paramOf(endpoint, value)).toBe(param);
  });

  it.each(
    ENDPOINTS.filter(({ body }) => body.kind === "json").flatMap((endpoint) =>
      [
        "best_of",
        "models",
        "api_base",
        "base_url",
        "api_key",
        "extra_headers",
        "background",
        "file_id",
        "conversation",
      ].map((field) => [endpoint.id, field, endpoint] as const),
    ),
  )("%s refuses %s at any depth, before anything else is looked at", (_, field, endpoint) => {
    expect(paramOf(endpoint, { x: [{ y: { [field]: "v" } }] })).toBe(`x[0].y.${field}`);
  });
});

describe("bounds", () => {
  it("of embeddings: the bytes, an overhead for each text, at most each text's context", () => {
    expect(bound(embeddings, EMBED)).toEqual({ fixed: { input_tokens: 1064 } });
    expect(bound(embeddings, EMBED, { contextTokens: 100 })).toEqual({ fixed: { input_tokens: 200 } });
  });

  it("of embeddings of tokens: their number in place of their bytes, each array at most the context", () => {
    const tokens = (counts: readonly number[]) => ({
      model: "m",
      input: counts.map((count) => Array<number>(count).fill(1234)),
    });
    // 1000 bytes as measured, of which `[[1234,1234],[1234]]` are 20.
    const single = { model: "m", input: [1234, 1234, 1234] };
    expect(bound(embeddings, tokens([2, 1]))).toEqual({ fixed: { input_tokens: 980 + 3 + 2 * 32 } });
    expect(bound(embeddings, single)).toEqual({ fixed: { input_tokens: 984 + 3 + 32 } });
    const row = { contextTokens: 100, promptOverheadTokens: 0 };
    const long = callOf(embeddings, tokens([150, 10]));
    const sentBytes = long.payload.countedBytes;
    const rest = sentBytes - JSON.stringify(tokens([150, 10]).input).length;
    expect(long.bound({ ...ROW, ...row }, { sentBytes, recordingMs: null })).toEqual({
      fixed: { input_tokens: Math.min(200, rest + 110) },
    });
  });

  it("of rerank: the query is read once with each document", () => {
    expect(bound(rerank, RERANK)).toEqual({ fixed: { input_tokens: 1000 + 2 * 32 + 2 * (4 + 8) } });
  });

  it("of images: one", () => {
    expect(bound(imageGenerations, IMAGE)).toEqual({ fixed: { images: 1 } });
  });

  it("of responses: parts that are not text count as the dearest part; the cap is the caller's or may be lowered", () => {
    const parts = [
      { type: "input_text", text: "x" },
      { type: "input_image", image_url: "https://x.test/a.png" },
    ];
    expect(
      bound(createResponse, { ...RESPONSE, input: [{ role: "user", content: parts }], max_output_tokens: 7 }),
    ).toEqual({
      fixed: { input_tokens: 1000 + 32 + 16_384 },
      output: { cap: 7, choices: 1, lowerable: false },
    });
    expect(bound(createResponse, { ...RESPONSE, input: [{ type: "input_image" }] }).fixed.input_tokens).toBeGreaterThan(
      16_384,
    );
    expect(bound(createResponse, RESPONSE).output).toEqual({ cap: 500, choices: 1, lowerable: true });
  });
});

describe("readings", () => {
  it.each<[string, Endpoint, object, object, object]>([
    ["embeddings", embeddings, EMBED, { data: [], usage: { prompt_tokens: 9 } }, { input_tokens: 9 }],
    ["rerank", rerank, RERANK, { results: [], usage: { total_tokens: 11 } }, { input_tokens: 11 }],
    ["images", imageGenerations, IMAGE, { data: [{ b64_json: "x" }] }, { images: 1 }],
    ["no image made", imageGenerations, IMAGE, { data: [] }, { images: 0 }],
    [
      "responses",
      createResponse,
      RESPONSE,
      { id: "r", output: [], usage: { input_tokens: 4, output_tokens: 5, input_tokens_details: { cached_tokens: 3 } } },
      { input_tokens: 4, output_tokens: 5, cached_input_tokens: 3 },
    ],
  ])("%s: the upstream's figures", (_, endpoint, value, answer, usage) => {
    expect(read(endpoint, value, answer)).toEqual({ taken: true, source: "exact", usage });
  });

  it.each<[string, Endpoint, object, object, object]>([
    ["embeddings", embeddings, EMBED, { data: [] }, { input_tokens: 6, output_tokens: 0 }],
    ["tokens", embeddings, { ...EMBED, input: [71, 9, 100_000] }, { data: [] }, { input_tokens: 3, output_tokens: 0 }],
    [
      "lists of tokens",
      embeddings,
      { ...EMBED, input: [[7], [8, 9]] },
      { data: [] },
      { input_tokens: 3, output_tokens: 0 },
    ],
    [
      "tokens and a prompt",
      embeddings,
      { ...EMBED, input: [1], instruction: "x".repeat(20) },
      { data: [] },
      { input_tokens: 11, output_tokens: 0 },
    ],
    [
      "embeddings, absurd",
      embeddings,
      EMBED,
      { data: [], usage: { prompt_tokens: -4 } },
      { input_tokens: 6, output_tokens: 0 },
    ],
    ["rerank", rerank, RERANK, { results: [], usage: { total_tokens: "9" } }, { input_tokens: 19, output_tokens: 0 }],
    ["more images than asked for", imageGenerations, IMAGE, { data: [{}, {}] }, { images: 1 }],
    [
      "responses",
      createResponse,
      { ...RESPONSE, instructions: "abcdefg" },
      { id: "r", output: [{ content: [{ type: "output_text", text: "x".repeat(40) }] }], usage: { output_tokens: 1 } },
      { input_tokens: 18, output_tokens: 10 },
    ],
  ])("%s: our own count where they are missing or absurd, marked", (_, endpoint, value, answer, usage) => {
    expect(read(endpoint, value, answer)).toEqual({ taken: true, source: "own_count", usage });
  });

  it.each([embeddings, rerank, imageGenerations, createResponse])(
    "an error under status 200 is no answer",
    (endpoint) => {
      const fixture = { ...EMBED, ...RERANK, ...IMAGE, input: "x" };
      for (const answer of [{ error: { message: "x" } }, {}, [], "text", null]) {
        expect(jsonReader(endpoint, fixture).read(answer)).toBe(false);
      }
    },
  );
});

describe("responses", () => {
  it("hand out their id, from JSON and from the first event", () => {
    const json = jsonReader(createResponse, RESPONSE);
    json.read({ id: "resp_1", output: [], error: null });
    expect(json.created?.()).toBe("resp_1");
    const events = stream();
    expect(events.created?.()).toBeNull();
    events.event(JSON.stringify({ type: "response.created", response: { id: "resp_2", status: "in_progress" } }));
    expect([events.created?.(), events.readFirst]).toEqual(["resp_2", true]);
  });

  function stream() {
    const reader = callOf(createResponse, { ...RESPONSE, stream: true }).reader({
      row: ROW,
      outputCap: 100,
      measured,
      earlierTokens: 0,
    });
    if (reader.kind !== "events") throw new Error("expected an event reader");
    return reader;
  }

  it("are whole at response.completed or [DONE], and read their usage there", () => {
    const events = stream();
    expect(events.event(JSON.stringify({ type: "response.output_text.delta", delta: "hello" }))).toBe("pass");
    expect(events.reading()).toEqual({ source: "own_count", usage: { input_tokens: 15, output_tokens: 2 } });
    const response = { id: "r", status: "completed", usage: { input_tokens: 3, output_tokens: 1 } };
    expect(events.event(JSON.stringify({ type: "response.completed", response }))).toBe("end");
    expect(events.reading()).toEqual({ source: "exact", usage: { input_tokens: 3, output_tokens: 1 } });
    expect(stream().event("[DONE]")).toBe("end");
  });

  it.each(['{"type":"error","message":"x"}', '{"type":"response.failed","response":{"id":"r"}}', "{", "[]"])(
    "are broken by %s",
    (data) => {
      expect(stream().event(data)).toBe("broken");
    },
  );

  it("name the ids that must be the account's: the one continued, the one in the path", () => {
    expect(callOf(createResponse, { ...RESPONSE, previous_response_id: "resp_9" }).owned).toEqual([
      { kind: "response", id: "resp_9" },
    ]);
    expect(callOf(createResponse, RESPONSE).owned).toEqual([]);
    const got = getResponse.parse({ askedPath: "", params: { id: "../x" }, body: { kind: "none" } });
    expect(got).toMatchObject({
      ok: true,
      call: { owned: [{ kind: "response", id: "../x" }], path: "/v1/responses/..%2Fx" },
    });
  });

  it("go upstream with the cap in their documented field, and keep the id they continue", () => {
    const { payload } = callOf(createResponse, { ...RESPONSE, max_output_tokens: 9, previous_response_id: "resp_9" });
    const sent = JSON.parse(
      new TextDecoder().decode(joinBytes(payload.encode({ model: "t", max_output_tokens: 9 }) ?? [])),
    );
    expect(sent).toEqual({ ...RESPONSE, model: "t", max_output_tokens: 9, previous_response_id: "resp_9" });
  });
});

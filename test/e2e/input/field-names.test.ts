/**
 * Names that an engine reads as others, stored objects and URLs that point inside: the upstream hears nothing of them,
 * and would have been moved by them. What is honest reaches it as it was sent.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { callIdOf, executionsOf } from "../../support/service.ts";
import type { ErrorBody, Tenant } from "../../support/tenant.ts";
import { completion, ScriptedUpstream } from "../../support/upstream.ts";
import { world } from "../../support/world.ts";

const { operator, sandboxUrl } = world();
const HI = [{ role: "user", content: "Hi" }];
let tenant: Tenant;
/** Of an engine that folds the case of names. */
let folding: string;
let upstream: ScriptedUpstream;
let scripted: string;

beforeAll(async () => {
  tenant = await operator.tenant();
  folding = await operator.instance(tenant, { name: "go-7b" });
  upstream = await ScriptedUpstream.start((exchange) => {
    if (exchange.path.endsWith("/responses")) {
      exchange.answer({ id: `resp_${Date.now()}`, object: "response", status: "completed", output: [] });
    } else exchange.answer(completion("hello"));
  });
  const id = await operator.upstream(upstream.url);
  scripted = await operator.model(`scripted-${id}`, { upstream: id });
});
afterAll(() => upstream.stop());
afterEach(async () => {
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, held_usd: 0 });
});

/** What the engine would have done without us, in tokens of output. */
async function direct(fields: Record<string, unknown>): Promise<{ model: string; out: number; choices: number }> {
  const response = await fetch(`${sandboxUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer sandbox-key", "content-type": "application/json" },
    body: JSON.stringify({ model: folding, messages: HI, max_tokens: 5, sandbox_output_tokens: 40, ...fields }),
  });
  const answer = (await response.json()) as Record<string, unknown> & {
    choices: unknown[];
    usage: { completion_tokens: number };
  };
  return { model: String(answer.model), out: answer.usage.completion_tokens, choices: answer.choices.length };
}

async function expectUnheard(path: string, body: Record<string, unknown>, param: string): Promise<void> {
  const before = upstream.exchanges.length;
  const response = await tenant.fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const { error } = (await response.json()) as ErrorBody;
  expect([response.status, error?.code, error?.param]).toEqual([400, "invalid_request_error", param]);
  expect(await executionsOf(tenant, callIdOf(response))).toEqual([]);
  expect(upstream.exchanges.length).toBe(before);
}

describe("an engine that folds case", () => {
  test("would take the twin for the name", async () => {
    expect(await direct({})).toMatchObject({ out: 5, choices: 1 });
    expect(await direct({ MAX_TOKENS: 30 })).toMatchObject({ out: 30 });
    expect(await direct({ max_to\u212aens: 1, N: 3 })).toMatchObject({ choices: 3, out: 3 });
    expect(await direct({ Model: "llama-70b" })).toMatchObject({ model: "llama-70b" });
  });

  test.each<[string, Record<string, unknown>]>([
    ["MAX_TOKENS", { MAX_TOKENS: 200 }],
    ["max_to\u212aens", { "max_to\u212aens": 200 }],
    ["Max_Completion_Tokens", { Max_Completion_Tokens: 200 }],
    ["N", { N: 128 }],
    ["Model", { Model: "llama-70b" }],
    ["Best_Of", { Best_Of: 9 }],
    ["bestOf", { bestOf: 9 }],
    ["u\u017fer", { "u\u017fer": "somebody" }],
    ["stream_options.Include_Usage", { stream: true, stream_options: { Include_Usage: false } }],
    ["n_predict", { n_predict: 200 }],
    ["chat_template", { chat_template: "{{ messages }}" }],
    ["service_tier", { service_tier: "priority" }],
    ["plugins", { plugins: [{ id: "web" }] }],
    ["search_parameters", { search_parameters: { mode: "on" } }],
    ["enable_search", { enable_search: true }],
    ["store", { store: true }],
    ["messages[0].audio.id", { messages: [{ role: "assistant", audio: { id: "audio_1" } }] }],
  ])("is not asked with %s", async (param, fields) => {
    await expectUnheard("/v1/chat/completions", { model: folding, messages: HI, max_tokens: 5, ...fields }, param);
  });
});

describe("stored objects and addresses inside", () => {
  test.each<[string, unknown]>([
    ["input[0]", [{ id: "msg_68a1" }]],
    ["input[0].content[0].file_ids", [{ role: "user", content: [{ type: "input_file", file_ids: ["file_1"] }] }]],
    [
      "input[0].content[0].image_url",
      [{ role: "user", content: [{ type: "input_image", image_url: "http://10.0.0.1/" }] }],
    ],
    [
      "input[0].content[0].file_url",
      [{ role: "user", content: [{ type: "input_file", file_url: "https://169.254.169.254/latest/" }] }],
    ],
    ["input[0]", [{ id: "msg_68a1", note: "x" }]],
    ["input[0].content[0].type", [{ role: "user", content: [{ type: "item_reference", id: "msg_68a1" }] }]],
    [
      "input[0].output[0].source",
      [{ type: "function_call_output", call_id: "c", output: [{ type: "input_image", source: "http://10.0.0.1/" }] }],
    ],
  ])("%s of a response", async (param, input) => {
    await expectUnheard("/v1/responses", { model: scripted, input }, param);
  });

  test.each(["https://localhost/", "https://[::1]/", "http://media.example/a.mp4", "file:///etc/passwd"])(
    "%s as a chat's image and video",
    async (url) => {
      for (const type of ["image_url", "video_url"]) {
        const content = [
          { type: "text", text: url },
          { type, [type]: { url } },
        ];
        await expectUnheard(
          "/v1/chat/completions",
          { model: scripted, messages: [{ role: "user", content }] },
          `messages[0].content[1].${type}.url`,
        );
      }
    },
  );

  test.each<[string, Record<string, unknown>]>([
    ["image_path", { image_path: "/etc/passwd" }],
    ["src", { src: "http://10.0.0.1/" }],
    ["thumbnail", { thumbnail: "https://[::1]/" }],
  ])("a part's %s", async (name, fields) => {
    const messages = [{ role: "user", content: [{ type: "image", ...fields }] }];
    await expectUnheard("/v1/chat/completions", { model: scripted, messages }, `messages[0].content[0].${name}`);
  });

  test.each(["Model", "MODEL", "model[]", "\uff4dodel"])("a form's %s", async (name) => {
    const form = new FormData();
    form.set("model", scripted);
    form.set("file", new File(["x"], "a.wav"));
    form.set(name, "stt-large");
    const response = await tenant.fetch("/v1/audio/transcriptions", { method: "POST", body: form });
    const { error } = (await response.json()) as ErrorBody;
    expect([response.status, error?.param]).toEqual([400, name]);
    expect(upstream.exchanges.filter(({ path }) => path.includes("audio"))).toEqual([]);
  });
});

describe("what is honest reaches the upstream as it was sent", () => {
  const own = {
    type: "object",
    properties: { Model: { type: "string" }, background: {}, image_url: { default: "http://10.0.0.1" } },
    default: { best_of: 2 },
    examples: [{ api_key: "x", MAX_TOKENS: 1 }],
  };
  const call = { id: "c1", type: "function", function: { name: "f", arguments: '{"Model":"x"}' } };

  test("chat: metadata, schemas, arguments, fields without effect and of engines", async () => {
    const body = {
      messages: [
        { role: "user", content: [{ type: "image_url", image_url: { url: "https://media.example/a.png" } }] },
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "c1", content: "http://10.0.0.1/" },
      ],
      metadata: { Model: "x", background: "blue", file_id: "mine" },
      tools: [{ type: "function", function: { name: "f", parameters: own } }],
      response_format: { type: "json_schema", json_schema: { name: "f", schema: own } },
      json_schema: own,
      guided_choice: ["http://10.0.0.1"],
      best_of: 1,
      models: [],
      service_tier: "auto",
      background: false,
      chat_template_kwargs: { enable_thinking: false },
      top_k: 4,
      seed: 7,
    };
    const answer = await tenant.chat({ model: scripted, max_tokens: 20, ...body });
    expect(answer.status).toBe(200);
    expect(upstream.exchanges.at(-1)?.json).toEqual({ ...body, model: scripted, max_tokens: 20 });
  });

  test("responses: items with ids that say what they mean", async () => {
    const body = {
      input: [
        { id: "msg_1", type: "message", role: "assistant", content: [{ type: "output_text", text: "x" }] },
        { id: "fc_1", type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "c1", output: "done" },
      ],
      store: true,
      metadata: { Prompt: "x" },
      tools: [{ type: "function", name: "f", parameters: own, strict: true }],
      text: { format: { type: "json_schema", name: "f", schema: own } },
    };
    const response = await tenant.fetch("/v1/responses", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: scripted, max_output_tokens: 20, ...body }),
    });
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("resp_")]);
    expect(upstream.exchanges.at(-1)?.json).toEqual({ ...body, model: scripted, max_output_tokens: 20 });
  });
});

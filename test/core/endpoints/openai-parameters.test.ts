/**
 * Every parameter of OpenAI's calls, one at a time: what is neutral or harmless is accepted, and what is refused is
 * refused for a reason that is true. A parameter that a new version of the package brings makes the test fail with its
 * name.
 */
import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../../src/core/endpoints/inference/chat.ts";
import { embeddings } from "../../../src/core/endpoints/inference/embeddings.ts";
import { imageEdits, imageGenerations } from "../../../src/core/endpoints/inference/images.ts";
import { createResponse } from "../../../src/core/endpoints/inference/responses.ts";
import { speech } from "../../../src/core/endpoints/inference/speech.ts";
import { transcription } from "../../../src/core/endpoints/inference/transcription.ts";
import { FIXTURES, formBody, type formBytes } from "../../support/fixtures.ts";
import { membersOf } from "../../support/openai-parameters.ts";

/** `takes`: values that are accepted. `refuses`: values that are not, with words of the message. */
interface Parameter {
  readonly takes: readonly unknown[];
  readonly refuses?: readonly (readonly [value: unknown, words: RegExp])[];
}
type Table = Readonly<Record<string, Parameter>>;

const NOT_HELD = /at a price that is not held|price of its own/;
const HOSTED = /tools that the service would run are not available/;
const STORED = /stored (objects|conversations|files) are not available/;
const WHOLE = /nothing is streamed here/;
const SCHEMA = { type: "object", properties: { model: { type: "string" }, webhook: { type: "string" } } };
const FUNCTION = { name: "f", description: "d", parameters: SCHEMA, strict: true };
const penalty: Parameter = { takes: [null, 0, -2, 2], refuses: [[3, /must be a number from -2 to 2/]] };
const temperature: Parameter = { takes: [null, 0, 1, 2], refuses: [[2.5, /from 0 to 2/]] };
const tokens: Parameter = { takes: [null, 1, 4096], refuses: [[0, /whole number of at least 1/]] };
const flag: Parameter = { takes: [null, true, false] };
const text: Parameter = { takes: ["x"], refuses: [[1, /must be/]] };
const free = (...takes: unknown[]): Parameter => ({ takes });
const tier: Parameter = {
  takes: [null, "auto", "default"],
  refuses: ["flex", "scale", "priority", "fast"].map((value) => [value, NOT_HELD] as const),
};
const cacheOptions: Parameter = {
  takes: [{ mode: "implicit", ttl: "30m" }, { mode: "explicit" }, { comparison_response_id: null }],
  refuses: [[{ comparison_response_id: "resp_1" }, STORED]],
};
const moderation: Parameter = {
  takes: [null],
  refuses: [[{ model: "omni-moderation", policy: { input: { mode: "score" } } }, NOT_HELD]],
};
const store: Parameter = { takes: [null, false], refuses: [[true, /only responses are stored/]] };

const CHAT: Table = {
  messages: {
    takes: [
      [{ role: "developer", content: "x" }],
      [
        { role: "user", content: "x", name: "n" },
        { role: "assistant", content: [], tool_calls: [] },
      ],
      [
        { role: "user", content: [{ type: "text", text: "x" }] },
        { role: "assistant", content: null, refusal: "no" },
      ],
      [
        { role: "user", content: "x" },
        { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] },
        { role: "tool", tool_call_id: "c", content: "x" },
      ],
    ],
    refuses: [
      [[], /non-empty array of messages/],
      [[{ role: "user", content: [] }], /must have at least one content part/],
      [[{ role: "user", content: [{ type: "file", file: { file_id: "file-1" } }] }], STORED],
      [[{ role: "assistant", audio: { id: "audio_1" } }], STORED],
    ],
  },
  model: text,
  audio: free(null, { voice: "alloy", format: "mp3" }),
  frequency_penalty: penalty,
  function_call: free("none", "auto", { name: "f" }),
  functions: free([], [FUNCTION]),
  logit_bias: free(null, {}, { "50256": -100 }),
  logprobs: flag,
  max_completion_tokens: tokens,
  max_tokens: tokens,
  metadata: free(null, {}, { model: "mine", webhook_url: "http://10.0.0.1" }),
  modalities: { takes: [null, [], ["text"]], refuses: [[["text", "audio"], /only text is made here/]] },
  moderation,
  n: { takes: [null, 1, 2, 128], refuses: [[129, /from 1 to 128/]] },
  parallel_tool_calls: flag,
  prediction: { takes: [null], refuses: [[{ type: "content", content: "x" }, /multiplies usage/]] },
  presence_penalty: penalty,
  prompt_cache_key: free(null, "x"),
  prompt_cache_options: cacheOptions,
  prompt_cache_retention: free(null, "in_memory", "24h"),
  reasoning_effort: free(null, "none", "minimal", "low", "medium", "high", "xhigh"),
  response_format: free(
    null,
    { type: "text" },
    { type: "json_object" },
    { type: "json_schema", json_schema: { name: "n", schema: SCHEMA, strict: true } },
  ),
  safety_identifier: free(null, "x"),
  seed: free(null, 0, -1, 7),
  service_tier: tier,
  stop: free(null, "x", [], ["x", "y"]),
  store,
  stream: { takes: [null, true, false], refuses: [["yes", /true or false/]] },
  stream_options: free(null, {}, { include_usage: true, include_obfuscation: false }),
  temperature,
  tool_choice: free(
    "none",
    "auto",
    "required",
    { type: "function", function: { name: "f" } },
    { type: "custom", custom: { name: "f" } },
    { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "f" } }] } },
  ),
  tools: {
    takes: [
      [],
      [{ type: "function", function: FUNCTION }],
      [{ type: "custom", custom: { name: "c", format: { type: "grammar" } } }],
    ],
    refuses: [[[{ type: "web_search" }], HOSTED]],
  },
  top_logprobs: free(null, 0, 20),
  top_p: { takes: [null, 0, 1], refuses: [[2, /from 0 to 1/]] },
  user: free("x"),
  verbosity: free(null, "low", "medium", "high"),
  web_search_options: { takes: [null], refuses: [[{}, HOSTED]] },
};

const RESPONSES: Table = {
  access_programs: free({ cyber: "standard" }),
  background: { takes: [null, false], refuses: [[true, /answers are not deferred/]] },
  context_management: { takes: [null, []], refuses: [[[{ type: "compaction" }], /read the conversation again/]] },
  conversation: {
    takes: [null],
    refuses: [
      ["conv_1", STORED],
      [{ id: "conv_1" }, STORED],
    ],
  },
  image: free({ context_compression: "enabled" }),
  include: free(null, [], ["reasoning.encrypted_content", "message.output_text.logprobs"]),
  input: {
    takes: [
      "x",
      [{ role: "user", content: "x" }],
      [{ type: "message", role: "assistant", content: [] }],
      [
        {
          type: "local_shell_call",
          id: "s",
          call_id: "c",
          action: { type: "exec", command: ["ls"], env: { model: "m" } },
        },
      ],
      [{ type: "local_shell_call_output", id: "s", call_id: "c", output: "x" }],
      [{ type: "shell_call", call_id: "c", action: { commands: ["ls"] }, environment: { type: "local" } }],
      [{ type: "shell_call_output", call_id: "c", output: [{ stdout: "", stderr: "", outcome: { type: "timeout" } }] }],
      [{ type: "apply_patch_call", call_id: "c", operation: { type: "delete_file", path: "/a" }, status: "completed" }],
      [{ type: "apply_patch_call_output", call_id: "c", status: "completed" }],
      [{ type: "function_call", call_id: "c", name: "f", arguments: "{}", namespace: "n" }],
      [{ type: "custom_tool_call_output", call_id: "c", output: "x" }],
      [{ type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" }],
    ],
    refuses: [
      [[], /non-empty array of content items/],
      [[{ role: "user", content: [{ type: "input_file", file_id: "file-1" }] }], STORED],
    ],
  },
  instructions: free(null, "x"),
  max_output_tokens: tokens,
  max_tool_calls: free(null, 1),
  metadata: free(null, {}, { model: "mine" }),
  model: text,
  moderation,
  parallel_tool_calls: flag,
  previous_response_id: free(null, "resp_1"),
  prompt: {
    takes: [null, {}, { id: null }, { id: null, version: null, variables: null }],
    refuses: [[{ id: "pmpt_1" }, STORED]],
  },
  prompt_cache_key: free(null, "x"),
  prompt_cache_options: { ...cacheOptions, takes: [...cacheOptions.takes, { prewarm: false, ttl: "12h" }] },
  prompt_cache_retention: free(null, "in_memory", "24h"),
  reasoning: free(null, {}, { effort: "low", summary: "auto", generate_summary: null, mode: "standard" }),
  safety_identifier: free(null, "x"),
  service_tier: tier,
  store: flag,
  stream: { takes: [null, true, false], refuses: [[1, /true or false/]] },
  stream_options: free(null, {}, { include_obfuscation: false }),
  temperature,
  text: free({}, { verbosity: "low" }, { format: { type: "json_schema", name: "n", schema: SCHEMA } }),
  tool_choice: free(
    "auto",
    "none",
    "required",
    { type: "function", name: "f" },
    { type: "apply_patch" },
    { type: "shell" },
    { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "f" }] },
  ),
  tools: {
    takes: [
      [],
      [{ type: "function", ...FUNCTION, output_schema: SCHEMA }],
      [{ type: "custom", name: "c", format: { type: "text" } }],
      [{ type: "namespace", name: "n", description: "d", tools: [{ type: "function", ...FUNCTION }] }],
      [{ type: "local_shell" }],
      [{ type: "apply_patch", allowed_callers: ["direct"] }],
      [{ type: "shell" }],
      [{ type: "shell", environment: null }],
      [{ type: "shell", environment: { type: "local", skills: [{ name: "s", description: "d", path: "/skills/s" }] } }],
      [{ type: "computer_use_preview", display_width: 1, display_height: 1, environment: "browser" }],
      [{ type: "computer" }],
      [{ type: "tool_search", execution: "client", parameters: SCHEMA }],
    ],
    refuses: [
      ...[
        { type: "web_search" },
        { type: "web_search_preview" },
        { type: "file_search", vector_store_ids: [] },
        { type: "mcp", server_label: "s" },
        { type: "code_interpreter" },
        { type: "image_generation" },
        { type: "programmatic_tool_calling" },
        { type: "tool_search" },
        { type: "shell", environment: { type: "container_auto" } },
        { type: "shell", environment: { type: "container_reference" } },
        { type: "shell", environment: "local" },
        { type: "namespace", name: "n", tools: [{ type: "function", name: "f" }, { type: "web_search" }] },
      ].map((tool) => [[tool], HOSTED] as const),
      [[{ type: "shell", Environment: { type: "container_auto" } }], /write `environment`/],
      [[{ type: "shell", environment: { type: "local", skills: [{ skill_id: "s" }] } }], STORED],
    ],
  },
  top_logprobs: free(null, 0, 20),
  top_p: { takes: [null, 0, 1], refuses: [[2, /from 0 to 1/]] },
  truncation: free(null, "auto", "disabled"),
  user: free("x"),
};

const noStream = (...takes: unknown[]): Parameter => ({
  takes,
  refuses: [[takes[0] === "false" ? "true" : true, WHOLE]],
});
const oneFrame = /one still image is made per call/;

const IMAGES: Table = {
  prompt: { takes: ["x"], refuses: [["", /non-empty string/]] },
  background: { takes: [null, "auto", "opaque", "transparent"], refuses: [[true, /not deferred/]] },
  complexity: free(null, "low", "medium", "high"),
  frame_count: { takes: [null], refuses: [[9, oneFrame]] },
  frame_duration_ms: { takes: [null], refuses: [[100, oneFrame]] },
  model: text,
  moderation: free(null, "auto", "low"),
  n: { takes: [null, 1], refuses: [[2, /one image is made per call/]] },
  output_compression: free(null, 100, 0),
  output_format: {
    takes: [null, "png", "jpeg", "webp"],
    refuses: [
      ["gif", oneFrame],
      ["svg", oneFrame],
    ],
  },
  partial_images: { takes: [null, 0], refuses: [[2, WHOLE]] },
  quality: free(null, "auto", "standard", "hd", "low", "medium", "high"),
  response_format: { takes: [null, "url", "b64_json"], refuses: [["png", /one of b64_json, url/]] },
  safety_identifier: free(null, "x"),
  size: {
    takes: [null, "auto", "512x512", "1024x1024"],
    refuses: [["1792x1024", /one of 512x512, 768x768, 1024x1024, 1024x768, 768x1024, auto/]],
  },
  stream: noStream(null, false),
  style: free(null, "vivid", "natural"),
  svg: { takes: [null], refuses: [[{ model: "m" }, /the model is chosen by `model` alone/]] },
  user: free("x"),
};

const SPEECH: Table = {
  input: text,
  model: text,
  voice: { takes: ["alloy"], refuses: [[{ id: "voice_1" }, STORED]] },
  instructions: free("x"),
  response_format: { takes: [null, "mp3", "opus", "wav"], refuses: [["aac", /one of mp3, wav, opus/]] },
  speed: { takes: [null, 1, 0.5, 2], refuses: [[0.25, /from 0.5 to 2/]] },
  stream_format: { takes: [null, "audio"], refuses: [["sse", /with `stream: true` speech comes as bytes of audio/]] },
};

const EMBEDDINGS: Table = {
  input: {
    takes: ["x", ["x", "y"], [1, 2, 3], [[1, 2], [3]]],
    refuses: [
      ["", /must be/],
      [[], /must be/],
      [[[]], /must be/],
      [[1, "x"], /must be/],
    ],
  },
  model: text,
  dimensions: free(256),
  encoding_format: { takes: [null, "float", "base64"], refuses: [["hex", /one of float, base64/]] },
  user: free("x"),
};

const TRANSCRIPTION: Table = {
  file: { takes: [new Uint8Array(1)], refuses: [["text", /must be an audio file/]] },
  model: { takes: ["m"] },
  chunking_strategy: free("auto"),
  "include[]": free("logprobs"),
  "keywords[]": free("x"),
  "known_speaker_names[]": free("x"),
  "known_speaker_references[]": { takes: [], refuses: [["data:audio/wav;base64,AA==", /only `file` is measured/]] },
  language: { takes: ["", "en"], refuses: [["english", /two-letter/]] },
  "languages[]": free("en"),
  prompt: free("", "x"),
  response_format: {
    takes: ["json", "text", "srt", "vtt", "verbose_json"],
    refuses: [["diarized_json", /one of json/]],
  },
  stream: noStream("false"),
  temperature: { takes: ["0", "0.4"], refuses: [["warm", /must be a number/]] },
  "timestamp_granularities[]": free("word", "segment"),
};

const EDITS: Table = {
  image: { takes: [new Uint8Array(1)], refuses: [["text", /must be an image file/]] },
  "image[]": { takes: [new Uint8Array(1)] },
  prompt: { takes: ["x"], refuses: [["", /non-empty string/]] },
  background: { takes: ["auto", "opaque", "transparent"], refuses: [["yes", /not deferred/]] },
  complexity: free("low"),
  frame_count: { takes: [], refuses: [["9", oneFrame]] },
  frame_duration_ms: { takes: [], refuses: [["100", oneFrame]] },
  input_fidelity: free("high", "low"),
  markup: free(new Uint8Array(1)),
  mask: free(new Uint8Array(1)),
  model: { takes: ["m"] },
  n: { takes: ["1"], refuses: [["2", /one image is made per call/]] },
  output_compression: free("100"),
  output_format: { takes: ["png", "jpeg", "webp"], refuses: [["gif", oneFrame]] },
  partial_images: { takes: ["0"], refuses: [["1", WHOLE]] },
  quality: free("auto", "high", "standard"),
  response_format: free("url", "b64_json"),
  safety_identifier: free("x"),
  size: free("auto", "1024x1024"),
  stream: noStream("false"),
  "svg[model]": { takes: [], refuses: [["m", /the model is chosen by `model` alone/]] },
  user: free("x"),
};

const CALLS: readonly [Endpoint, Table, file: string, type: string][] = [
  [chatCompletions, CHAT, "chat/completions/completions.d.ts", "ChatCompletionCreateParamsBase"],
  [createResponse, RESPONSES, "responses/responses.d.ts", "ResponseCreateParamsBase"],
  [imageGenerations, IMAGES, "images.d.ts", "ImageGenerateParamsBase"],
  [imageEdits, EDITS, "images.d.ts", "ImageEditParamsBase"],
  [speech, SPEECH, "audio/speech.d.ts", "SpeechCreateParams"],
  [transcription, TRANSCRIPTION, "audio/transcriptions.d.ts", "TranscriptionCreateParamsBase"],
  [embeddings, EMBEDDINGS, "embeddings.d.ts", "EmbeddingCreateParams"],
];

/** The row's fixture with one field set: "taken", or the refusal's message. */
function said(endpoint: Endpoint, name: string, value: unknown): string {
  const fixture = FIXTURES[endpoint.id];
  if (!fixture) throw new Error(`no fixture for ${endpoint.id}`);
  const { body } = fixture;
  const sent = value instanceof Uint8Array ? ([name, value, "a.wav"] as const) : ([name, String(value)] as const);
  const asked =
    body.kind === "json"
      ? ({ kind: "json", value: { ...(body.value as object), [name]: value } } as const)
      : body.kind === "form"
        ? {
            ...body,
            parts: [...body.parts.filter((part) => part.name !== name.replace("[]", "")), ...partsOf(sent)],
          }
        : body;
  const parsed = endpoint.parse({ ...fixture, body: asked });
  if (parsed.ok) return "taken";
  return parsed.refusal.kind === "invalid_request" ? parsed.refusal.message : parsed.refusal.kind;
}

function partsOf(...fields: FormFields) {
  const made = formBody(...fields);
  return made.kind === "form" ? made.parts : [];
}
type FormFields = Parameters<typeof formBytes>[0];

describe.each(CALLS.map(([endpoint, ...rest]) => [endpoint.id, endpoint, ...rest] as const))(
  "%s",
  (_, endpoint, parameters, file, type) => {
    it("the table has every parameter of the package's types, and no other", () => {
      const known = new Set(Object.keys(parameters).map((name) => name.replace(/\[\w*\]$/, "")));
      expect([...known].sort()).toEqual([...membersOf(file, type)].sort());
    });

    it.each(Object.entries(parameters).flatMap(([name, { takes }]) => takes.map((value) => [name, value] as const)))(
      "takes %s = %j",
      (name, value) => {
        expect(said(endpoint, name, value)).toBe("taken");
      },
    );

    it.each(
      Object.entries(parameters).flatMap(([name, { refuses = [] }]) => refuses.map((one) => [name, ...one] as const)),
    )("refuses %s = %j with a true reason", (name, value, words) => {
      const message = said(endpoint, name, value);
      expect(message).toMatch(words);
      expect(message).toContain(`\`${name}`);
    });
  },
);

/** The OpenAI SDK with its helpers, as it comes. */
import OpenAI, { toFile } from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { expect } from "vitest";
import { z } from "zod";
import { type Act, type At, cells, free, paying } from "./cells.ts";
import { failuresOf } from "./failures.ts";
import { PIXEL, PIXEL_BYTES, QUESTION, RECORDING, SPOKEN } from "./scenes.ts";

const clientOf = ({ baseURL, apiKey }: Pick<At, "baseURL" | "apiKey">): OpenAI => new OpenAI({ baseURL, apiKey });
const ASKED = { messages: [{ role: "user" as const, content: QUESTION }] };
const WEATHER = {
  type: "function" as const,
  name: "weather",
  description: "The weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
  strict: true,
};
const City = z.object({ city: z.string(), degrees: z.int() });

const text = {
  chat: paying(1, async (at) => {
    const made = await clientOf(at).chat.completions.create({ model: at.names.chat, ...ASKED });
    expect(made.choices[0]?.message.content).toMatch(SPOKEN);
    expect(made.choices[0]?.finish_reason).toBe("stop");
  }),
  chatStream: paying(2, async (at) => {
    const { completions } = clientOf(at).chat;
    const helper = completions.stream({ model: at.names.chat, ...ASKED, stream_options: { include_usage: true } });
    let deltas = 0;
    helper.on("content.delta", () => (deltas += 1));
    const whole = await helper.finalChatCompletion();
    expect(whole.choices[0]?.message.content).toMatch(SPOKEN);
    expect(whole.usage?.completion_tokens).toBe(deltas);
    let words = "";
    for await (const chunk of await completions.create({ model: at.names.chat, ...ASKED, stream: true })) {
      words += chunk.choices[0]?.delta.content ?? "";
    }
    expect(words).toMatch(SPOKEN);
  }),
  tools: paying(2, async (at) => {
    const asked: unknown[] = [];
    const runner = clientOf(at).chat.completions.runTools({
      model: at.names.chat,
      ...ASKED,
      tools: [
        {
          type: "function",
          function: {
            name: "weather",
            description: "The weather of a city.",
            parameters: { type: "object", properties: { city: { type: "string" } } },
            parse: JSON.parse,
            function: (given: { city: string }) => {
              asked.push(given);
              return "sunny";
            },
          },
        },
      ],
    });
    expect(await runner.finalContent()).toMatch(SPOKEN);
    expect(asked).toEqual([{ city: expect.any(String) }]);
  }),
  structured: paying(1, async (at) => {
    const format = zodResponseFormat(City, "city");
    const made = await clientOf(at).chat.completions.parse({ model: at.names.chat, ...ASKED, response_format: format });
    expect(made.choices[0]?.message.parsed).toEqual({ city: expect.any(String), degrees: expect.any(Number) });
  }),
  pictures: paying(1, async (at) => {
    const content = [
      { type: "text" as const, text: "What is this?" },
      { type: "image_url" as const, image_url: { url: PIXEL } },
    ];
    const made = await clientOf(at).chat.completions.create({
      model: at.names.chat,
      messages: [{ role: "user", content }],
    });
    // A picture counts 256 at the service.
    expect(made.usage?.prompt_tokens).toBeGreaterThan(256);
  }),
  responses: paying(1, async (at) => {
    const made = await clientOf(at).responses.create({ model: at.names.chat, input: QUESTION });
    expect([made.status, made.output_text]).toEqual(["completed", expect.stringMatching(SPOKEN)]);
  }),
  responsesStream: paying(2, async (at) => {
    const { responses } = clientOf(at);
    const helper = responses.stream({ model: at.names.chat, input: QUESTION });
    let pieces = "";
    helper.on("response.output_text.delta", ({ delta }) => (pieces += delta));
    const whole = await helper.finalResponse();
    expect([whole.output_text, whole.status]).toEqual([pieces, "completed"]);
    expect(pieces).toMatch(SPOKEN);
    const types: string[] = [];
    for await (const { type } of await responses.create({ model: at.names.chat, input: QUESTION, stream: true })) {
      if (types.at(-1) !== type) types.push(type);
    }
    expect(types).toEqual([
      ...["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"],
      ...["response.output_text.delta", "response.output_text.done", "response.content_part.done"],
      ...["response.output_item.done", "response.completed"],
    ]);
  }),
  responsesTools: paying(2, async (at) => {
    const { responses } = clientOf(at);
    const asked = { model: at.names.chat, input: QUESTION, tools: [WEATHER] };
    const first = await responses.create(asked);
    const call = first.output.find((item) => item.type === "function_call");
    expect(JSON.parse(call?.arguments ?? "")).toEqual({ city: expect.any(String) });
    const result = { type: "function_call_output" as const, call_id: call?.call_id ?? "", output: "sunny" };
    const second = await responses.create({ ...asked, input: [result], previous_response_id: first.id });
    expect(second.output_text).toMatch(SPOKEN);
  }),
  responsesSchema: paying(1, async (at) => {
    const format = zodTextFormat(City, "city");
    const made = await clientOf(at).responses.parse({ model: at.names.chat, input: QUESTION, text: { format } });
    expect(made.output_parsed).toEqual({ city: expect.any(String), degrees: expect.any(Number) });
  }),
  nextTurn: paying(2, async (at) => {
    const { responses } = clientOf(at);
    const first = await responses.create({ model: at.names.chat, input: "Remember: blue." });
    const next = { model: at.names.chat, input: "Which colour?", previous_response_id: first.id };
    const second = await responses.create(next);
    expect(second.usage?.input_tokens_details.cached_tokens).toBe(first.usage?.total_tokens);
  }),
  embeddings: paying(1, async (at) => {
    const { data } = await clientOf(at).embeddings.create({ model: at.names.embedding, input: ["one", "two words"] });
    expect(data.map(({ embedding }) => embedding.length)).toEqual([768, 768]);
  }),
  tokenArrays: paying(1, async (at) => {
    const input = [[9906, 1917], [1917]];
    const { data } = await clientOf(at).embeddings.create({ model: at.names.embedding, input });
    expect(data.map(({ embedding }) => embedding.length)).toEqual([768, 768]);
  }),
} satisfies Record<string, Act>;

const media = {
  images: paying(1, async (at) => {
    const made = await clientOf(at).images.generate({ model: at.names.image, prompt: "a cat", size: "1024x1024" });
    expect(Buffer.from(made.data?.[0]?.b64_json ?? "", "base64").readUInt32BE(16)).toBe(1024);
  }),
  imageEdits: paying(1, async (at) => {
    const image = await toFile(PIXEL_BYTES, "a.png", { type: "image/png" });
    const made = await clientOf(at).images.edit({ model: at.names.imageEdit, image, prompt: "a hat" });
    expect(made.data?.[0]?.b64_json?.length).toBeGreaterThan(100);
  }),
  speech: paying(1, async (at) => {
    const asked = { model: at.names.speech, voice: "any", input: QUESTION, response_format: "mp3" as const };
    const made = await clientOf(at).audio.speech.create(asked);
    expect((await made.arrayBuffer()).byteLength).toBeGreaterThan(500);
  }),
  transcription: paying(1, async (at) => {
    const file = await toFile(RECORDING, "a.wav", { type: "audio/wav" });
    const made = await clientOf(at).audio.transcriptions.create({ model: at.names.transcription, file });
    expect(made.text).toMatch(/\w+ \w+/);
  }),
  models: free(async (at) => {
    const ids: string[] = [];
    for await (const { id } of clientOf(at).models.list()) ids.push(id);
    expect(ids).toContain(at.names.chat);
    expect((await clientOf(at).models.retrieve(at.names.chat)).id).toBe(at.names.chat);
  }),
} satisfies Record<string, Act>;

const failures = failuresOf({
  ask: async ({ model, ...told }) => {
    const { choices } = await clientOf(told).chat.completions.create({ model, ...ASKED });
    return choices[0]?.message.content ?? "";
  },
  async *stream({ model, ...told }) {
    const stream = await clientOf(told).chat.completions.create({ model, ...ASKED, stream: true });
    for await (const { choices } of stream) yield choices[0]?.delta.content ?? "";
  },
  statusOf: (error) => error instanceof OpenAI.APIError && error.status,
});

/** How many streams run at once; each asks for a length of its own. */
const AT_ONCE = 100;

const parallel = paying(AT_ONCE, async (at) => {
  const client = clientOf(at);
  const wholeOf = async (length: number) => {
    const { data: stream, response } = await client.chat.completions
      .create({
        model: at.names.chat,
        ...ASKED,
        stream: true,
        stream_options: { include_usage: true },
        ...{ sandbox_output_tokens: length },
      })
      .withResponse();
    let frames = 0;
    let finished: string | null = null;
    let told: number | undefined;
    for await (const { choices, usage } of stream) {
      if (choices[0]?.delta.content) frames += 1;
      finished = choices[0]?.finish_reason ?? finished;
      told = usage?.completion_tokens ?? told;
    }
    expect({ length, frames, told, finished }).toEqual({ length, frames: length, told: length, finished: "stop" });
    return { callId: response.headers.get("x-request-id"), length };
  };
  const made = await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => wholeOf(10 + (index % 20))));
  const log = await at.operator.sandbox.allExecutions();
  const executed = new Map(log.map(({ request_id, usage }) => [request_id, usage?.output_tokens]));
  expect(made.map(({ callId }) => executed.get(callId))).toEqual(made.map(({ length }) => length));
});

cells("openai", { ...text, ...media, ...failures, parallel });

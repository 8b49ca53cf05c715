/** LangChain's classes for OpenAI. */
import { HumanMessage, ToolMessage, type UsageMetadata } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, DallEAPIWrapper, OpenAIEmbeddings } from "@langchain/openai";
import { expect } from "vitest";
import { z } from "zod";
import { type At, cells, paying } from "./cells.ts";
import { failuresOf, type Told } from "./failures.ts";
import { PIXEL, QUESTION, SPOKEN } from "./scenes.ts";

const chatModel = ({ baseURL, apiKey, model }: Told): ChatOpenAI =>
  new ChatOpenAI({ model, apiKey, configuration: { baseURL } });
const chatOf = (at: At): ChatOpenAI => chatModel({ ...at, model: at.names.chat });
const responsesOf = ({ baseURL, apiKey, names }: At): ChatOpenAI =>
  new ChatOpenAI({ model: names.chat, apiKey, configuration: { baseURL }, useResponsesApi: true });

/** The types of its messages leave out what they all carry. */
const usageOf = (message: object): UsageMetadata | undefined =>
  (message as { readonly usage_metadata?: UsageMetadata }).usage_metadata;

const failures = failuresOf({
  ask: async (told) => (await chatModel(told).invoke(QUESTION)).text,
  async *stream(told) {
    for await (const chunk of await chatModel(told).stream(QUESTION)) yield chunk.text;
  },
  statusOf: (error) => error instanceof Error && "status" in error && error.status,
});

/** Chat and responses alike: which of them a model uses is a setting. */
function textActs(modelOf: (at: At) => ChatOpenAI) {
  return {
    chat: paying(1, async (at) => {
      const answer = await modelOf(at).invoke(QUESTION);
      expect(answer.text).toMatch(SPOKEN);
      expect(usageOf(answer)?.output_tokens).toBeGreaterThan(5);
    }),
    chatStream: paying(1, async (at) => {
      const pieces: string[] = [];
      let told = 0;
      for await (const chunk of await modelOf(at).stream(QUESTION)) {
        if (chunk.text !== "") pieces.push(chunk.text);
        told += usageOf(chunk)?.output_tokens ?? 0;
      }
      expect(pieces.join("")).toMatch(SPOKEN);
      expect(told).toBe(pieces.length);
    }),
    tools: paying(2, async (at) => {
      const asked: unknown[] = [];
      const weather = tool(
        async (given) => {
          asked.push(given);
          return "sunny";
        },
        { name: "weather", description: "The weather of a city.", schema: z.object({ city: z.string() }) },
      );
      const model = modelOf(at).bindTools([weather]);
      const question = new HumanMessage(QUESTION);
      const call = await model.invoke([question]);
      const results = await Promise.all((call.tool_calls ?? []).map((one) => weather.invoke(one)));
      expect(results).toEqual([expect.any(ToolMessage)]);
      expect((await model.invoke([question, call, ...results])).text).toMatch(SPOKEN);
      expect(asked).toEqual([{ city: expect.any(String) }]);
    }),
    structured: paying(1, async (at) => {
      const City = z.object({ city: z.string(), degrees: z.int() });
      const city = await modelOf(at)
        .withStructuredOutput(City, { method: "jsonSchema", name: "city" })
        .invoke(QUESTION);
      expect(city).toEqual({ city: expect.any(String), degrees: expect.any(Number) });
    }),
  };
}
const byResponses = textActs(responsesOf);

cells("langchain", {
  ...failures,
  ...textActs(chatOf),
  pictures: paying(1, async (at) => {
    const content = [
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url: PIXEL } },
    ];
    const answer = await chatOf(at).invoke([new HumanMessage({ content })]);
    // A picture counts 256 at the service.
    expect(usageOf(answer)?.input_tokens).toBeGreaterThan(256);
  }),
  responses: byResponses.chat,
  responsesStream: byResponses.chatStream,
  responsesTools: byResponses.tools,
  responsesSchema: byResponses.structured,
  nextTurn: paying(2, async (at) => {
    const first = await responsesOf(at).invoke("Remember: blue.");
    const next = { previous_response_id: first.response_metadata.id as string };
    const second = await responsesOf(at).invoke("Which colour?", next);
    expect(usageOf(second)?.input_token_details?.cache_read).toBe(usageOf(first)?.total_tokens);
  }),
  embeddings: paying(1, async ({ baseURL, apiKey, names }) => {
    const model = new OpenAIEmbeddings({ model: names.embedding, apiKey, configuration: { baseURL } });
    const vectors = await model.embedDocuments(["one", "two words"]);
    expect(vectors.map(({ length }) => length)).toEqual([768, 768]);
  }),
  images: paying(1, async ({ baseURL, apiKey, names }) => {
    const model = new DallEAPIWrapper({
      model: names.image,
      apiKey,
      baseUrl: baseURL,
      dallEResponseFormat: "b64_json",
    });
    const image = (await model.invoke("a cat")) as string;
    expect(Buffer.from(image, "base64").readUInt32BE(16)).toBe(1024);
  }),
});

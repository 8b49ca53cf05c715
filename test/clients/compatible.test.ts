/** The AI SDK of Vercel with its provider for services that are compatible with OpenAI. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateImage } from "ai";
import { expect } from "vitest";
import { cells, paying } from "./cells.ts";
import { failuresOf } from "./failures.ts";
import { chatOf, textActs } from "./vercel-text.ts";

const provider = ({ baseURL, apiKey }: { readonly baseURL: string; readonly apiKey: string }) =>
  createOpenAICompatible({
    name: "tollgate",
    baseURL,
    apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });

const chatModel = (told: { readonly baseURL: string; readonly apiKey: string; readonly model: string }) =>
  provider(told).chatModel(told.model);

cells("compatible", {
  ...textActs(chatModel),
  ...failuresOf(chatOf(chatModel)),
  embeddings: paying(1, async (at) => {
    const model = provider(at).embeddingModel(at.names.embedding);
    const { embeddings } = await embedMany({ model, values: ["one", "two words"] });
    expect(embeddings.map(({ length }) => length)).toEqual([768, 768]);
  }),
  images: paying(1, async (at) => {
    const model = provider(at).imageModel(at.names.image);
    const { image } = await generateImage({ model, prompt: "a cat", size: "512x512" });
    expect(Buffer.from(image.uint8Array).readUInt32BE(16)).toBe(512);
  }),
});

/** The AI SDK of Vercel with its provider for OpenAI: chat, and responses, which are that provider's default. */
import { createOpenAI } from "@ai-sdk/openai";
import { embedMany, generateImage, generateSpeech, generateText, transcribe } from "ai";
import { expect } from "vitest";
import { cells, paying } from "./cells.ts";
import { failuresOf } from "./failures.ts";
import { QUESTION, RECORDING, SPOKEN } from "./scenes.ts";
import { chatOf, textActs } from "./vercel-text.ts";

type Told = { readonly baseURL: string; readonly apiKey: string };
const openai = ({ baseURL, apiKey }: Told) => createOpenAI({ baseURL, apiKey });
const chatModel = (told: Told & { readonly model: string }) => openai(told).chat(told.model);

const byResponses = textActs((told) => openai(told)(told.model));

cells("vercel", {
  ...textActs(chatModel),
  ...failuresOf(chatOf(chatModel)),
  responses: byResponses.chat,
  responsesStream: byResponses.chatStream,
  responsesTools: byResponses.tools,
  responsesSchema: byResponses.structured,
  turnsSent: paying(3, async (at) => {
    const model = openai(at)(at.names.chat);
    const question = { role: "user" as const, content: QUESTION };
    const turns = async (providerOptions: { openai: { store: boolean } }) => {
      const first = await generateText({ model, messages: [question], providerOptions });
      const messages = [question, ...first.responseMessages, question];
      return generateText({ model, messages, providerOptions });
    };
    expect((await turns({ openai: { store: false } })).text).toMatch(SPOKEN);
    // Otherwise it names the first answer by the id of its item, and is told what helps.
    await expect(turns({ openai: { store: true } })).rejects.toThrow(/store: false/);
  }),
  nextTurn: paying(2, async (at) => {
    const model = openai(at)(at.names.chat);
    const first = await generateText({ model, prompt: "Remember: blue." });
    const previousResponseId = first.finalStep.providerMetadata?.openai?.responseId as string;
    const openaiOptions = { openai: { previousResponseId } };
    const second = await generateText({ model, prompt: "Which colour?", providerOptions: openaiOptions });
    expect(second.usage.inputTokenDetails.cacheReadTokens).toBe(first.usage.totalTokens);
  }),
  embeddings: paying(1, async (at) => {
    const model = openai(at).embeddingModel(at.names.embedding);
    const { embeddings } = await embedMany({ model, values: ["one", "two words"] });
    expect(embeddings.map(({ length }) => length)).toEqual([768, 768]);
  }),
  images: paying(1, async (at) => {
    const model = openai(at).imageModel(at.names.image);
    const { image } = await generateImage({ model, prompt: "a cat", size: "512x512" });
    expect(Buffer.from(image.uint8Array).readUInt32BE(16)).toBe(512);
  }),
  speech: paying(1, async (at) => {
    const { audio } = await generateSpeech({ model: openai(at).speech(at.names.speech), text: QUESTION });
    expect(audio.uint8Array.byteLength).toBeGreaterThan(500);
  }),
  transcription: paying(1, async (at) => {
    const model = openai(at).transcription(at.names.transcription);
    const { text } = await transcribe({ model, audio: RECORDING });
    expect(text).toMatch(/\w+ \w+/);
  }),
});

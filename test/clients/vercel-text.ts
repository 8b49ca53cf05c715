/** What the AI SDK of Vercel does with any model of text. */
import { APICallError, generateText, isStepCount, type LanguageModel, Output, streamText, tool } from "ai";
import { expect } from "vitest";
import { z } from "zod";
import { type At, paying } from "./cells.ts";
import type { Chat, Told } from "./failures.ts";
import { PIXEL_BYTES, QUESTION, SPOKEN } from "./scenes.ts";

type MakeModel = (told: Told) => LanguageModel;

export const chatOf = (make: MakeModel): Chat => ({
  ask: async (told) => (await generateText({ model: make(told), prompt: QUESTION })).text,
  async *stream(told) {
    const leaving = new AbortController();
    const asked = { model: make(told), prompt: QUESTION, abortSignal: leaving.signal, onError: () => undefined };
    try {
      for await (const part of streamText(asked).fullStream) {
        if (part.type === "text-delta") yield part.text;
        // This SDK tells of errors in its stream.
        if (part.type === "error") throw part.error;
      }
    } finally {
      // To read no further is not to leave.
      leaving.abort();
    }
  },
  statusOf: (error) => APICallError.isInstance(error) && error.statusCode,
});

/** Chat and responses alike: they are models of text to this SDK. */
export function textActs(make: MakeModel) {
  const modelOf = (at: At) => make({ ...at, model: at.names.chat });
  return {
    chat: paying(1, async (at) => {
      const { text, finishReason, usage } = await generateText({ model: modelOf(at), prompt: QUESTION });
      expect([text, finishReason]).toEqual([expect.stringMatching(SPOKEN), "stop"]);
      expect(usage.outputTokens).toBeGreaterThan(5);
    }),
    chatStream: paying(1, async (at) => {
      const stream = streamText({ model: modelOf(at), prompt: QUESTION });
      let pieces = 0;
      for await (const piece of stream.textStream) pieces += piece === "" ? 0 : 1;
      expect([await stream.text, await stream.finishReason]).toEqual([expect.stringMatching(SPOKEN), "stop"]);
      expect((await stream.usage).outputTokens).toBe(pieces);
    }),
    tools: paying(4, async (at) => {
      const asked: unknown[] = [];
      const weather = tool({
        description: "The weather of a city.",
        inputSchema: z.object({ city: z.string() }),
        execute: async (given) => {
          asked.push(given);
          return "sunny";
        },
      });
      const turns = { model: modelOf(at), prompt: QUESTION, tools: { weather }, stopWhen: isStepCount(3) };
      expect((await generateText(turns)).text).toMatch(SPOKEN);
      expect(await streamText(turns).text).toMatch(SPOKEN);
      expect(asked).toEqual([{ city: expect.any(String) }, { city: expect.any(String) }]);
    }),
    structured: paying(1, async (at) => {
      const schema = z.object({ city: z.string(), degrees: z.int() });
      const { output } = await generateText({
        model: modelOf(at),
        prompt: QUESTION,
        output: Output.object({ schema }),
      });
      expect(output).toEqual({ city: expect.any(String), degrees: expect.any(Number) });
    }),
    pictures: paying(1, async (at) => {
      const content = [
        { type: "text" as const, text: "What is this?" },
        { type: "file" as const, data: PIXEL_BYTES, mediaType: "image/png" },
      ];
      const { usage } = await generateText({ model: modelOf(at), messages: [{ role: "user", content }] });
      // A picture counts 256 at the service.
      expect(usage.inputTokens).toBeGreaterThan(256);
    }),
  };
}

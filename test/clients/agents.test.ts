/** OpenAI's Agents, by way of responses, which are their default, and of chat. */
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import OpenAI from "openai";
import { expect } from "vitest";
import { z } from "zod";
import { type At, cells, paying } from "./cells.ts";
import { failuresOf, type Told } from "./failures.ts";
import { PIXEL, QUESTION, SPOKEN } from "./scenes.ts";

type Where = Pick<Told, "baseURL" | "apiKey">;
const runnerOf = ({ baseURL, apiKey }: Where, useResponses: boolean): Runner =>
  new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey, useResponses }), tracingDisabled: true });
const agentOf = (model: string) => new Agent({ name: "Guide", instructions: "Answer in short.", model });

const chat = (at: At) => ({ runner: runnerOf(at, false), agent: agentOf(at.names.chat) });
const responses = (at: At) => ({ runner: runnerOf(at, true), agent: agentOf(at.names.chat) });

const failures = failuresOf({
  ask: async ({ model, ...where }) => {
    const { finalOutput } = await runnerOf(where, false).run(agentOf(model), QUESTION);
    return finalOutput ?? "";
  },
  async *stream({ model, ...where }) {
    const leaving = new AbortController();
    try {
      const asked = { stream: true, signal: leaving.signal } as const;
      const stream = await runnerOf(where, false).run(agentOf(model), QUESTION, asked);
      yield* stream.toTextStream();
      await stream.completed;
    } finally {
      leaving.abort();
    }
  },
  statusOf: (error) => error instanceof OpenAI.APIError && error.status,
});

/** By chat and by responses alike. */
function textActs(made: typeof chat) {
  return {
    chat: paying(1, async (at) => {
      const { runner, agent } = made(at);
      expect((await runner.run(agent, QUESTION)).finalOutput).toMatch(SPOKEN);
    }),
    chatStream: paying(1, async (at) => {
      const { runner, agent } = made(at);
      const stream = await runner.run(agent, QUESTION, { stream: true });
      let words = "";
      for await (const piece of stream.toTextStream()) words += piece;
      await stream.completed;
      expect(words).toMatch(SPOKEN);
      expect(stream.finalOutput).toBe(words);
    }),
    tools: paying(2, async (at) => {
      const asked: unknown[] = [];
      const weather = tool({
        name: "weather",
        description: "The weather of a city.",
        parameters: z.object({ city: z.string() }),
        execute: async (given) => {
          asked.push(given);
          return "sunny";
        },
      });
      const { runner, agent } = made(at);
      expect((await runner.run(agent.clone({ tools: [weather] }), QUESTION)).finalOutput).toMatch(SPOKEN);
      expect(asked).toEqual([{ city: expect.any(String) }]);
    }),
    structured: paying(1, async (at) => {
      const outputType = z.object({ city: z.string(), degrees: z.int() });
      const agent = new Agent({ name: "Guide", model: at.names.chat, outputType });
      const { finalOutput } = await made(at).runner.run(agent, QUESTION);
      expect(finalOutput).toEqual({ city: expect.any(String), degrees: expect.any(Number) });
    }),
  };
}
const byResponses = textActs(responses);

cells("agents", {
  ...failures,
  ...textActs(chat),
  pictures: paying(1, async (at) => {
    const { runner, agent } = chat(at);
    const content = [
      { type: "input_text" as const, text: "What is this?" },
      { type: "input_image" as const, image: PIXEL },
    ];
    const { rawResponses } = await runner.run(agent, [{ role: "user", content }]);
    // A picture counts 256 at the service.
    expect(rawResponses[0]?.usage.inputTokens).toBeGreaterThan(256);
  }),
  responses: byResponses.chat,
  responsesStream: byResponses.chatStream,
  responsesTools: byResponses.tools,
  responsesSchema: byResponses.structured,
  nextTurn: paying(2, async (at) => {
    const { runner, agent } = responses(at);
    const first = await runner.run(agent, "Remember: blue.");
    const previousResponseId = first.lastResponseId ?? "";
    const second = await runner.run(agent, "Which colour?", { previousResponseId });
    const [before, after] = [first, second].map(({ rawResponses }) => rawResponses[0]?.usage);
    expect(after?.inputTokensDetails[0]?.cached_tokens).toBe(before?.totalTokens);
  }),
});

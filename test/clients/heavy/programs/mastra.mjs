/** Mastra: an agent with a tool, whole and streamed. */
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";

const { BASE_URL: url, API_KEY: apiKey, MODEL: modelId } = process.env;
const asked = [];
const weather = createTool({
  id: "weather",
  description: "The weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async (given) => {
    asked.push(given);
    return { sky: "sunny" };
  },
});
const agent = new Agent({
  id: "guide",
  name: "guide",
  instructions: "Answer in short.",
  model: { providerId: "tollgate", modelId, url, apiKey },
  tools: { weather },
});
const { text } = await agent.generate("What is the weather in Rome?");
let streamed = "";
for await (const piece of (await agent.stream("What is the weather in Rome?")).textStream) streamed += piece;
console.log(JSON.stringify({ answer: text, streamed, asked: asked.length }));

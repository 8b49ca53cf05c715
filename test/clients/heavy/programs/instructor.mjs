/** Instructor: an object by a schema. */
import Instructor from "@instructor-ai/instructor";
import OpenAI from "openai";
import { z } from "zod";

const { BASE_URL: baseURL, API_KEY: apiKey, MODEL: model } = process.env;
const client = Instructor({ client: new OpenAI({ baseURL, apiKey }), mode: "TOOLS" });
const city = await client.chat.completions.create({
  model,
  messages: [{ role: "user", content: "What is the weather in Rome?" }],
  response_model: { name: "City", schema: z.object({ city: z.string(), degrees: z.number() }) },
});
console.log(JSON.stringify(city));

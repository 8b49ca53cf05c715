/** Instructor: an object by a schema, in two of its modes. */
import Instructor from "@instructor-ai/instructor";
import OpenAI from "openai";
import { z } from "zod";

const { BASE_URL: baseURL, API_KEY: apiKey, MODEL: model } = process.env;
const schema = z.object({ city: z.string(), degrees: z.number() });
const found = {};
for (const mode of ["TOOLS", "JSON_SCHEMA"]) {
  const client = Instructor({ client: new OpenAI({ baseURL, apiKey }), mode });
  found[mode] = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "What is the weather in Rome?" }],
    response_model: { name: "City", schema },
  });
}
console.log(JSON.stringify(found));

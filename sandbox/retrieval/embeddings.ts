/** `POST /v1/embeddings`: hashed character trigrams, so that similar texts are close to each other. */
import { z } from "zod";
import { toBase64 } from "../base64.ts";
import { readJson } from "../body.ts";
import type { Endpoint } from "../endpoint.ts";
import { done } from "../refusal.ts";
import { hash32 } from "../seed.ts";
import { embeddedTokens } from "./tokens.ts";

const DIMENSIONS = 768;
const LARGEST_BATCH = 2_048;
/** The context: a longer array of tokens is refused. */
const LONGEST_TOKENS = 8_192;

/** A text as the numbers of its tokens. */
const Tokens = z.array(z.int().min(0)).min(1).max(LONGEST_TOKENS);

const EmbeddingRequest = z.looseObject({
  model: z.string().min(1),
  input: z.union([
    z.string().min(1),
    z.array(z.string().min(1)).min(1).max(LARGEST_BATCH),
    Tokens,
    z.array(Tokens).min(1).max(LARGEST_BATCH),
  ]),
  encoding_format: z.enum(["float", "base64"]).nullish(),
});

export const embeddings: Endpoint = {
  method: "POST",
  path: "/v1/embeddings",
  errors: "openai",
  prepare: (received) => {
    const read = readJson(received, EmbeddingRequest);
    if (!read.ok) return read;
    const { model, input, encoding_format } = read.value;
    const inputs = inputsOf(input);
    const tokens = embeddedTokens(inputs, model);
    return done({
      model,
      kinds: ["embedding"],
      executes: true,
      answer: () => ({
        kind: "json",
        body: {
          object: "list",
          data: inputs.map((one, index) => ({
            object: "embedding",
            index,
            embedding: encode(embed(typeof one === "string" ? one : one.join(" ")), encoding_format ?? "float"),
          })),
          model,
          usage: { prompt_tokens: tokens, total_tokens: tokens },
        },
        usage: { input_tokens: tokens },
      }),
    });
  },
};

/** Each is one text, or the tokens of one. */
function inputsOf(input: z.output<typeof EmbeddingRequest>["input"]): readonly (string | readonly number[])[] {
  if (typeof input === "string") return [input];
  return typeof input[0] === "number" ? [input as number[]] : (input as string[] | number[][]);
}

/** A vector of length one. */
function embed(text: string): Float32Array {
  const vector = new Float32Array(DIMENSIONS);
  const padded = ` ${text.toLowerCase()} `;
  for (let at = 0; at + 2 < padded.length; at++) {
    const hash = hash32(padded.slice(at, at + 3));
    const place = hash % DIMENSIONS;
    vector[place] = (vector[place] ?? 0) + (hash & 0x10000 ? 1 : -1);
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

const encode = (vector: Float32Array, format: "float" | "base64") =>
  format === "float" ? [...vector] : toBase64(new Uint8Array(vector.buffer));

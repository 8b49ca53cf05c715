/**
 * The model's answer, a function of the request, the model and the region. It is made as tokens first, so that JSON,
 * stream, usage figures and frames all come from the same pieces.
 */
import type { JsonObject } from "../endpoint.ts";
import { fingerprint, hash32 } from "../seed.ts";
import type { Usage } from "../usage.ts";
import { inputTokensOf } from "./prompt.ts";
import type { ChatRequest } from "./request.ts";
import { sampleOf } from "./schema-sample.ts";
import { tokenizerOf, tokensOf } from "./tokens.ts";
import { markerOf, prose } from "./words.ts";

/** The longest completion if the request sets no limit. */
export const MODEL_MAX_OUTPUT_TOKENS = 8_192;

/** One answer, before it becomes JSON or frames. */
export interface Choice {
  /** The pieces of the text, or of the call's arguments. */
  readonly tokens: readonly string[];
  readonly call: { readonly id: string; readonly name: string } | null;
  readonly finish: "stop" | "length" | "tool_calls";
}

export interface Completion {
  readonly choices: readonly Choice[];
  readonly promptTokens: number;
  readonly cachedTokens: number | undefined;
}

export function complete(body: ChatRequest, region: string): Completion {
  const prompt = inputTokensOf(body);
  const cached = body.sandbox_cached_tokens;
  return {
    choices: Array.from({ length: body.n ?? 1 }, (_, index) => choose(body, region, index)),
    promptTokens: prompt,
    cachedTokens: cached === undefined ? undefined : Math.min(cached, prompt),
  };
}

function choose(body: ChatRequest, region: string, index: number): Choice {
  const tokenizer = tokenizerOf(body.model);
  const seed = hash32(JSON.stringify([body.messages, body.seed ?? 0, index]));
  const called = toolOf(body);
  if (called) {
    const args = JSON.stringify(sampleOf(called.function.parameters));
    const id = `call_${fingerprint(`${seed}${called.function.name}`)}`;
    return { ...cut(tokensOf(args, tokenizer), body, "tool_calls"), call: { id, name: called.function.name } };
  }
  const marker = markerOf(body.model, region);
  const stopped = stopAt(textOf(body, marker, seed), body.stop);
  return { ...cut(tokensOf(stopped, tokenizer), body, "stop"), call: null };
}

/**
 * The tool to call: the first function, or the requested one. None if the model is to write text or already has its
 * tool's answer.
 */
function toolOf({ tools, tool_choice, messages }: ChatRequest) {
  if (!tools?.length || tool_choice === "none" || messages.at(-1)?.role !== "user") return undefined;
  if (typeof tool_choice === "object" && tool_choice !== null) {
    return tools.find((tool) => tool.function.name === tool_choice.function.name) ?? tools[0];
  }
  return tools[0];
}

function textOf(body: ChatRequest, marker: string, seed: number): string {
  const words = body.sandbox_output_tokens ?? 24 + (seed % 24);
  const format = body.response_format?.type ?? "text";
  if (format === "json_schema" && body.response_format?.type === "json_schema") {
    return JSON.stringify(sampleOf(body.response_format.json_schema.schema));
  }
  if (format === "json_object")
    return JSON.stringify({ served_by: marker, answer: prose("", seed, words, tokenizerOf(body.model)).trim() });
  return body.sandbox_reply ?? prose(marker, seed, words, tokenizerOf(body.model));
}

function stopAt(text: string, stop: ChatRequest["stop"]): string {
  const sequences = typeof stop === "string" ? [stop] : (stop ?? []);
  const ends = sequences.filter((sequence) => sequence !== "").map((sequence) => text.indexOf(sequence));
  return text.slice(0, Math.min(text.length, ...ends.filter((end) => end >= 0)));
}

function cut(tokens: readonly string[], body: ChatRequest, finish: Choice["finish"]): Omit<Choice, "call"> {
  const most = Math.min(
    body.max_tokens ?? Number.POSITIVE_INFINITY,
    body.max_completion_tokens ?? Number.POSITIVE_INFINITY,
    Math.max(MODEL_MAX_OUTPUT_TOKENS, body.sandbox_output_tokens ?? 0),
  );
  return tokens.length > most ? { tokens: tokens.slice(0, most), finish: "length" } : { tokens, finish };
}

/** The log's figures once `outputTokens` were made. */
export const loggedUsage = (completion: Completion, outputTokens: number): Usage => ({
  input_tokens: completion.promptTokens,
  cached_input_tokens: completion.cachedTokens ?? 0,
  output_tokens: outputTokens,
});

export const outputTokens = (completion: Completion): number =>
  completion.choices.reduce((sum, { tokens }) => sum + tokens.length, 0);

/** The figures as chat completions report them. */
export function reportedUsage(completion: Completion): JsonObject {
  const completionTokens = outputTokens(completion);
  const { promptTokens: prompt, cachedTokens } = completion;
  return {
    prompt_tokens: prompt,
    completion_tokens: completionTokens,
    total_tokens: prompt + completionTokens,
    ...(cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
  };
}

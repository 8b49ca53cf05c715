/** What a response says: its output items and the tokens that they are made of, a function of the request. */
import { MODEL_MAX_OUTPUT_TOKENS } from "../chat/completion.ts";
import { sampleOf } from "../chat/schema-sample.ts";
import { type Tokenizer, tokenizerOf, tokensOf } from "../chat/tokens.ts";
import { markerOf, prose } from "../chat/words.ts";
import { fingerprint, hash32 } from "../seed.ts";
import type { KeptResponse, OutputItem } from "../service/conversations.ts";
import type { ResponseRequest } from "./request.ts";

/** How long a summary of reasoning is. */
const REASONING_TOKENS = 12;

interface Made {
  readonly type: OutputItem["type"];
  readonly tokens: readonly string[];
  readonly name?: string;
}

/** `suffix`: of the response's id, and so of its items' ids. */
export function outputOf(
  body: ResponseRequest,
  previous: KeptResponse | null,
  region: string,
  suffix: string,
): { tokens: readonly string[]; items: readonly OutputItem[] } {
  const tokenizer = tokenizerOf(body.model);
  const seed = hash32(JSON.stringify([body.input, body.instructions ?? "", previous?.tokens ?? []]));
  const called = toolsCalled(body);
  const said: Made[] = called.length > 0 ? called.map((tool) => callOf(tool, tokenizer)) : [textOf(body, region, seed)];
  const made = body.reasoning ? [thoughtOf(seed, tokenizer), ...said] : said;
  const most = Math.max(MODEL_MAX_OUTPUT_TOKENS, body.sandbox_output_tokens ?? 0);
  let left = Math.min(body.max_output_tokens ?? most, most);
  const tokens: string[] = [];
  const items = made.flatMap(({ type, tokens: own, name }, at): OutputItem[] => {
    if (left === 0) return [];
    const kept = own.slice(0, left);
    left -= kept.length;
    tokens.push(...kept);
    const size = kept.length;
    if (type === "reasoning") return [{ id: `rs_${suffix}`, type, size }];
    if (type === "message") return [{ id: `msg_${suffix}`, type, size }];
    const callId = `call_${fingerprint(`${suffix}${at}`)}`;
    return [{ id: at === 0 ? `fc_${suffix}` : `fc_${suffix}_${at}`, type, size, name: name ?? "", callId }];
  });
  return { tokens, items };
}

/**
 * The functions to call: the first, or the requested one; with `parallel_tool_calls` the first two. None if the model
 * is to write text or already has its tool's output.
 */
function toolsCalled({ tools, tool_choice, parallel_tool_calls, input }: ResponseRequest) {
  const functions = (tools ?? []).filter(({ type, name }) => type === "function" && name);
  const last = typeof input === "string" ? undefined : input.at(-1);
  if (functions.length === 0 || tool_choice === "none" || last?.type === "function_call_output") return [];
  if (typeof tool_choice === "object" && tool_choice !== null) {
    return [functions.find(({ name }) => name === tool_choice.name) ?? functions[0]];
  }
  return functions.slice(0, parallel_tool_calls ? 2 : 1);
}

const callOf = (tool: ReturnType<typeof toolsCalled>[number], tokenizer: Tokenizer): Made => ({
  type: "function_call",
  tokens: tokensOf(JSON.stringify(sampleOf(tool?.parameters) ?? {}), tokenizer),
  name: tool?.name ?? "",
});

const thoughtOf = (seed: number, tokenizer: Tokenizer): Made => ({
  type: "reasoning",
  tokens: tokensOf(prose("Thinking:", seed + 1, REASONING_TOKENS, tokenizer), tokenizer),
});

function textOf(body: ResponseRequest, region: string, seed: number): Made {
  const tokenizer = tokenizerOf(body.model);
  const wanted = body.sandbox_output_tokens ?? 24 + (seed % 24);
  const marker = markerOf(body.model, region);
  const written = (start: string) => prose(start, seed, wanted, tokenizer);
  const format = body.text?.format;
  const text =
    format?.type === "json_schema"
      ? JSON.stringify(sampleOf(format.schema))
      : format?.type === "json_object"
        ? JSON.stringify({ served_by: marker, answer: written("").trim() })
        : (body.sandbox_reply ?? written(marker));
  return { type: "message", tokens: tokensOf(text, tokenizer) };
}

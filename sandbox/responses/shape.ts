/**
 * A response as JSON and as events, in three manners. `least-` models say what the contract names: items with type,
 * role and content, and three events. `full-` models say all that OpenAI does. Others send the contract's three
 * events, with places and numbers in them.
 */
import { saysAll, saysLeast } from "../catalog.ts";
import type { EventFrame, JsonObject } from "../endpoint.ts";
import type { KeptResponse, NewResponse, OutputItem } from "../service/conversations.ts";
import type { Usage } from "../usage.ts";

/** The contract's object. While it is being made it has neither output nor usage. */
export function shape(kept: KeptResponse): JsonObject {
  const { id, running, cancelled, inputTokens, outputTokens, cachedTokens, model } = kept;
  return {
    id,
    object: "response",
    created_at: Math.floor(kept.createdMs / 1000),
    model,
    status: cancelled ? "cancelled" : running ? "in_progress" : "completed",
    previous_response_id: kept.previousId,
    output: running ? [] : itemsOf(kept, outputTokens),
    usage: running
      ? null
      : {
          input_tokens: inputTokens,
          output_tokens: outputTokens,
          total_tokens: inputTokens + outputTokens,
          ...(kept.previousId && { input_tokens_details: { cached_tokens: cachedTokens } }),
        },
  };
}

/** The items as far as so many tokens go. */
function itemsOf({ items, tokens, model }: NewResponse, outputTokens: number): JsonObject[] {
  let from = 0;
  return items.flatMap((item) => {
    if (from >= outputTokens) return [];
    const text = tokens.slice(from, Math.min(from + item.size, outputTokens)).join("");
    from += item.size;
    return [saysLeast(model) ? leastItem(item, text) : wholeItem(item, text)];
  });
}

function wholeItem(item: OutputItem, text: string): JsonObject {
  const { id, type, name, callId } = item;
  if (type === "reasoning") return { id, type, summary: [{ type: "summary_text", text }] };
  if (type === "function_call") return { id, type, status: "completed", call_id: callId, name, arguments: text };
  const content = [{ type: "output_text", text, annotations: [] }];
  return { id, type, status: "completed", role: "assistant", content };
}

function leastItem({ type, name, callId }: OutputItem, text: string): JsonObject {
  if (type === "reasoning") return { type, summary: [{ type: "summary_text", text }] };
  if (type === "function_call") return { type, call_id: callId, name, arguments: text };
  return { type, role: "assistant", content: [{ type: "output_text", text }] };
}

/** The item before anything of it was said. */
function begun(item: OutputItem): JsonObject {
  const { id, type, name, callId } = item;
  if (type === "reasoning") return { id, type, summary: [] };
  if (type === "function_call") return { id, type, status: "in_progress", call_id: callId, name, arguments: "" };
  return { id, type, status: "in_progress", role: "assistant", content: [] };
}

/** `stopped`: true once the response was cancelled, which ends its events. */
export function* eventsOf(
  response: NewResponse,
  kept: { readonly running: KeptResponse; readonly finished: KeptResponse },
  used: (outputTokens: number) => Usage,
  stopped: () => boolean,
): Iterable<EventFrame> {
  const all = saysAll(response.model);
  const least = saysLeast(response.model);
  let made = 0;
  let sequence = 0;
  const event = (type: string, data: JsonObject): EventFrame => ({
    data: least ? { type, ...data } : { type, sequence_number: sequence++, ...data },
    usage: used(made),
  });
  const begunResponse = shape(kept.running);
  yield event("response.created", {
    response: least ? { id: begunResponse.id, status: begunResponse.status } : begunResponse,
  });
  if (all) yield event("response.in_progress", { response: begunResponse });
  for (const [output_index, item] of response.items.entries()) {
    const at = { item_id: item.id, output_index };
    const tokens = response.tokens.slice(made, made + item.size);
    const text = tokens.join("");
    const { before, delta, place, after } = wordsOf(item.type, text);
    if (all) yield event("response.output_item.added", { output_index, item: begun(item) });
    if (all) for (const [type, data] of before) yield event(type, { ...at, ...data });
    for (const token of tokens) {
      if (stopped()) return;
      made += 1;
      if (all || item.type === "message") yield event(delta, { ...(!least && { ...at, ...place }), delta: token });
    }
    if (all) for (const [type, data] of after) yield event(type, { ...at, ...data });
    if (all) yield event("response.output_item.done", { output_index, item: wholeItem(item, text) });
  }
  yield event("response.completed", { response: shape(kept.finished) });
}

type Named = readonly [type: string, data: JsonObject];

/** The events around an item's deltas. */
function wordsOf(type: OutputItem["type"], text: string) {
  if (type === "function_call") {
    const after: Named[] = [["response.function_call_arguments.done", { arguments: text }]];
    return { before: [] as Named[], delta: "response.function_call_arguments.delta", place: {}, after };
  }
  const summary = type === "reasoning";
  const place: JsonObject = summary ? { summary_index: 0 } : { content_index: 0 };
  const part = (said: string) =>
    summary ? { type: "summary_text", text: said } : { type: "output_text", text: said, annotations: [] };
  const [words, parts] = summary
    ? ["response.reasoning_summary_text", "response.reasoning_summary_part"]
    : ["response.output_text", "response.content_part"];
  const before: Named[] = [[`${parts}.added`, { ...place, part: part("") }]];
  const after: Named[] = [
    [`${words}.done`, { ...place, text }],
    [`${parts}.done`, { ...place, part: part(text) }],
  ];
  return { before, delta: `${words}.delta`, place, after };
}

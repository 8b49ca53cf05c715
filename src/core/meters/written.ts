/** Counts the UTF-8 bytes that a model wrote: text, reasoning, refusals, tool calls, transcripts, items of any type. */
import { asObject } from "../formats/json-fields.ts";
import { utf8Bytes } from "./tokens.ts";

/** Fields that are not written text: names of things, and media, which is not made of text tokens. */
const NOT_WRITTEN: ReadonlySet<string> = new Set([
  ...["role", "type", "id", "call_id", "item_id", "object", "status", "phase", "format", "voice", "data", "b64_json"],
  ...["annotations", "logprobs", "signature", "finish_reason"],
]);

/** Names for the same text; some engines send it under two of them at once. */
const REASONING: ReadonlySet<string> = new Set(["reasoning_content", "reasoning", "reasoning_details"]);

/** The bytes of a delta, a message or an output item, at any depth. */
export function writtenBytes(value: unknown): number {
  if (typeof value === "string") return utf8Bytes(value);
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + writtenBytes(item), 0);
  const fields = asObject(value);
  if (!fields) return 0;
  let bytes = 0;
  let reasoning = 0;
  for (const [name, item] of Object.entries(fields)) {
    if (NOT_WRITTEN.has(name)) continue;
    if (REASONING.has(name)) reasoning = Math.max(reasoning, writtenBytes(item));
    else bytes += writtenBytes(item);
  }
  return bytes + reasoning;
}

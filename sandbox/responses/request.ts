/** The body of a response, and how many tokens its input counts. */
import { z } from "zod";
import { type MessageWeight, promptTokens, tokenizerOf } from "../chat/tokens.ts";

/** The service stores text only: pictures and files belong to chat completions. */
const REFUSED_PARTS = new Set(["input_image", "input_file", "input_audio", "image_url"]);

const Item = z.looseObject({ type: z.string().nullish() });

/** A function's name stands in the tool itself, other than in chat. Other tools are ignored. */
const Tool = z.looseObject({ type: z.string(), name: z.string().optional(), parameters: z.unknown().optional() });

const Format = z.looseObject({ type: z.enum(["text", "json_object", "json_schema"]), schema: z.unknown().optional() });

export const ResponseRequest = z.looseObject({
  model: z.string().min(1),
  input: z.union([
    z.string(),
    z
      .array(Item)
      .min(1)
      .refine((items) => !items.some(holdsMedia), "must hold text only; use chat completions for pictures"),
  ]),
  instructions: z.string().nullish(),
  previous_response_id: z.string().min(1).nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  stream: z.boolean().nullish(),
  tools: z.array(Tool).nullish(),
  tool_choice: z.union([z.enum(["auto", "none", "required"]), z.looseObject({ type: z.string() })]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  text: z.looseObject({ format: Format.nullish() }).nullish(),
  reasoning: z.looseObject({ effort: z.string().nullish(), summary: z.string().nullish() }).nullish(),
  sandbox_output_tokens: z.int().min(1).max(200_000).optional(),
  sandbox_reply: z.string().optional(),
  sandbox_frame_delay_ms: z.number().min(0).max(60_000).optional(),
});
export type ResponseRequest = z.output<typeof ResponseRequest>;

/** The ids of stored items that the input names in place of their content. */
export const referencesOf = ({ input }: ResponseRequest): string[] =>
  typeof input === "string" ? [] : input.flatMap((item) => (isReference(item) ? [String(item.id)] : []));

const isReference = (item: { readonly [name: string]: unknown }): boolean =>
  item.type === "item_reference" || (typeof item.id === "string" && Object.keys(item).length === 1);

/** The new input as items. A text is one message. */
export const inputItemsOf = ({ input }: ResponseRequest): { readonly [name: string]: unknown }[] =>
  typeof input === "string"
    ? [{ type: "message", role: "user", content: [{ type: "input_text", text: input }] }]
    : input;

function holdsMedia(item: { readonly [name: string]: unknown }): boolean {
  const parts = Array.isArray(item.content) ? (item.content as unknown[]) : [];
  return [item, ...parts].some(
    (part) => typeof part === "object" && part !== null && "type" in part && REFUSED_PARTS.has(String(part.type)),
  );
}

/** Counts the new input only. Earlier turns add what they were counted as. */
export function newInputTokens({ model, input, instructions, tools }: ResponseRequest): number {
  const items: MessageWeight[] =
    typeof input === "string"
      ? [{ texts: [input], images: 0 }]
      : input.map((item) => ({ texts: textsOf(item), images: imagesIn(item) }));
  const extras = [...(instructions ? [instructions] : []), ...(tools?.length ? [JSON.stringify(tools)] : [])];
  return promptTokens(items, extras, tokenizerOf(model));
}

const TEXT_FIELDS = new Set(["text", "content", "output", "arguments", "name", "input"]);

/** Every text in an item, at any depth. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    if (typeof inner === "string") return TEXT_FIELDS.has(name) ? [inner] : [];
    return textsOf(inner);
  });
}

/**
 * Counts pictures in tools' results and beside an empty content: the engine reads them, and the schema does not refuse
 * them.
 */
function imagesIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const own = "image_url" in value && typeof value.image_url === "string" ? 1 : 0;
  return Object.values(value).reduce<number>((sum, inner) => sum + imagesIn(inner), own);
}

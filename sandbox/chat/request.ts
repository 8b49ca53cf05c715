/**
 * The body of a chat completion: the contract's fields and ranges, and the sandbox's own. Other fields are ignored.
 */
import { z } from "zod";

const HTTPS = /^https:\/\/[^\s]+$/;

/** Image URLs must be https or base64 data URLs. A short pattern keeps long ones fast. */
function isImageUrl(url: string): boolean {
  if (HTTPS.test(url)) return true;
  const comma = url.indexOf(",");
  const base64 = url.slice(comma + 1);
  return (
    comma > 0 &&
    base64.length > 0 &&
    base64.length % 4 === 0 &&
    /^data:image\/[a-z0-9.+-]+;base64$/i.test(url.slice(0, comma)) &&
    /^[A-Za-z0-9+/]+={0,2}$/.test(base64)
  );
}

const TextPart = z.looseObject({ type: z.literal("text"), text: z.string() });
const ImagePart = z.looseObject({
  type: z.literal("image_url"),
  image_url: z.looseObject({
    url: z.string().refine(isImageUrl, "must be an https URL or data:image/<subtype>;base64,<bytes>"),
  }),
});

const Message = z
  .looseObject({
    role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
    content: z.union([z.string(), z.array(z.discriminatedUnion("type", [TextPart, ImagePart]))]).nullish(),
    tool_calls: z.array(z.unknown()).optional(),
  })
  .refine(({ role, content }) => role === "assistant" || !Array.isArray(content) || content.length > 0, {
    path: ["content"],
    message: "must not be empty",
  });
export type Message = z.output<typeof Message>;

const Tool = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject({ name: z.string().min(1).max(64), parameters: z.unknown().optional() }),
});

const tokens = z.int().min(1).nullish();

export const ChatRequest = z
  .looseObject({
    model: z.string().min(1),
    messages: z.array(Message).min(1),
    max_tokens: tokens,
    max_completion_tokens: tokens,
    temperature: z.number().min(0).max(2).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    n: z.int().min(1).max(128).nullish(),
    stream: z.boolean().nullish(),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
    presence_penalty: z.number().min(-2).max(2).nullish(),
    frequency_penalty: z.number().min(-2).max(2).nullish(),
    seed: z.int().nullish(),
    response_format: z
      .discriminatedUnion("type", [
        z.looseObject({ type: z.literal("text") }),
        z.looseObject({ type: z.literal("json_object") }),
        z.looseObject({
          type: z.literal("json_schema"),
          json_schema: z.looseObject({ schema: z.unknown().optional() }),
        }),
      ])
      .nullish(),
    tools: z.array(Tool).nullish(),
    tool_choice: z
      .union([
        z.enum(["auto", "none", "required"]),
        z.looseObject({ type: z.literal("function"), function: z.looseObject({ name: z.string() }) }),
      ])
      .nullish(),
    /** The sandbox's own fields: length, text and speed of the answer, and the cached tokens to report. */
    sandbox_output_tokens: z.int().min(1).max(200_000).optional(),
    sandbox_reply: z.string().optional(),
    sandbox_frame_delay_ms: z.number().min(0).max(60_000).optional(),
    sandbox_cached_tokens: z.int().min(0).optional(),
  })
  .refine((body) => !body.stream_options || body.stream, {
    path: ["stream_options"],
    message: "is only allowed when `stream` is true",
  });
export type ChatRequest = z.output<typeof ChatRequest>;

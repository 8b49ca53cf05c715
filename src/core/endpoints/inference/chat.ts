/**
 * Chat completions, JSON and SSE (contract: POST /v1/chat/completions).
 *
 * Documented fields must be in range; unknown ones pass unchanged.
 */
import * as z from "zod/mini";
import type { Added } from "../../formats/added-events.ts";
import { ChatFinish } from "../../formats/chat-finish.ts";
import { asObject, parseObject } from "../../formats/json-fields.ts";
import { judge } from "../../issue-words.ts";
import type { AnswerReader, EventVerdict, MeasuredBody, Meter, Sent } from "../../meters/meter.ts";
import { countParts } from "../../meters/parts.ts";
import { believe, boundTokens, OwnCount } from "../../meters/tokens.ts";
import { writtenBytes } from "../../meters/written.ts";
import type { Usage } from "../../pricing/usage.ts";
import { characters, whole } from "../../shapes.ts";
import { CHAT_ANSWER, mayHoldUsage, withoutNullUsage, withUsageAnew } from "../answer-names.ts";
import { json } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { CHAT_DATA } from "../inspection/callers-data.ts";
import type { FieldRules } from "../inspection/inspect.ts";
import { OTHER_PROMPTS, outputCaps } from "../inspection/refused.ts";
import { isString, list } from "../list.ts";
import { isImageUrl, isPlainChat, isPlainMessage, isPlainPart, MAX_CHOICES, ROLES } from "./plain-chat.ts";

const TextPart = z.looseObject({ type: z.literal("text"), text: z.string() });
const ImagePart = z.looseObject({
  type: z.literal("image_url"),
  image_url: z.looseObject({
    url: z
      .string()
      .check(
        z.refine(isImageUrl, "must be an https:// URL or a data URL of the form data:image/<subtype>;base64,<bytes>"),
      ),
  }),
});
/** A part that the contract does not name passes if the model's row bounds it (core/meters/parts.ts). */
const OtherPart = z.looseObject({
  type: z
    .string('must be a string such as "text"')
    .check(z.refine((type) => type !== "text" && type !== "image_url", "does not fit the part's other fields")),
});

const Message = z
  .looseObject({
    role: z.enum(ROLES),
    content: z.nullish(z.union([z.string(), z.array(z.unknown())], "must be a string or an array of content parts")),
  })
  .check(
    z.superRefine((message, context) => {
      checkContent(message.role, message.content, (at, text) =>
        context.addIssue({ code: "custom", path: ["content", ...at], message: text }),
      );
    }),
  );

/** Reports the first invalid part, checked by the schema of its own type so that the error names the wrong field. */
function checkContent(
  role: string,
  content: string | unknown[] | null | undefined,
  complain: (at: PropertyKey[], text: string) => void,
): void {
  if (content === null || content === undefined) {
    if (role !== "assistant") complain([], `is required for role \`${role}\``);
    return;
  }
  if (typeof content === "string") return;
  if (content.length === 0 && role !== "assistant") complain([], "must have at least one content part");
  for (const [index, part] of content.entries()) {
    if (isPlainPart(part)) continue;
    const type = typeof part === "object" && part !== null ? (part as { type?: unknown }).type : undefined;
    const schema = type === "text" ? TextPart : type === "image_url" ? ImagePart : OtherPart;
    const judged = judge<unknown>(schema, part);
    if (judged.ok) continue;
    complain([index, ...judged.fault.path], judged.fault.must);
    return;
  }
}

const count = (least: number, most?: number) => (most ? whole(least, most) : z.int().check(z.minimum(least)));

export const ChatRequest = z.looseObject({
  model: characters(1, 256),
  messages: list(Message, { least: 1, plain: isPlainMessage, what: "messages" }),
  max_tokens: z.nullish(count(1)),
  max_completion_tokens: z.nullish(count(1)),
  temperature: z.nullish(z.number().check(z.minimum(0), z.maximum(2))),
  top_p: z.nullish(z.number().check(z.minimum(0), z.maximum(1))),
  n: z.nullish(count(1, MAX_CHOICES)),
  stream: z.nullish(z.boolean()),
  stream_options: z.nullish(z.looseObject({ include_usage: z.nullish(z.boolean()) })),
  stop: z.nullish(
    z.union([z.string(), list(z.string(), { plain: isString })], "must be a string or an array of strings"),
  ),
  presence_penalty: z.nullish(z.number().check(z.minimum(-2), z.maximum(2))),
  frequency_penalty: z.nullish(z.number().check(z.minimum(-2), z.maximum(2))),
  seed: z.nullish(z.int()),
  response_format: z.nullish(z.looseObject({ type: z.string() })),
  tools: z.nullish(
    list(
      z.looseObject({
        type: z.string(),
        function: z.optional(z.looseObject({ name: z.string().check(z.minLength(1)) })),
      }),
    ),
  ),
  tool_choice: z.nullish(z.union([z.string(), z.looseObject({})], "must be a string or an object")),
  user: z.nullish(z.string()),
});
type Chat = z.infer<typeof ChatRequest>;

function leastCap(chat: Chat): number | undefined {
  const given = [chat.max_tokens, chat.max_completion_tokens].filter((cap) => typeof cap === "number");
  return given.length > 0 ? Math.min(...given) : undefined;
}

const meter: Meter<Chat> = {
  bound: (chat, measured, row) => boundTokens({ outputCap: leastCap(chat), choices: chat.n ?? 1 }, measured, row),
  reader: (chat, sent) => (chat.stream ? eventReader(chat, sent) : jsonReader(chat, sent)),
};

/** The members of a chunk or completion that the meter reads. They may hold anything. */
interface Seen {
  readonly error?: unknown;
  readonly choices?: unknown;
  readonly usage?: unknown;
}

function usageOf(seen: Seen, choices: number, sent: Sent<MeasuredBody>): Usage | undefined {
  const usage = asObject(seen.usage);
  if (!usage) return undefined;
  const cap = (sent.outputCap ?? 0) * choices;
  const cached = asObject(usage.prompt_tokens_details)?.cached_tokens;
  return believe({ input: usage.prompt_tokens, output: usage.completion_tokens, cached }, sent.row, cap);
}

/** UTF-8 bytes written in all choices. */
function contentBytes(choices: unknown, field: "delta" | "message"): number {
  if (!Array.isArray(choices)) return 0;
  return choices.reduce<number>((sum, choice) => sum + writtenBytes(asObject(choice)?.[field]), 0);
}

const ownCount = (chat: Chat, sent: Sent<MeasuredBody>): OwnCount =>
  new OwnCount(meter.bound(chat, sent.measured, sent.row), sent);

function jsonReader(chat: Chat, sent: Sent<MeasuredBody>): AnswerReader {
  const own = ownCount(chat, sent);
  const choices = chat.n ?? 1;
  let exact: Usage | undefined;
  return {
    kind: "json",
    read(answer, skimmed) {
      own.add(skimmed?.textBytes("choices") ?? 0);
      const completion: Seen | undefined = asObject(answer);
      if (!completion || completion.error || !Array.isArray(completion.choices)) return false;
      own.add(contentBytes(completion.choices, "message"));
      exact = usageOf(completion, choices, sent);
      return true;
    },
    reading: () => own.reading(exact),
  };
}

/** Collects the indexes of choices whose `finish_reason` has passed. A choice without an index is the first. */
function noteFinished(choices: unknown, finished: Set<unknown>): void {
  if (!Array.isArray(choices)) return;
  for (const choice of choices.slice(0, MAX_CHOICES)) {
    const { finish_reason: reason, index = 0 } = asObject(choice) ?? {};
    if (typeof reason === "string" && finished.size < MAX_CHOICES) finished.add(index);
  }
}

/** Its closures must not name the body: it may be dropped while the stream goes on. */
function eventReader(chat: Chat, sent: Sent<MeasuredBody>): AnswerReader {
  const own = ownCount(chat, sent);
  const drops = chat.stream_options?.include_usage !== true;
  const choices = chat.n ?? 1;
  const finished = new Set<unknown>();
  const finish = new ChatFinish(MAX_CHOICES, !drops);
  let added: Added | undefined;
  let ended = false;
  /** The final usage, or the end, has been read. */
  let usageRead = false;
  const awaitsUsage = () => finished.size >= choices && !usageRead;
  let exact: Usage | undefined;
  let anew: string | null | undefined;
  const event = (data: string): EventVerdict => {
    anew = undefined;
    added = undefined;
    if (data === "[DONE]") {
      ended = true;
      usageRead = true;
      added = finish.end();
      return "end";
    }
    const chunk = parseObject(data);
    if (!chunk || chunk.error) return "broken";
    // The call may have been settled at the end, so later events must not change its charge.
    if (!ended) own.add(contentBytes(chunk.choices, "delta"));
    noteFinished(chunk.choices, finished);
    finish.chunk(chunk);
    const told = chunk.usage !== undefined && chunk.usage !== null;
    if (told || mayHoldUsage(data)) anew = withUsageAnew(data, null) ?? (told ? null : undefined);
    if (chunk.usage === null && drops) added = { data: withoutNullUsage(data) };
    if (!told) return "pass";
    if (asObject(chunk.usage) && !ended) {
      usageRead = finished.size >= choices;
      exact = usageOf(chunk, choices, sent);
      own.usageTold();
    }
    // Some engines send usage in the same event as the last text, which must pass.
    const usageOnly = Array.isArray(chunk.choices) && chunk.choices.length === 0;
    if (!usageOnly) return "pass";
    if (drops) return "drop";
    return finish.open ? "hold" : "pass";
  };
  return {
    kind: "events",
    readFirst: drops,
    event,
    rewrittenUsage: () => anew,
    added: () => added,
    awaitsUsage,
    reading: () => own.reading(exact),
  };
}

const CAP = "max_tokens";
const FIELDS: FieldRules = {
  parts: { "messages[].content[]": [TextPart, ImagePart] },
  known: ["reasoning.max_tokens"],
  data: CHAT_DATA,
  refused: new Map([...outputCaps(CAP), ...OTHER_PROMPTS]),
};

export const chatCompletions = endpoint({
  id: "chat.completions",
  method: "POST",
  path: "/v1/chat/completions",
  summary: "Chat completions for text and vision models, JSON or SSE",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: json(ChatRequest, FIELDS, isPlainChat),
  model: "model",
  kinds: ["chat"],
  instances: true,
  meter,
  answer: CHAT_ANSWER,
  retry: "safe",
  errors: "openai",
  accept: (chat) => (chat.stream ? "text/event-stream" : "application/json"),
  streams: (chat) => chat.stream === true,
  cap: { field: CAP, replaces: ["max_completion_tokens"] },
  forced: (chat) => (chat.stream ? { stream_options: { ...chat.stream_options, include_usage: true } } : {}),
  parts: (chat) => countParts(chat),
  sentOnly: ["messages", "tools"],
});

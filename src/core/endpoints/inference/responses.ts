/**
 * Stateful responses, JSON and SSE (contract: POST /v1/responses, GET /v1/responses/{id}, POST .../cancel).
 *
 * The service keeps the conversation. The account owns the id that the service hands out, and every later turn and read
 * goes to the target that created it.
 */
import * as z from "zod/mini";
import type { Added } from "../../formats/added-events.ts";
import { asObject, parseObject } from "../../formats/json-fields.ts";
import { ResponseEvents } from "../../formats/response-events.ts";
import { completionOf } from "../../formats/response-items.ts";
import type { EventReader, EventVerdict, JsonReader, MeasuredBody, Meter, Sent } from "../../meters/meter.ts";
import { countParts } from "../../meters/parts.ts";
import { believe, boundTokens, OwnCount, utf8Bytes } from "../../meters/tokens.ts";
import { writtenBytes } from "../../meters/written.ts";
import type { Usage } from "../../pricing/usage.ts";
import type { ReadCode } from "../../routing/failure.ts";
import { characters } from "../../shapes.ts";
import { DELETED_ANSWER, ITEMS_ANSWER, mayHoldUsage, RESPONSE_ANSWER, withUsageAnew } from "../answer-names.ts";
import { json, nothing } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { RESPONSES_DATA } from "../inspection/callers-data.ts";
import type { FieldRules } from "../inspection/inspect.ts";
import { OTHER_INPUT, OTHER_PROMPTS, outputCaps, STREAMS } from "../inspection/refused.ts";
import { namesStoredItem } from "../inspection/stored-item.ts";
import { list } from "../list.ts";
import { responseEvents } from "../read-back.ts";

const Item = z
  .looseObject({ type: z.nullish(z.string()) })
  .check(
    z.refine(
      (item) => !namesStoredItem(item),
      "names a stored item; send the content itself (AI SDKs do with `store: false`)",
    ),
  );

const isPlainItem = (value: unknown): boolean => {
  const item = asObject(value);
  if (!item || namesStoredItem(item)) return false;
  return typeof item.type === "string" || item.type === undefined || item.type === null;
};

const ResponsesRequest = z.looseObject({
  model: characters(1, 256),
  input: z.union(
    [z.string(), list(Item, { least: 1, plain: isPlainItem, what: "content items" })],
    "must be a text or an array of content items",
  ),
  instructions: z.nullish(z.string()),
  previous_response_id: z.nullish(characters(1, 256)),
  max_output_tokens: z.nullish(z.int().check(z.minimum(1))),
  temperature: z.nullish(z.number().check(z.minimum(0), z.maximum(2))),
  top_p: z.nullish(z.number().check(z.minimum(0), z.maximum(1))),
  stream: z.nullish(z.boolean()),
  store: z.nullish(z.boolean()),
  user: z.nullish(z.string()),
});
type Responses = z.infer<typeof ResponsesRequest>;

/** Bytes around the text of a message: `input` as a plain string is one message. */
const MESSAGE_BYTES = utf8Bytes('[{"role":"user","content":}]');

function ownCount(body: Responses, sent: Sent<MeasuredBody>): OwnCount {
  const messageTokens = typeof body.input === "string" ? Math.ceil(MESSAGE_BYTES / 4) : 0;
  return new OwnCount(meter.bound(body, sent.measured, sent.row), sent, messageTokens);
}

function usageOf(response: Record<string, unknown>, sent: Sent): Usage | undefined {
  const usage = asObject(response.usage);
  if (!usage) return undefined;
  const cached = asObject(usage.input_tokens_details)?.cached_tokens;
  return believe({ input: usage.input_tokens, output: usage.output_tokens, cached }, sent.row, sent.outputCap ?? 0);
}

const idOf = (response: Record<string, unknown> | undefined): string | null =>
  typeof response?.id === "string" && response.id !== "" ? response.id : null;

const factsOf = ({ model }: Responses, { startedAtMs = 0 }: Sent) => ({
  model,
  createdAt: Math.floor(startedAtMs / 1000),
});

function jsonReader(body: Responses, sent: Sent<MeasuredBody>): JsonReader {
  const own = ownCount(body, sent);
  const complete = completionOf(factsOf(body, sent));
  let exact: Usage | undefined;
  let id: string | null = null;
  return {
    kind: "json",
    read(answer, skimmed) {
      own.add(skimmed?.textBytes("output") ?? 0);
      const response = asObject(answer);
      id = idOf(response);
      if (!response || response.error || id === null) return false;
      own.add(writtenBytes(response.output));
      exact = usageOf(response, sent);
      return true;
    },
    created: () => id,
    completed: complete,
    reading: () => own.reading(exact),
  };
}

/** Events that end a stream. */
const LAST_EVENTS: ReadonlySet<unknown> = new Set(["response.completed", "response.incomplete"]);
const FAILED_EVENTS: ReadonlySet<unknown> = new Set(["response.failed", "error"]);

/** Counts text in stream events once, though it comes twice: first in deltas, then in the complete item. */
class StreamedItems {
  /** Bytes of deltas whose complete item has not come yet. */
  #open = 0;

  written(said: Record<string, unknown>): number {
    // Audio deltas are not text tokens; their transcript has deltas of its own.
    if (typeof said.delta === "string" && !/audio\.delta$/.test(String(said.type))) {
      const bytes = utf8Bytes(said.delta);
      this.#open += bytes;
      return bytes;
    }
    if (said.type !== "response.output_item.done") return 0;
    const bytes = writtenBytes(said.item);
    const unseen = Math.max(0, bytes - this.#open);
    this.#open = Math.max(0, this.#open - bytes);
    return unseen;
  }
}

function eventReader(body: Responses, sent: Sent<MeasuredBody>): EventReader {
  const own = ownCount(body, sent);
  const items = new StreamedItems();
  const events = new ResponseEvents(factsOf(body, sent));
  let added: Added | undefined;
  let exact: Usage | undefined;
  let id: string | null = null;
  let anew: string | null | undefined;
  let openItems = 0;
  /** Set when an event closed the last open item. Another item may still follow until the response is completed. */
  let finished = false;
  const event = (data: string): EventVerdict => {
    anew = undefined;
    added = undefined;
    if (data === "[DONE]") return "end";
    const said = parseObject(data);
    if (!said || said.error || FAILED_EVENTS.has(said.type)) return "broken";
    const response = asObject(said.response);
    id = idOf(response) ?? id;
    const told = response && response.usage !== undefined && response.usage !== null;
    if (told || mayHoldUsage(data)) anew = withUsageAnew(data, "response") ?? (told ? null : undefined);
    // A rewritten event must not restore what was removed from its usage.
    added = events.next(typeof anew === "string" ? (parseObject(anew) ?? said) : said);
    own.add(items.written(said));
    if (said.type === "response.output_item.added") openItems++;
    if (said.type === "response.output_item.done") openItems--;
    finished = said.type === "response.output_item.done" && openItems <= 0;
    if (!response || !LAST_EVENTS.has(said.type)) return "pass";
    own.atLeast(writtenBytes(response.output));
    exact = usageOf(response, sent);
    return "end";
  };
  const reading = () => own.reading(exact);
  return {
    kind: "events",
    readFirst: true,
    event,
    rewrittenUsage: () => anew,
    added: () => added,
    created: () => id,
    awaitsUsage: () => finished,
    reading,
  };
}

const meter: Meter<Responses> = {
  bound: (body, measured, row) =>
    boundTokens({ outputCap: body.max_output_tokens ?? undefined, choices: 1 }, measured, row),
  reader: (body, sent) => (body.stream ? eventReader(body, sent) : jsonReader(body, sent)),
};

const CAP = "max_output_tokens";
const FIELDS: FieldRules = {
  known: ["reasoning.max_tokens"],
  data: RESPONSES_DATA,
  refused: new Map([...outputCaps(CAP), ...OTHER_INPUT, ...OTHER_PROMPTS]),
};

export const getResponse = endpoint({
  id: "responses.get",
  method: "GET",
  path: "/v1/responses/{id}",
  summary: "A response of the last 24 hours",
  scope: "inference",
  flow: { kind: "free" },
  body: nothing,
  kinds: [],
  answer: RESPONSE_ANSWER,
  completes: completionOf(null),
  retry: "safe",
  errors: "openai",
  refusedQuery: STREAMS,
  owned: [{ kind: "response", at: "path.id" }],
});

export const createResponse = endpoint({
  id: "responses.create",
  method: "POST",
  path: "/v1/responses",
  summary: "A turn of a conversation that the service keeps, JSON or SSE",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: json(ResponsesRequest, FIELDS),
  model: "model",
  kinds: ["chat"],
  meter,
  answer: RESPONSE_ANSWER,
  retry: "creates",
  errors: "openai",
  accept: (body) => (body.stream ? "text/event-stream" : "application/json"),
  streams: (body) => body.stream === true,
  cap: { field: CAP, replaces: [] },
  parts: (body) => countParts(body),
  creates: "response",
  readBack: { kind: "asked", by: getResponse, asEvents: responseEvents },
  owned: [{ kind: "response", at: "previous_response_id" }],
});

export const cancelResponse = endpoint({
  id: "responses.cancel",
  method: "POST",
  path: "/v1/responses/{id}/cancel",
  summary: "Ends a response that is being made",
  scope: "inference",
  flow: { kind: "free" },
  body: nothing,
  kinds: [],
  answer: RESPONSE_ANSWER,
  completes: completionOf(null),
  retry: "safe",
  errors: "openai",
  owned: [{ kind: "response", at: "path.id" }],
});

/** An upstream that does not serve this call cannot have the response, so the caller gets a 404. */
const notServed: ReadCode = ({ status }) =>
  [404, 405, 501].includes(status) ? { refusal: { kind: "id_not_found", what: "response" }, passedOver: false } : null;

export const deleteResponse = endpoint({
  id: "responses.delete",
  method: "DELETE",
  path: "/v1/responses/{id}",
  summary: "Deletes a response",
  scope: "inference",
  flow: { kind: "free" },
  body: nothing,
  kinds: [],
  answer: DELETED_ANSWER,
  deletes: true,
  retry: "safe",
  errors: "openai",
  readCode: notServed,
  owned: [{ kind: "response", at: "path.id" }],
});

export const inputItems = endpoint({
  id: "responses.input_items",
  method: "GET",
  path: "/v1/responses/{id}/input_items",
  summary: "The input of a response, in pages",
  scope: "inference",
  flow: { kind: "free" },
  body: nothing,
  kinds: [],
  answer: ITEMS_ANSWER,
  retry: "safe",
  errors: "openai",
  readCode: notServed,
  passedQuery: new Map([
    ["limit", { pattern: /^([1-9]\d?|100)$/, must: "a number from 1 to 100" }],
    ["order", { pattern: /^(asc|desc)$/, must: "asc or desc" }],
    ["after", { pattern: /^[\w.-]{1,256}$/, must: "the id of an item" }],
  ]),
  owned: [{ kind: "response", at: "path.id" }],
});

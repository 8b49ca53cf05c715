/**
 * `POST /v1/responses`, `GET` and `DELETE /v1/responses/{id}`, `POST .../cancel`, `GET .../input_items`.
 *
 * The service stores the turns: a continued response counts all earlier turns as cached input. If the client of a
 * stream leaves, the response ends with what was sent.
 */
import { readJson } from "../body.ts";
import { saysLeast } from "../catalog.ts";
import type { Answer, Endpoint, Prepared, Received, Site } from "../endpoint.ts";
import { done, invalid, type Outcome, refuse } from "../refusal.ts";
import type { KeptResponse, NewResponse } from "../service/conversations.ts";
import type { Usage } from "../usage.ts";
import { outputOf } from "./output.ts";
import { inputItemsOf, newInputTokens, ResponseRequest, referencesOf } from "./request.ts";
import { eventsOf, shape } from "./shape.ts";

/** Cancelled streams of this isolate. */
const stopped = new Set<string>();

export const createResponse: Endpoint = {
  method: "POST",
  path: "/v1/responses",
  errors: "openai",
  prepare: (received) => {
    const read = readJson(received, ResponseRequest);
    if (!read.ok) return read;
    const body = read.value;
    if (/:\d+$/.test(body.model)) {
      return invalid("Instances do not support this endpoint: use chat completions.", "model");
    }
    const [reference] = referencesOf(body);
    const stored = body.previous_response_id ?? (reference && responseOf(reference));
    return done({
      model: body.model,
      kinds: ["chat"],
      executes: true,
      ...(stored ? { stored: { kind: "response", id: stored } } : {}),
      answer: (site) => create(body, newInputTokens(body), site),
    });
  },
};

/** A call about a kept response, which uses nothing. */
const about =
  (answer: (kept: KeptResponse, site: Site, received: Received) => Answer | Promise<Answer>) =>
  (received: Received): Outcome<Prepared> =>
    done({
      model: null,
      kinds: [],
      executes: false,
      stored: { kind: "response", id: received.params.id ?? "" },
      answer: (site) => answer(keptOf(site), site, received),
    });

export const getResponse: Endpoint = {
  method: "GET",
  path: "/v1/responses/:id",
  errors: "openai",
  prepare: about((kept) => ({ kind: "json", body: shape(kept), usage: null })),
};

export const cancelResponse: Endpoint = {
  method: "POST",
  path: "/v1/responses/:id/cancel",
  errors: "openai",
  prepare: about(async (kept, site) => {
    const cancelled = await site.service.cancelResponse(kept.id);
    if (cancelled) stopped.add(kept.id);
    return { kind: "json", body: shape({ ...kept, cancelled: kept.cancelled || cancelled }), usage: null };
  }),
};

export const deleteResponse: Endpoint = {
  method: "DELETE",
  path: "/v1/responses/:id",
  errors: "openai",
  prepare: about(async ({ id }, site) => {
    await site.service.deleteResponse(id);
    return { kind: "json", body: { id, object: "response", deleted: true }, usage: null };
  }),
};

/** The turn's own input, newest first unless asked otherwise, in pages. */
export const inputItems: Endpoint = {
  method: "GET",
  path: "/v1/responses/:id/input_items",
  errors: "openai",
  prepare: about(({ id, input }, _site, { url: { searchParams: asked } }) => {
    const numbered = input.map((item, at) => ({ id: `msg_${id.slice(5)}_in${at}`, ...item }));
    const data = asked.get("order") === "asc" ? numbered : numbered.toReversed();
    const from = asked.has("after") ? data.findIndex((item) => item.id === asked.get("after")) + 1 : 0;
    const page = data.slice(from, from + Number(asked.get("limit") ?? 20));
    const has_more = from + page.length < data.length;
    const ends = { first_id: page[0]?.id ?? null, last_id: page.at(-1)?.id ?? null };
    return { kind: "json", body: { object: "list", data: page, ...ends, has_more }, usage: null };
  }),
};

const keptOf = (site: Site): KeptResponse => JSON.parse(site.stored ?? "null") as KeptResponse;

/** The response that an item belongs to, by its id. */
const responseOf = (item: string): string => item.replace(/^[a-z]+_/, "resp_").replace(/_\d+$/, "");

/** Longer input is not kept for `input_items`. */
const MOST_INPUT = 256 * 1024;

async function create(body: ResponseRequest, newTokens: number, site: Site): Promise<Answer> {
  const previous = body.previous_response_id ? keptOf(site) : null;
  if (previous && previous.model !== body.model) {
    const { refusal } = invalid(`This conversation is with \`${previous.model}\`: keep the model.`, "model");
    return { kind: "refusal", refusal };
  }
  let referred = 0;
  for (const id of referencesOf(body)) {
    const size = await sizeOf(id, site);
    if (size === null) return { kind: "refusal", ...refuse(404, "not_found", `There is no item \`${id}\`.`, "input") };
    referred += size;
  }
  const before = previous ? previous.inputTokens + previous.outputTokens : 0;
  const input = inputItemsOf(body);
  const suffix = site.serviceRequestId.slice(4);
  const response: NewResponse = {
    id: `resp_${suffix}`,
    account: site.account,
    model: body.model,
    region: site.region,
    callId: site.callId,
    createdMs: site.nowMs,
    previousId: previous?.id ?? null,
    conversation: previous?.conversation ?? null,
    inputTokens: before + referred + newTokens,
    cachedTokens: before,
    ...outputOf(body, previous, site.region, suffix),
    input: JSON.stringify(input).length > MOST_INPUT ? [] : input,
  };
  await site.service.saveResponse(response);
  const finished = finish(response);
  if (!body.stream) {
    return { kind: "json", body: shape(finished), usage: used(response, response.tokens.length) };
  }
  const kept = { running: { ...finished, running: true }, finished };
  const events = eventsOf(
    response,
    kept,
    (outputTokens) => used(response, outputTokens),
    () => stopped.delete(response.id),
  );
  return { kind: "events", events, usage: used(response, 0), delayMs: body.sandbox_frame_delay_ms };
}

/** The tokens of a stored item; null if there is none in this region. */
async function sizeOf(id: string, site: Site): Promise<number | null> {
  const found = await site.service.keptResponse(responseOf(id), site.account);
  const kept = found === null ? null : (JSON.parse(found) as KeptResponse);
  if (!kept || kept.region !== site.region || saysLeast(kept.model)) return null;
  return kept.items.find((item) => item.id === id)?.size ?? null;
}

const used = (response: NewResponse, outputTokens: number): Usage => ({
  input_tokens: response.inputTokens,
  cached_input_tokens: response.cachedTokens,
  output_tokens: outputTokens,
});

const finish = (response: NewResponse): KeptResponse => ({
  ...response,
  conversation: response.conversation ?? response.id,
  running: false,
  cancelled: false,
  outputTokens: response.tokens.length,
});

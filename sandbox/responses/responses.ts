/**
 * `POST /v1/responses`, `GET /v1/responses/{id}`, `POST /v1/responses/{id}/cancel`.
 *
 * The service stores the turns: a continued response counts all earlier turns as cached input. If the client of a
 * stream leaves, the response ends with what was sent.
 */
import { readJson } from "../body.ts";
import { MODEL_MAX_OUTPUT_TOKENS } from "../chat/completion.ts";
import { tokenizerOf, tokensOf } from "../chat/tokens.ts";
import { markerOf, prose } from "../chat/words.ts";
import type { Answer, Endpoint, EventFrame, JsonObject, Site } from "../endpoint.ts";
import { done, invalid } from "../refusal.ts";
import { hash32 } from "../seed.ts";
import type { KeptResponse, NewResponse } from "../service/conversations.ts";
import type { Usage } from "../usage.ts";
import { newInputTokens, ResponseRequest } from "./request.ts";

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
    const previous = body.previous_response_id;
    return done({
      model: body.model,
      kinds: ["chat"],
      executes: true,
      ...(previous ? { stored: { kind: "response", id: previous } } : {}),
      answer: (site) => create(body, newInputTokens(body), site),
    });
  },
};

export const getResponse: Endpoint = {
  method: "GET",
  path: "/v1/responses/:id",
  errors: "openai",
  prepare: ({ params }) =>
    done({
      model: null,
      kinds: [],
      executes: false,
      stored: { kind: "response", id: params.id ?? "" },
      answer: (site) => ({ kind: "json", body: shape(keptOf(site)), usage: null }),
    }),
};

export const cancelResponse: Endpoint = {
  method: "POST",
  path: "/v1/responses/:id/cancel",
  errors: "openai",
  prepare: ({ params }) =>
    done({
      model: null,
      kinds: [],
      executes: false,
      stored: { kind: "response", id: params.id ?? "" },
      answer: async (site) => {
        const kept = keptOf(site);
        const cancelled = await site.service.cancelResponse(kept.id);
        if (cancelled) stopped.add(kept.id);
        return { kind: "json", body: shape({ ...kept, cancelled: kept.cancelled || cancelled }), usage: null };
      },
    }),
};

const keptOf = (site: Site): KeptResponse => JSON.parse(site.stored ?? "null") as KeptResponse;

async function create(body: ResponseRequest, newTokens: number, site: Site): Promise<Answer> {
  const previous = body.previous_response_id ? keptOf(site) : null;
  if (previous && previous.model !== body.model) {
    const { refusal } = invalid(`This conversation is with \`${previous.model}\`: keep the model.`, "model");
    return { kind: "refusal", refusal };
  }
  const before = previous ? previous.inputTokens + previous.outputTokens : 0;
  const response: NewResponse = {
    id: `resp_${site.serviceRequestId.slice(4)}`,
    account: site.account,
    model: body.model,
    region: site.region,
    callId: site.callId,
    createdMs: site.nowMs,
    previousId: previous?.id ?? null,
    conversation: previous?.conversation ?? null,
    inputTokens: before + newTokens,
    cachedTokens: before,
    tokens: tokensFor(body, previous, site.region),
  };
  await site.service.saveResponse(response);
  if (body.stream) {
    return { kind: "events", events: events(response), usage: used(response, 0), delayMs: body.sandbox_frame_delay_ms };
  }
  return { kind: "json", body: shape(finished(response)), usage: used(response, response.tokens.length) };
}

function tokensFor(body: ResponseRequest, previous: KeptResponse | null, region: string): readonly string[] {
  const seed = hash32(JSON.stringify([body.input, body.instructions ?? "", previous?.tokens ?? []]));
  const wanted = body.sandbox_output_tokens ?? 24 + (seed % 24);
  const tokenizer = tokenizerOf(body.model);
  const text = body.sandbox_reply ?? prose(markerOf(body.model, region), seed, wanted, tokenizer);
  const model = Math.max(MODEL_MAX_OUTPUT_TOKENS, body.sandbox_output_tokens ?? 0);
  return tokensOf(text, tokenizer).slice(0, Math.min(body.max_output_tokens ?? model, model));
}

const used = (response: NewResponse, outputTokens: number): Usage => ({
  input_tokens: response.inputTokens,
  cached_input_tokens: response.cachedTokens,
  output_tokens: outputTokens,
});

const finished = (response: NewResponse): KeptResponse => ({
  ...response,
  conversation: response.conversation ?? response.id,
  running: false,
  cancelled: false,
  outputTokens: response.tokens.length,
});

/** The contract's object. While it is being made it has neither output nor usage. */
function shape(kept: KeptResponse): JsonObject {
  const { id, running, cancelled, inputTokens, outputTokens, cachedTokens } = kept;
  const text = kept.tokens.slice(0, outputTokens).join("");
  const content = [{ type: "output_text", text, annotations: [] }];
  const message = { id: `msg_${id.slice(5)}`, type: "message", status: "completed", role: "assistant", content };
  return {
    id,
    object: "response",
    created_at: Math.floor(kept.createdMs / 1000),
    model: kept.model,
    status: cancelled ? "cancelled" : running ? "in_progress" : "completed",
    previous_response_id: kept.previousId,
    output: running ? [] : [message],
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

function* events(response: NewResponse): Iterable<EventFrame> {
  let sequence = 0;
  const event = (type: string, made: number, data: JsonObject): EventFrame => ({
    data: { type, sequence_number: sequence++, ...data },
    usage: used(response, made),
  });
  yield event("response.created", 0, { response: shape({ ...finished(response), running: true }) });
  const at = { item_id: `msg_${response.id.slice(5)}`, output_index: 0, content_index: 0 };
  for (const [index, delta] of response.tokens.entries()) {
    if (stopped.delete(response.id)) return;
    yield event("response.output_text.delta", index + 1, { ...at, delta });
  }
  yield event("response.completed", response.tokens.length, { response: shape(finished(response)) });
}

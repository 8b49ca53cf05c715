/** `POST /v1/chat/completions`: one JSON object, or chunks as the tokens are made. */
import { readJson } from "../body.ts";
import { capsCompletions, saysLeast } from "../catalog.ts";
import type { Answer, Endpoint, EventFrame, JsonObject, Site } from "../endpoint.ts";
import { done, invalid } from "../refusal.ts";
import { type Choice, type Completion, complete, loggedUsage, outputTokens, reportedUsage } from "./completion.ts";
import { asRead } from "./folded-names.ts";
import { ChatRequest } from "./request.ts";

const NAMES = Object.keys(ChatRequest.shape);

export const chatCompletions: Endpoint = {
  method: "POST",
  path: "/v1/chat/completions",
  errors: "openai",
  prepare: (received) => {
    const body = readJson(received, ChatRequest, (given) => asRead(given, NAMES));
    if (!body.ok) return body;
    if (capsCompletions(body.value.model) && typeof body.value.max_tokens === "number") {
      return invalid(
        "`max_tokens` is not supported with this model. Use `max_completion_tokens` instead.",
        "max_tokens",
      );
    }
    return done({
      model: body.value.model,
      kinds: ["chat"],
      executes: true,
      answer: (site) => answer(body.value, complete(body.value, site.region), site),
    });
  },
};

function answer(body: ChatRequest, completion: Completion, site: Site): Answer {
  const head = {
    id: `chatcmpl-${site.serviceRequestId.slice(4, 28)}`,
    created: Math.floor(site.nowMs / 1000),
    model: body.model,
  };
  if (body.stream) {
    return {
      kind: "events",
      events: frames({ ...head, object: "chat.completion.chunk" }, body, completion),
      usage: loggedUsage(completion, 0),
      delayMs: body.sandbox_frame_delay_ms,
    };
  }
  return {
    kind: "json",
    body: {
      ...head,
      object: "chat.completion",
      choices: completion.choices.map((choice, index) => ({
        index,
        message: messageOf(choice),
        logprobs: null,
        finish_reason: choice.finish,
      })),
      usage: reportedUsage(completion),
    },
    usage: loggedUsage(completion, outputTokens(completion)),
  };
}

function messageOf({ tokens, call }: Choice): JsonObject {
  const text = tokens.join("");
  if (!call) return { role: "assistant", content: text };
  const made = { id: call.id, type: "function", function: { name: call.name, arguments: text } };
  return { role: "assistant", content: null, tool_calls: [made] };
}

/**
 * A role frame for each choice, then one frame a token with the choices taking turns, a finish for each choice (which
 * the contract does not name, so `least-` models leave it out), and usage if requested.
 */
function* frames(head: JsonObject, body: ChatRequest, completion: Completion): Iterable<EventFrame> {
  const wanted = body.stream_options?.include_usage === true;
  let made = 0;
  const chunk = (index: number, delta: JsonObject, finish: string | null): EventFrame => ({
    data: {
      ...head,
      choices: [{ index, delta, logprobs: null, finish_reason: finish }],
      ...(wanted && { usage: null }),
    },
    usage: loggedUsage(completion, made),
  });
  for (const [index, choice] of completion.choices.entries()) yield chunk(index, opening(choice), null);
  const longest = Math.max(...completion.choices.map(({ tokens }) => tokens.length));
  for (let turn = 0; turn < longest; turn++) {
    for (const [index, choice] of completion.choices.entries()) {
      const token = choice.tokens[turn];
      if (token === undefined) continue;
      made += 1;
      yield chunk(index, piece(choice, token), null);
    }
  }
  if (!saysLeast(body.model)) {
    for (const [index, choice] of completion.choices.entries()) yield chunk(index, {}, choice.finish);
  }
  if (!wanted) return;
  yield { data: { ...head, choices: [], usage: reportedUsage(completion) }, usage: loggedUsage(completion, made) };
}

function opening({ call }: Choice): JsonObject {
  if (!call) return { role: "assistant", content: "" };
  const begun = { index: 0, id: call.id, type: "function", function: { name: call.name, arguments: "" } };
  return { role: "assistant", content: null, tool_calls: [begun] };
}

const piece = ({ call }: Choice, token: string): JsonObject =>
  call ? { tool_calls: [{ index: 0, function: { arguments: token } }] } : { content: token };

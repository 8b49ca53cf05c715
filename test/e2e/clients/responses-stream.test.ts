/**
 * The SDK's helpers read a streamed response whatever its upstream says of it: all of OpenAI's events, the contract's
 * three, or those with places. What is whole passes as it is, byte for byte; figures and charges do not change.
 */
import type OpenAI from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { openaiOf } from "../../support/openai.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
const MANNERS = ["full-7b", "least-7b", "llama-7b"] as const;
const TOOLS: OpenAI.Responses.FunctionTool[] = ["weather", "time"].map((name) => ({
  type: "function",
  name,
  strict: null,
  parameters: { type: "object", properties: { city: { type: "string" } } },
}));
let tenant: Tenant;
let models: Record<(typeof MANNERS)[number], string>;

beforeAll(async () => {
  tenant = await operator.tenant({ balance_usd: 5 });
  const aliases = MANNERS.map(async (model) => {
    await operator.model(model, { upstream: "sandbox", max_output_tokens: 4_096 });
    return [model, await operator.alias(tenant, [{ upstream: "sandbox", model }])] as const;
  });
  models = Object.fromEntries(await Promise.all(aliases)) as typeof models;
});

type Event = OpenAI.Responses.ResponseStreamEvent;

async function eventsOf(body: Omit<OpenAI.Responses.ResponseCreateParamsStreaming, "stream">): Promise<Event[]> {
  const events: Event[] = [];
  for await (const event of await openaiOf(tenant).responses.create({ ...body, stream: true })) events.push(event);
  return events;
}

/** The order in which a client sees it, words put together. */
const orderOf = (events: readonly Event[]) =>
  events.map(({ type }) => type).filter((type, at, all) => type !== all[at - 1]);

describe.each(MANNERS)("%s", (manner) => {
  test("text: the helper's final response, every event in order, and an exact charge", async () => {
    const model = models[manner];
    const before = (await tenant.charges()).length;
    const stream = openaiOf(tenant).responses.stream({ model, input: "Hi", max_output_tokens: 24 });
    let said = "";
    const events: Event[] = [];
    for await (const event of stream) {
      events.push(event as Event);
      if (event.type === "response.output_text.delta") said += event.delta;
    }
    const final = await stream.finalResponse();
    expect(final.output_text).toBe(said);
    expect(said.length).toBeGreaterThan(40);
    expect(final).toMatchObject({
      object: "response",
      status: "completed",
      usage: { input_tokens: 10, output_tokens: 24 },
    });
    expect(final.output).toMatchObject([
      { id: expect.stringMatching(/^msg_/), status: "completed", role: "assistant" },
    ]);
    expect(orderOf(events)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
    const charge = await eventually("the charge", async () => (await tenant.charges())[before]);
    expect(-charge.amount_usd * 1e6).toBeCloseTo(34, 3);
  });

  test("calls and reasoning: each item is announced, said and closed", async () => {
    const asked = { model: models[manner], input: "Hi", tools: TOOLS, parallel_tool_calls: true, reasoning: {} };
    const events = await eventsOf(asked);
    const summary = "response.reasoning_summary";
    const call = [
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
    ];
    expect(orderOf(events)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      `${summary}_part.added`,
      `${summary}_text.delta`,
      `${summary}_text.done`,
      `${summary}_part.done`,
      "response.output_item.done",
      ...call,
      ...call,
      "response.completed",
    ]);
    const stream = openaiOf(tenant).responses.stream(asked);
    const final = await stream.finalResponse();
    expect(final.output.map(({ type }) => type)).toEqual(["reasoning", "function_call", "function_call"]);
    expect(final.output[1]).toMatchObject({ name: "weather", arguments: '{"city":"sandbox"}', status: "completed" });
  });

  test("JSON: items have ids, statuses and annotations, and are the same when they are read again", async () => {
    const made = await openaiOf(tenant).responses.create({ model: models[manner], input: "Hi" });
    expect(made.output).toMatchObject([
      { id: expect.stringMatching(/^msg_/), status: "completed", content: [{ annotations: [] }] },
    ]);
    expect((await openaiOf(tenant).responses.retrieve(made.id)).output).toEqual(made.output);
  });

  test("chat: the helper ends whole, with and without usage", async () => {
    for (const include_usage of [true, false]) {
      const messages = [{ role: "user" as const, content: "Hi" }];
      const asked = { model: models[manner], messages, max_tokens: 40, sandbox_output_tokens: 40, n: 2 };
      const stream = openaiOf(tenant).chat.completions.stream({ ...asked, stream_options: { include_usage } });
      const usages: unknown[] = [];
      for await (const chunk of stream)
        usages.push(chunk.choices.length === 0 ? "usage" : chunk.choices[0]?.finish_reason);
      const final = await stream.finalChatCompletion();
      expect(final.choices.map(({ finish_reason }) => finish_reason)).toEqual(["stop", "stop"]);
      expect(usages.slice(include_usage ? -3 : -2)).toEqual(["stop", "stop", ...(include_usage ? ["usage"] : [])]);
      if (include_usage) expect(final.usage?.completion_tokens).toBe(80);
    }
  });
});

test("a chat that calls a tool and does not say so ends with tool_calls", async () => {
  const tools = TOOLS.map(({ name, parameters }) => ({
    type: "function" as const,
    function: { name, parameters: parameters ?? {} },
  }));
  const messages = [{ role: "user" as const, content: "Hi" }];
  const stream = openaiOf(tenant).chat.completions.stream({ model: models["least-7b"], messages, tools });
  const final = await stream.finalChatCompletion();
  expect(final.choices[0]).toMatchObject({
    finish_reason: "tool_calls",
    message: { tool_calls: [{ type: "function" }] },
  });
});

test("a stream that is whole comes byte for byte as it was sent", async () => {
  const ask = (body: object) =>
    tenant.fetch("/v1/responses", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: models["full-7b"], input: "Hi", stream: true, ...body }),
    });
  for (const body of [{}, { tools: TOOLS, reasoning: {} }, { sandbox_frame_delay_ms: 0, sandbox_output_tokens: 300 }]) {
    const answer = await ask(body);
    const bytes = (await answer.arrayBuffer()).byteLength;
    const id = answer.headers.get("x-request-id");
    const [sent] = await operator.sandbox.callsOf(id);
    expect(bytes).toBe(sent?.bytes_sent);
  }
});

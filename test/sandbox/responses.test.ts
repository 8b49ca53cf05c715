import { expect, test } from "vitest";
import { advance, call, fault, frames, type Json, json, post, rowOf } from "../support/worker/sandbox-client.ts";

const create = (extra: object = {}, headers: Record<string, string> = {}, key?: string) =>
  post("/v1/responses", { model: "llama-7b", input: "Hi", ...extra }, headers, key);
const get = (id: string, key?: string) => call(`/v1/responses/${id}`, {}, key);

test("a response has the contract's shape and can be read again", async () => {
  const made = await json(create({ max_output_tokens: 8 }));
  expect(made.id).toMatch(/^resp_/);
  expect(made).toMatchObject({ object: "response", status: "completed", model: "llama-7b" });
  expect(made.output[0]).toMatchObject({ type: "message", role: "assistant", content: [{ type: "output_text" }] });
  expect(made.usage).toEqual({ input_tokens: 10, output_tokens: 8, total_tokens: 18 });
  expect(await json(get(made.id))).toEqual(made);
});

test("a continued response counts what came before as cached input", async () => {
  const first = await json(create());
  const next = await json(create({ previous_response_id: first.id }, { "x-request-id": "second-turn" }));
  const before = first.usage.total_tokens;
  expect(next.previous_response_id).toBe(first.id);
  expect(next.usage.input_tokens).toBe(before + 10);
  expect(next.usage.input_tokens_details).toEqual({ cached_tokens: before });
  expect((await rowOf("second-turn")).usage).toMatchObject({ input_tokens: before + 10, cached_input_tokens: before });
});

test("the stream has created, deltas and completed, and [DONE] ends it", async () => {
  const events = await frames(create({ stream: true, max_output_tokens: 6 }));
  expect(events.map((event) => event.type ?? event)).toEqual([
    "response.created",
    ...Array(6).fill("response.output_text.delta"),
    "response.completed",
    "[DONE]",
  ]);
  expect(events[0].response.status).toBe("in_progress");
  const { response } = events.at(-2);
  expect(response.output[0].content[0].text).toBe(
    events
      .slice(1, 7)
      .map(({ delta }) => delta)
      .join(""),
  );
  expect(await json(get(response.id))).toEqual(response);
});

test("a running response is in progress; cancelled, it stops and stays cancelled", async () => {
  const response = await create({ stream: true, sandbox_output_tokens: 500, sandbox_frame_delay_ms: 10 });
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  const { id } = JSON.parse(new TextDecoder().decode(value).slice(6)).response;
  expect((await json(get(id))).status).toBe("in_progress");
  expect((await json(post(`/v1/responses/${id}/cancel`, {}))).status).toBe("cancelled");
  while (!(await reader.read()).done);
  const kept = await json(get(id));
  expect(kept.status).toBe("cancelled");
  expect(kept.usage.output_tokens).toBeLessThan(500);
});

test("a client that leaves leaves a response with what was sent", async () => {
  const response = await create(
    { stream: true, sandbox_output_tokens: 500, sandbox_frame_delay_ms: 10 },
    { "x-request-id": "gone" },
  );
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  const { id } = JSON.parse(new TextDecoder().decode(value).slice(6)).response;
  await reader.cancel();
  const row = await rowOf("gone");
  expect((await json(get(id))).usage.output_tokens).toBe(row.usage?.output_tokens);
});

test("unknown ids, another account's, and those of a conversation older than 24 h are the same 404", async () => {
  const first = await json(create());
  await advance(20 * 3_600_000);
  const next = await json(create({ previous_response_id: first.id }));
  await advance(20 * 3_600_000);
  await json(get(first.id));
  for (const answer of [get(first.id, "sandbox-other-key"), get("resp_nothing")]) {
    expect((await json(answer, 404)).error.code).toBe("not_found");
  }
  await json(create({ previous_response_id: first.id }, {}, "sandbox-other-key"), 404);
  await advance(5 * 3_600_000);
  await json(get(first.id), 404);
  await json(get(next.id), 404);
  await json(create({ previous_response_id: next.id }), 404);
});

test("a conversation keeps its model and its region", async () => {
  const first = await json(create({}, { "x-sandbox-region": "us-east-1" }));
  await json(create({ model: "llama-70b", previous_response_id: first.id }), 400);
  for (const _ of [1, 2]) {
    const next = await create({ previous_response_id: first.id });
    expect(next.headers.get("x-service-region")).toBe("us-east-1");
  }
  await json(create({ previous_response_id: first.id }, { "x-sandbox-region": "eu-west-1" }), 404);
  await json(call(`/regions/eu-west-1/v1/responses/${first.id}`), 404);
  await json(post("/_sandbox/regions", { region: "us-east-1", healthy: false }));
  await json(create({ previous_response_id: first.id }), 503);
  await json(post("/_sandbox/regions", { region: "us-east-1", healthy: true }));
});

test.each([
  ["an instance", { model: "llama-7b:1042" }],
  ["a model of another kind", { model: "embed-small" }],
  [
    "a picture",
    { input: [{ role: "user", content: [{ type: "input_image", image_url: "https://a.example/a.png" }] }] },
  ],
  ["no input", { input: undefined }],
  ["no room for output", { max_output_tokens: 0 }],
])("%s is 400", async (_, extra) => {
  await json(create(extra), 400);
});

test("typed items are read, and faults apply", async () => {
  const input = [{ role: "user", content: [{ type: "input_text", text: "Hi" }] }];
  expect((await json(create({ input }))).usage.input_tokens).toBe(10);
  await fault({ match: { path: "/v1/responses" }, fault: "no_usage", times: 1 });
  expect((await frames(create({ stream: true }))).at(-2).response).not.toHaveProperty("usage");
});

const TOOLS = ["weather", "time"].map((name) => ({
  type: "function",
  name,
  parameters: { type: "object", properties: { city: { type: "string" } } },
}));

test("full-7b streams every event of every item, least-7b only what the contract names", async () => {
  const asked = { stream: true, tools: TOOLS, parallel_tool_calls: true, reasoning: { summary: "auto" } };
  const full = await frames(create({ ...asked, model: "full-7b" }));
  const types = full.map((event) => event.type ?? event).filter((type, at, all) => type !== all[at - 1]);
  const words = (kind: string, part: string) => [
    "response.output_item.added",
    ...(part ? [`response.${part}.added`] : []),
    `response.${kind}.delta`,
    `response.${kind}.done`,
    ...(part ? [`response.${part}.done`] : []),
    "response.output_item.done",
  ];
  expect(types).toEqual([
    "response.created",
    "response.in_progress",
    ...words("reasoning_summary_text", "reasoning_summary_part"),
    ...words("function_call_arguments", ""),
    ...words("function_call_arguments", ""),
    "response.completed",
    "[DONE]",
  ]);
  expect(full.slice(0, -1).map(({ sequence_number }) => sequence_number)).toEqual(full.slice(0, -1).map((_, at) => at));
  const done = full.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
  expect(full.at(-2).response.output).toEqual(done);
  expect(done.map(({ name }) => name)).toEqual([undefined, "weather", "time"]);

  const least = await frames(create({ model: "least-7b", stream: true, max_output_tokens: 3 }));
  expect(least.slice(0, 2)).toEqual([
    { type: "response.created", response: { id: expect.any(String), status: "in_progress" } },
    { type: "response.output_text.delta", delta: expect.any(String) },
  ]);
  expect(least.at(-2).response.output).toEqual([
    { type: "message", role: "assistant", content: [{ type: "output_text", text: expect.any(String) }] },
  ]);
});

test("a tool's output is answered by text, and a format by JSON", async () => {
  const call = (await json(create({ tools: TOOLS }))).output[0];
  expect(call).toMatchObject({ type: "function_call", name: "weather", arguments: '{"city":"sandbox"}' });
  const result = { type: "function_call_output", call_id: call.call_id, output: "rain" };
  expect((await json(create({ tools: TOOLS, input: [call, result] }))).output[0].type).toBe("message");
  expect((await json(create({ tools: TOOLS, tool_choice: "none" }))).output[0].type).toBe("message");
  const chosen = { type: "function", name: "time" };
  expect((await json(create({ tools: TOOLS, tool_choice: chosen }))).output[0].name).toBe("time");
  const schema = { type: "object", properties: { n: { type: "integer" } } };
  const text = { format: { type: "json_schema", name: "n", schema } };
  expect((await json(create({ text }))).output[0].content[0].text).toBe('{"n":1}');
});

test("a stored item may be named in place of its content, by its own account, where it is kept", async () => {
  const made = await json(create({}, { "x-sandbox-region": "us-east-1" }));
  const reference = { type: "item_reference", id: made.output[0].id };
  const input = [reference, { role: "user", content: "Hi" }];
  expect((await json(create({ input }))).usage.input_tokens).toBe(10 + made.usage.output_tokens);
  await json(create({ input }, {}, "sandbox-other-key"), 404);
  await json(create({ input: [{ ...reference, id: "msg_nothing" }] }), 404);
  await json(create({ input: [input[1], reference, { ...reference, id: "msg_nothing" }] }), 404);
});

test("a response's input can be read in pages, until it is deleted", async () => {
  const input = ["a", "b", "c"].map((content) => ({ role: "user", content }));
  const { id } = await json(create({ input }));
  const page = (query: string) => json(call(`/v1/responses/${id}/input_items?${query}`));
  const first = await page("limit=2");
  expect([first.data.map(({ content }: Json) => content), first.has_more]).toEqual([["c", "b"], true]);
  const rest = await page(`limit=2&after=${first.last_id}`);
  expect([rest.data.map(({ content }: Json) => content), rest.has_more]).toEqual([["a"], false]);
  expect((await page("order=asc")).data[0].content).toBe("a");
  const remove = (key?: string) => call(`/v1/responses/${id}`, { method: "DELETE" }, key);
  await json(remove("sandbox-other-key"), 404);
  expect(await json(remove())).toEqual({ id, object: "response", deleted: true });
  for (const answer of [remove(), get(id), call(`/v1/responses/${id}/input_items`)]) await json(answer, 404);
});

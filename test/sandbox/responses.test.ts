import { expect, test } from "vitest";
import { advance, call, fault, frames, json, post, rowOf } from "../support/worker/sandbox-client.ts";

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

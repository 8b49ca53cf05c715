import { expect, test } from "vitest";
import { call, chat, executions, frames, type Json, json, post, rowOf } from "../support/worker/sandbox-client.ts";

const content = (body: Json) => body.choices[0].message.content;

test("a two byte prompt counts ten tokens", async () => {
  const { usage, object, choices } = await json(chat());
  expect(object).toBe("chat.completion");
  expect(usage.prompt_tokens).toBe(10);
  expect(usage.total_tokens).toBe(10 + usage.completion_tokens);
  expect(choices[0].finish_reason).toBe("stop");
});

test("the same request gets the same answer, marked with model and region", async () => {
  const [a, b] = [
    await json(chat({}, { "x-sandbox-region": "eu-west-1" })),
    await json(chat({}, { "x-sandbox-region": "eu-west-1" })),
  ];
  expect(content(a)).toBe(content(b));
  expect(content(a)).toContain("[llama-7b@eu-west-1]");
});

test("a stream's frames make the text of the JSON answer, role first, finish last, then [DONE]", async () => {
  const at = { "x-sandbox-region": "us-east-1" };
  const whole = await json(chat({ sandbox_output_tokens: 50 }, at));
  const streamed = await frames(chat({ sandbox_output_tokens: 50, stream: true }, at));
  expect(streamed[0].choices[0].delta).toEqual({ role: "assistant", content: "" });
  expect(streamed.at(-1)).toBe("[DONE]");
  expect(streamed.at(-2).choices[0]).toMatchObject({ delta: {}, finish_reason: "stop" });
  expect(
    streamed
      .slice(0, -1)
      .map((chunk) => chunk.choices[0].delta.content ?? "")
      .join(""),
  ).toBe(content(whole));
  expect(whole.usage.completion_tokens).toBe(50);
  expect(streamed).toHaveLength(50 + 3);
  expect(streamed.every((chunk) => chunk.usage === undefined)).toBe(true);
});

test("include_usage puts usage:null on each chunk and the figures on a last one without choices", async () => {
  const streamed = await frames(chat({ stream: true, stream_options: { include_usage: true }, max_tokens: 5 }));
  const [last, ...others] = streamed.slice(0, -1).reverse();
  expect(last).toMatchObject({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } });
  expect(others.every((chunk) => chunk.usage === null)).toBe(true);
});

test("the smaller of both output bounds holds and ends with length", async () => {
  const body = await json(chat({ max_tokens: 7, max_completion_tokens: 4, sandbox_output_tokens: 100 }));
  expect(body.choices[0].finish_reason).toBe("length");
  expect(body.usage.completion_tokens).toBe(4);
});

test("n answers count their tokens together and stream side by side", async () => {
  const body = await json(chat({ n: 3, max_tokens: 5 }));
  expect(body.choices.map((choice: Json) => choice.index)).toEqual([0, 1, 2]);
  expect(body.usage.completion_tokens).toBe(15);
  const streamed = await frames(chat({ n: 2, max_tokens: 5, stream: true }));
  expect(streamed.filter((chunk) => chunk.choices?.[0].finish_reason === "length")).toHaveLength(2);
});

test("a stop sequence ends the text before it", async () => {
  const body = await json(chat({ sandbox_reply: "one two three", stop: ["three", " two"] }));
  expect(content(body)).toBe("one");
});

const weather = {
  type: "function",
  function: {
    name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer", minimum: 2 } } },
  },
};

test("a user's turn with tools is answered by a call that fits the schema, a tool's turn by text", async () => {
  const body = await json(chat({ tools: [weather] }));
  const { message, finish_reason } = body.choices[0];
  expect(finish_reason).toBe("tool_calls");
  expect(message.tool_calls[0].function.name).toBe("weather");
  expect(JSON.parse(message.tool_calls[0].function.arguments)).toEqual({ city: "sandbox", days: 2 });
  const next = await json(
    chat({
      tools: [weather],
      messages: [
        { role: "user", content: "Hi" },
        message,
        { role: "tool", tool_call_id: message.tool_calls[0].id, content: "sun" },
      ],
    }),
  );
  expect(next.choices[0].finish_reason).toBe("stop");
  expect(content(await json(chat({ tools: [weather], tool_choice: "none" })))).toContain("[llama-7b@");
});

test("a streamed tool call's argument pieces make the JSON", async () => {
  const streamed = await frames(chat({ tools: [weather], stream: true }));
  const pieces = streamed.slice(0, -1).map((chunk) => chunk.choices[0].delta.tool_calls?.[0].function.arguments ?? "");
  expect(JSON.parse(pieces.join(""))).toEqual({ city: "sandbox", days: 2 });
  expect(streamed.at(-2).choices[0].finish_reason).toBe("tool_calls");
});

test("JSON mode answers a JSON object", async () => {
  const body = await json(chat({ response_format: { type: "json_object" } }));
  expect(JSON.parse(content(body))).toHaveProperty("answer");
});

const picture = (url: string) =>
  chat({
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "Hi" },
          { type: "image_url", image_url: { url } },
        ],
      },
    ],
  });

test("each picture counts 256 tokens; one that is neither https nor base64 data is refused", async () => {
  expect((await json(picture("https://pictures.example/a.png"))).usage.prompt_tokens).toBe(266);
  expect((await json(picture("data:image/png;base64,iVBORw0KGgo="))).usage.prompt_tokens).toBe(266);
  for (const url of ["data:image/png;base64,%%%%", "http://pictures.example/a.png", "data:image/png,abcd"]) {
    const { error } = await json(picture(url), 400);
    expect(error.param).toBe("messages[0].content[1].image_url.url");
  }
});

test.each([
  ["temperature", { temperature: 2.1 }],
  ["top_p", { top_p: -0.1 }],
  ["presence_penalty", { presence_penalty: 3 }],
  ["frequency_penalty", { frequency_penalty: -3 }],
  ["messages", { messages: [] }],
  ["model", { model: 7 }],
  ["max_tokens", { max_tokens: 1.5 }],
  ["seed", { seed: "x" }],
  ["stream", { stream: "yes" }],
  ["stream_options", { stream_options: { include_usage: true } }],
])("%s out of its range is refused by name and not executed", async (param, extra) => {
  const { error } = await json(chat(extra, { "x-request-id": `bad-${param}` }), 400);
  expect(error).toMatchObject({ param, type: "invalid_request_error" });
  expect((await rowOf(`bad-${param}`)).executed).toBe(false);
});

test("unknown fields and a seed are accepted", async () => {
  await json(chat({ seed: 3, user: "u", some_engine_option: { a: 1 } }));
});

test("broken JSON and a wrong content type are 400", async () => {
  await json(post("/v1/chat/completions", {}, { "content-type": "text/plain" }), 400);
  const { error } = await json(post("/v1/chat/completions", undefined), 400);
  expect(error.message).toContain("JSON");
});

test("the log has what was executed, with usage, hash of the body, and names of headers only", async () => {
  const text = await (
    await chat({ stream: true, max_tokens: 6, sandbox_cached_tokens: 4 }, { "x-request-id": "logged" })
  ).text();
  const row = await rowOf("logged");
  expect(row).toMatchObject({
    path: "/v1/chat/completions",
    model: "llama-7b",
    account: "operator",
    executed: true,
    answered: true,
    closed_early: false,
    bytes_sent: new TextEncoder().encode(text).length,
    frames_sent: 9,
    usage: { input_tokens: 10, cached_input_tokens: 4, output_tokens: 6 },
  });
  expect(row.body_sha256).toMatch(/^[0-9a-f]{64}$/);
  expect(row.headers).toContain("authorization");
  expect(JSON.stringify(row)).not.toContain("sandbox-key");
  expect((await executions(row.id - 1))[0]?.id).toBe(row.id);
});

test("the log is given of those models alone that are asked for", async () => {
  await json(chat());
  await json(chat({ model: "llama-70b" }));
  const of = async (query: string): Promise<Set<string>> => {
    const { data } = await json(call(`/_sandbox/executions?${query}`));
    return new Set(data.map(({ model }: { model: string }) => model));
  };
  expect(await of("model=llama-70b")).toEqual(new Set(["llama-70b"]));
  expect(await of("model=llama-70b&model=llama-7b")).toEqual(new Set(["llama-70b", "llama-7b"]));
  expect(await of("model=nobody")).toEqual(new Set());
});

test("cached tokens are reported when the request says what the cache held", async () => {
  const { usage } = await json(chat({ sandbox_cached_tokens: 6 }));
  expect(usage.prompt_tokens_details).toEqual({ cached_tokens: 6 });
});

test("a frame arrives before the next one is made", async () => {
  const response = await chat({ stream: true, sandbox_frame_delay_ms: 200, max_tokens: 100 });
  const reader = response.body!.getReader();
  await reader.read();
  const begun = Date.now();
  await reader.read();
  expect(Date.now() - begun).toBeGreaterThan(100);
  // All of them take 20 s.
  expect(Date.now() - begun).toBeLessThan(10_000);
  await reader.cancel();
});

test("a client that leaves stops the stream within a second, and the log says what was sent", async () => {
  const leaving = new AbortController();
  const response = await post(
    "/v1/chat/completions",
    {
      model: "llama-7b",
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
      sandbox_frame_delay_ms: 20,
      sandbox_output_tokens: 5000,
    },
    { "x-request-id": "left" },
  );
  const reader = response.body!.getReader();
  for (let read = 0; read < 4; read++) await reader.read();
  await reader.cancel();
  leaving.abort();
  const row = await rowOf("left");
  expect(row.closed_early).toBe(true);
  expect(row.frames_sent).toBeGreaterThanOrEqual(4);
  expect(row.frames_sent).toBeLessThan(60);
  expect(row.usage?.output_tokens).toBe(row.frames_sent - 1);
});

test("a stream of least-7b ends without a finish_reason", async () => {
  const streamed = await frames(chat({ model: "least-7b", stream: true, stream_options: { include_usage: true } }));
  expect(streamed.at(-1)).toBe("[DONE]");
  expect(streamed.at(-2).usage.completion_tokens).toBe(streamed.length - 3);
  expect(streamed.slice(0, -2).map(({ choices }) => choices[0].finish_reason)).not.toContain("stop");
});

test("reason-7b takes its cap as max_completion_tokens only", async () => {
  const capped = await json(chat({ model: "reason-7b", max_completion_tokens: 2 }));
  expect(capped.usage.completion_tokens).toBe(2);
  expect((await json(chat({ model: "reason-7b", max_tokens: 2 }), 400)).error.param).toBe("max_tokens");
});

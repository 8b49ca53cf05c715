/** The `openai` SDK, unchanged but for base URL and key, does what it does at the service itself. */
import { gzipSync } from "node:zlib";
import OpenAI from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { openaiOf } from "../../support/openai.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let client: OpenAI;
let model: string;

const HI = [{ role: "user" as const, content: "Hi" }];
const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

beforeAll(async () => {
  tenant = await operator.tenant();
  client = openaiOf(tenant);
  model = await operator.alias(tenant, [{ upstream: "sandbox", model: await operator.instance(tenant) }]);
});

const failure = async (call: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(OpenAI.APIError);
  return error as InstanceType<typeof OpenAI.APIError>;
};

describe("chat", () => {
  test("a completion has text, usage and the id of the call", async () => {
    const { data, response } = await client.chat.completions.create({ model, messages: HI }).withResponse();
    expect(data.object).toBe("chat.completion");
    expect(data.choices[0]?.message.content).toMatch(/\w/);
    expect(data.usage?.prompt_tokens).toBe(10);
    expect(response.headers.get("x-request-id")).toBe(response.headers.get("x-service-request-id"));
    expect(response.headers.get("x-service-region")).toMatch(/^(us-east-1|eu-west-1)$/);
  });

  test("a stream gives the same text as the whole answer", async () => {
    const whole = await client.chat.completions.create({ model, messages: HI, seed: 7 });
    const stream = await client.chat.completions.create({ model, messages: HI, seed: 7, stream: true });
    let text = "";
    for await (const chunk of stream) {
      expect(chunk).not.toHaveProperty("usage");
      expect(chunk.choices).toHaveLength(1);
      text += chunk.choices[0]?.delta.content ?? "";
    }
    const withoutRegion = (words: string | null | undefined) => words?.replace(/@[\w-]+\]/, "]");
    expect(withoutRegion(text)).toBe(withoutRegion(whole.choices[0]?.message.content));
  });

  test("bodies that its fetch sends as gzip are served, whole and streamed, and count as what they expand to", async () => {
    const zipping: typeof fetch = (url, init) => {
      const headers = new Headers(init?.headers);
      headers.set("content-encoding", "gzip");
      return fetch(url, { ...init, headers, body: gzipSync(String(init?.body)) });
    };
    const zipped = client.withOptions({ fetch: zipping });
    const messages = [{ role: "user" as const, content: "word ".repeat(5_000) }];
    const plain = await client.chat.completions.create({ model, messages, seed: 7 });
    const whole = await zipped.chat.completions.create({ model, messages, seed: 7 });
    expect(whole.usage).toEqual(plain.usage);
    const final = await zipped.chat.completions.stream({ model, messages, seed: 7 }).finalChatCompletion();
    expect(final.choices[0]?.finish_reason).toBe("stop");
  });

  test("include_usage gives the usage chunk, and only then", async () => {
    const stream = await client.chat.completions.create({
      model,
      messages: HI,
      stream: true,
      stream_options: { include_usage: true },
    });
    const usages = [];
    for await (const chunk of stream) {
      if (chunk.usage) usages.push(chunk.usage);
      else expect(chunk.usage).toBeNull();
    }
    expect(usages).toHaveLength(1);
    expect(usages[0]?.prompt_tokens).toBe(10);
    expect(usages[0]?.total_tokens).toBe(10 + (usages[0]?.completion_tokens ?? 0));
  });

  test("tools: the model calls, gets its result, and answers", async () => {
    const tools: OpenAI.ChatCompletionTool[] = [
      {
        type: "function",
        function: {
          name: "weather",
          parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
        },
      },
    ];
    const first = await client.chat.completions.create({ model, messages: HI, tools });
    const message = first.choices[0]?.message;
    const call = message?.tool_calls?.[0];
    expect(first.choices[0]?.finish_reason).toBe("tool_calls");
    if (!message || call?.type !== "function") throw new Error("no call of a function");
    expect(JSON.parse(call.function.arguments)).toHaveProperty("city");
    const second = await client.chat.completions.create({
      model,
      messages: [...HI, message, { role: "tool", tool_call_id: call.id, content: "sunny" }],
      tools,
    });
    expect(second.choices[0]?.finish_reason).toBe("stop");
  });

  test("tools in a stream: the arguments come in pieces and add up", async () => {
    const runner = client.chat.completions.stream({
      model,
      messages: HI,
      tools: [
        {
          type: "function",
          function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
        },
      ],
    });
    const completion = await runner.finalChatCompletion();
    const call = completion.choices[0]?.message.tool_calls?.[0];
    expect(call).toMatchObject({ type: "function", function: { name: "weather" } });
  });

  test("vision parts go through, by data URL and by link", async () => {
    const completion = await client.chat.completions.create({
      model,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: PIXEL } },
            { type: "image_url", image_url: { url: "https://images.example/one.png" } },
          ],
        },
      ],
    });
    expect(completion.usage?.prompt_tokens).toBeGreaterThan(512);
  });

  test("JSON mode gives JSON", async () => {
    const completion = await client.chat.completions.create({
      model,
      messages: HI,
      response_format: { type: "json_object" },
    });
    expect(JSON.parse(completion.choices[0]?.message.content ?? "")).toBeTypeOf("object");
  });

  test("the documented fields reach the model", async () => {
    const completion = await client.chat.completions.create({
      model,
      messages: HI,
      max_tokens: 3,
      temperature: 0.5,
      top_p: 0.9,
      stop: ["never"],
      presence_penalty: -1,
      frequency_penalty: 1,
      seed: 1,
    });
    expect(completion.usage?.completion_tokens).toBe(3);
    expect(completion.choices[0]?.finish_reason).toBe("length");
  });

  test("the instance is called directly by the account that owns it", async () => {
    const own = await operator.instance(tenant);
    const completion = await client.chat.completions.create({ model: own, messages: HI });
    expect(completion.model).toBe(own);
  });
});

describe("models", () => {
  test("the list holds what the key may call, and nothing of other accounts", async () => {
    const ids = [];
    for await (const one of client.models.list()) ids.push(one.id);
    expect(ids).toContain(model);
    expect(ids).toContain("llama-7b");
    const other = await operator.tenant();
    const theirs = (await openaiOf(other).models.list()).data.map(({ id }) => id);
    expect(theirs).not.toContain(model);
    expect(theirs.filter((id) => id.startsWith("llama-7b:"))).toEqual([]);
  });

  test("one is retrieved by name; an unknown one is not found", async () => {
    expect((await client.models.retrieve(model)).id).toBe(model);
    expect(await failure(client.models.retrieve("no-such-model"))).toBeInstanceOf(OpenAI.NotFoundError);
  });
});

describe("error classes", () => {
  test("400 is a BadRequestError that names the field", async () => {
    const error = await failure(client.chat.completions.create({ model, messages: HI, temperature: 3 }));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error.param).toBe("temperature");
  });

  test("401 is an AuthenticationError: no key of ours, somebody else's instance, an unknown one", async () => {
    const forged = openaiOf(tenant, { apiKey: `${tenant.key.slice(0, -1)}${tenant.key.endsWith("a") ? "b" : "a"}` });
    const other = await operator.tenant();
    const theirs = await operator.instance(other);
    const errors = [
      await failure(forged.chat.completions.create({ model, messages: HI })),
      await failure(client.chat.completions.create({ model: theirs, messages: HI })),
      await failure(client.chat.completions.create({ model: "llama-7b:999999999", messages: HI })),
    ];
    for (const error of errors) expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
  });

  test("402 is a plain APIError: no credit, no price", async () => {
    const poor = await operator.tenant({ balance_usd: 0.000001 });
    const target = { upstream: "sandbox", model: await operator.instance(poor) };
    const cheap = await operator.alias(poor, [target]);
    const error = await failure(openaiOf(poor).chat.completions.create({ model: cheap, messages: HI }));
    expect(error.status).toBe(402);
    expect(error.code).toBe("insufficient_quota");
    expect(error.constructor).toBe(OpenAI.APIError);
    const unpriced = await operator.alias(poor, [{ upstream: "sandbox", model: "never-priced" }]);
    const other = await failure(openaiOf(poor).chat.completions.create({ model: unpriced, messages: HI }));
    expect([other.status, other.code]).toEqual([402, "model_not_priced"]);
  });

  test("403 is a PermissionDeniedError: a model that the key may not call", async () => {
    const bound = await operator.key(tenant.account, { models: ["other-*"] });
    const error = await failure(
      openaiOf(tenant, { apiKey: bound.key }).chat.completions.create({ model, messages: HI }),
    );
    expect(error).toBeInstanceOf(OpenAI.PermissionDeniedError);
  });

  test("404 is a NotFoundError", async () => {
    const error = await failure(client.chat.completions.create({ model: "no-such-model", messages: HI }));
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
    expect([error.code, error.param]).toEqual(["model_not_found", "model"]);
  });

  test("429 is a RateLimitError and says when to come back", async () => {
    const limited = await operator.tenant({ rpm_limit: 1 });
    const target = { upstream: "sandbox", model: await operator.instance(limited) };
    const name = await operator.alias(limited, [target]);
    await openaiOf(limited).chat.completions.create({ model: name, messages: HI });
    const error = await failure(openaiOf(limited).chat.completions.create({ model: name, messages: HI }));
    expect(error).toBeInstanceOf(OpenAI.RateLimitError);
    expect(Number(error.headers?.get("retry-after"))).toBeGreaterThan(0);
    expect(error.headers?.get("x-ratelimit-limit-requests")).toBe("1");
    expect(error.headers?.get("x-ratelimit-remaining-requests")).toBe("0");
  });

  test("503 is an InternalServerError: no target can take the call", async () => {
    const down = await operator.instance(tenant);
    await operator.sandbox.fault(down, { fault: "status", status: 503 });
    const error = await failure(client.chat.completions.create({ model: down, messages: HI }));
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
    expect([error.status, error.code]).toEqual([503, "no_healthy_upstream"]);
  });
});

test.each(["authorization", "x-api-key", "api-key"])("the key is accepted in %s", async (header) => {
  const value = header === "authorization" ? `Bearer ${tenant.key}` : tenant.key;
  const response = await fetch(`${operator.url}/v1/models`, { headers: { [header]: value } });
  expect(response.status).toBe(200);
});

test("two keys that differ are refused", async () => {
  const other = await operator.key(tenant.account);
  const response = await tenant.fetch("/v1/models", { headers: { "x-api-key": other.key } });
  expect(response.status).toBe(401);
});

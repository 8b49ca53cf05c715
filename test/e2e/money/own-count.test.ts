/** Who leaves a stream before its usage frame pays for all that was read, wherever the prompt stands. */
import { beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { ask, billOf, callIdOf, executionsOf, jsonTo, pricesOf } from "../../support/service.ts";
import type { Tenant } from "../../support/tenant.ts";
import { usageEventOf } from "../../support/usage-events.ts";
import { world } from "../../support/world.ts";

const { operator, stateDir } = world();
let tenant: Tenant;
const models: Record<string, string> = {};

beforeAll(async () => {
  tenant = await operator.tenant({ balance_usd: 50 });
  for (const model of ["llama-7b", "glyph-7b"]) {
    const alias = await operator.alias(tenant, [{ upstream: "sandbox", model }]);
    const prices = pricesOf("input_tokens", "output_tokens");
    await operator.call("PUT", `/models/${alias}`, { kind: "chat", prices, max_output_tokens: 256 });
    models[model] = alias;
  }
});

/** Reads the first piece of the stream and goes. Gives the input that was executed, and the one that was charged. */
async function leave(path: string, body: Record<string, unknown>, model = "llama-7b") {
  const leaving = new AbortController();
  const stream = { stream: true, sandbox_output_tokens: 200, sandbox_frame_delay_ms: 200 };
  const { init } = jsonTo(path, { model: models[model], ...stream, ...body });
  const response = await tenant.fetch(path, { ...init, signal: leaving.signal });
  expect(response.status).toBe(200);
  await response.body?.getReader().read();
  leaving.abort();
  const callId = callIdOf(response);
  await billOf(tenant, callId);
  const [execution] = await eventually("the service noticed", async () => {
    const found = await executionsOf(tenant, callId);
    return found[0]?.ended_ms ? found : undefined;
  });
  const event = await usageEventOf(stateDir, callId);
  expect(event).toMatchObject({ outcome: "client_gone", source: "own_count" });
  return { executed: execution?.usage?.input_tokens ?? 0, charged: event.input_tokens };
}

const CHAT = "/v1/chat/completions";
const LONG = "word ".repeat(10_800);
const user = { role: "user", content: "Hi" };
const picture = { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(4_000)}` } };
const asked = { id: "call_1", type: "function", function: { name: "f", arguments: JSON.stringify({ said: LONG }) } };

describe.concurrent("the whole input is charged where the prompt is", () => {
  test.each<[string, Record<string, unknown>]>([
    [
      "a tool's description",
      { messages: [user], tools: [{ type: "function", function: { name: "f", description: LONG } }] },
    ],
    ["the arguments of a call", { messages: [user, { role: "assistant", content: null, tool_calls: [asked] }] }],
    ["40 images", { messages: [{ role: "user", content: Array(40).fill(picture) }] }],
    [
      "images in a tool's result",
      { messages: [{ role: "tool", tool_call_id: "1", content: Array(40).fill(picture) }] },
    ],
  ])("%s", async (_, body) => {
    const { executed, charged } = await leave(CHAT, body);
    expect(executed).toBeGreaterThan(10_000);
    expect(charged).toBeGreaterThanOrEqual(0.95 * executed);
    expect(charged).toBeLessThan(1.1 * executed);
  });

  test("an earlier conversation", async () => {
    const begun = await ask(tenant, jsonTo("/v1/responses", { model: models["llama-7b"], input: LONG }));
    const { id } = (await begun.json()) as { id: string };
    const { executed, charged } = await leave("/v1/responses", { input: "Hi", previous_response_id: id });
    expect(executed).toBeGreaterThan(13_500);
    expect(charged).toBeGreaterThanOrEqual(0.95 * executed);
    expect(charged).toBeLessThan(1.1 * executed);
  });

  test("images in a function's output", async () => {
    const output = Array(40).fill({ type: "input_image", image_url: picture.image_url.url });
    const input = [{ type: "function_call_output", call_id: "c", output }];
    const { executed, charged } = await leave("/v1/responses", { input });
    expect(executed).toBeGreaterThan(10_000);
    expect(charged).toBeGreaterThanOrEqual(0.95 * executed);
  });

  test("a text that the model reads at two bytes a token: at most twice as much was read", async () => {
    const { executed, charged } = await leave(CHAT, { messages: [{ role: "user", content: LONG }] }, "glyph-7b");
    expect(executed).toBeGreaterThan(27_000);
    expect(2 * charged).toBeGreaterThanOrEqual(executed);
  });
});

test("video is refused where no bound is known, and nothing is executed", async () => {
  const video = { type: "video_url", video_url: { url: "https://x.example/a.mp4" } };
  const body = { model: models["llama-7b"], messages: [{ role: "user", content: [video] }] };
  const response = await ask(tenant, jsonTo(CHAT, body));
  expect([response.status, await response.json()]).toMatchObject([400, { error: { type: "invalid_request_error" } }]);
  expect(await executionsOf(tenant, callIdOf(response))).toEqual([]);
});

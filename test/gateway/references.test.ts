import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Endpoint } from "../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../src/core/endpoints/inference/chat.ts";
import { createResponse } from "../../src/core/endpoints/inference/responses.ts";
import { videoQuote } from "../../src/core/endpoints/inference/video.ts";
import type { ModelRow } from "../../src/core/pricing/prices.ts";
import { serve } from "../../src/gateway/serve.ts";
import { fakeWorld, json, makeKey, ROUTING, ROW } from "../support/fake-ports.ts";

const PICTURE = "https://pictures.example/cat.png";
const PLAIN: ModelRow = { ...ROW, model: "plain", upstream: "u" };
const VIDEO: ModelRow = {
  ...ROW,
  model: "video",
  kind: "video",
  costNanoUsd: { video_tokens_720p: 1 },
  upstream: "u",
};
const CHAT = {
  id: "c",
  choices: [{ index: 0, message: { role: "assistant", content: "a cat" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};
const RESPONSE = {
  id: "resp_1",
  status: "completed",
  output: [],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
};
const QUOTE = { estimated_tokens_min: 1, estimated_tokens_max: 2 };

describe("a URL that a tenant gives", () => {
  beforeEach(() => void vi.spyOn(globalThis, "fetch").mockRejectedValue(new Error("nothing is fetched here")));
  afterEach(() => void vi.restoreAllMocks());

  it.each<[Endpoint, object, object]>([
    [
      chatCompletions,
      { model: "plain", messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: PICTURE } }] }] },
      CHAT,
    ],
    [
      createResponse,
      {
        model: "plain",
        input: [{ type: "message", role: "user", content: [{ type: "input_image", image_url: PICTURE }] }],
      },
      RESPONSE,
    ],
    [videoQuote, { model: "video", prompt: "a cat", reference_image_urls: [PICTURE] }, QUOTE],
  ])("is passed on and fetched by nobody here: $id", async (endpoint, body, answered) => {
    const routing = { ...ROUTING, models: { ...ROUTING.models, plain: [PLAIN], video: [VIDEO] } };
    const world = fakeWorld({ script: () => json(answered), routing });
    const request = new Request(`http://gateway.test${endpoint.path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const response = await serve(request, endpoint, {}, world.ports);
    expect(response.status, await response.text()).toBe(200);
    await world.idle();
    expect(world.sent.map((call) => [call.request.path, JSON.stringify(call.body).includes(PICTURE)])).toEqual([
      [endpoint.path, true],
    ]);
    expect(fetch).not.toHaveBeenCalled();
  });
});

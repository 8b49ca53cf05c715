/** The field in which each target gets the output cap: its engine may know only one of them. */
import { expect, it } from "vitest";
import { chatCompletions } from "../../src/core/endpoints/inference/chat.ts";
import { createResponse } from "../../src/core/endpoints/inference/responses.ts";
import type { ModelRow } from "../../src/core/pricing/prices.ts";
import type { RoutingSnapshot } from "../../src/core/routing/routes.ts";
import { serve } from "../../src/gateway/serve.ts";
import { fakeWorld, json, makeKey, ROUTING, ROW } from "../support/fake-ports.ts";

/** The alias's targets answer 503, one after the other. */
async function sent(body: object, models: Record<string, ModelRow["capField"]>) {
  const rows = Object.entries(models).map(([model, capField]) => [model, [{ ...ROW, model, capField }]] as const);
  const routing: RoutingSnapshot = { ...ROUTING, models: { ...ROUTING.models, ...Object.fromEntries(rows) } };
  const world = fakeWorld({ routing, script: () => json({}, 503) });
  const asked = { model: "chat", messages: [{ role: "user", content: "x" }], ...body };
  const request = new Request("http://gateway.test/", {
    method: "POST",
    headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" },
    body: JSON.stringify(asked),
  });
  await serve(request, chatCompletions, {}, world.ports);
  await world.idle();
  return world.sent.map(({ body }) => {
    const { max_tokens, max_completion_tokens } = body;
    return { max_tokens, max_completion_tokens };
  });
}

it.each([{ max_tokens: 7 }, { max_completion_tokens: 7 }, { max_tokens: 9, max_completion_tokens: 7 }])(
  "each target's row says where: %j",
  async (body) => {
    expect(await sent(body, { "first:1": "max_completion_tokens", "second:2": undefined })).toEqual([
      { max_completion_tokens: 7 },
      { max_tokens: 7 },
    ]);
  },
);

it("the called name's row says it for a target without a row", async () => {
  expect(await sent({ max_tokens: 7 }, { chat: "max_completion_tokens" })).toEqual([
    { max_completion_tokens: 7 },
    { max_completion_tokens: 7 },
  ]);
});

it("the model's own cap goes there too, where the caller gave none", async () => {
  const [first] = await sent({}, { "first:1": "max_completion_tokens" });
  expect(first).toEqual({ max_completion_tokens: 1000 });
});

it("responses have one field", () => {
  expect(createResponse.capField({ capField: "max_completion_tokens" })).toBe("max_output_tokens");
});

import { describe, expect, it } from "vitest";
import * as z from "zod";
import { json } from "../../src/core/endpoints/body.ts";
import { endpoint } from "../../src/core/endpoints/endpoint.ts";
import { serve } from "../../src/gateway/serve.ts";
import { json as answerJson, fakeWorld, makeKey, ROUTING } from "../support/fake-ports.ts";

/** An endpoint that no contract has: one row, and nothing else. */
const poems = endpoint({
  id: "poems",
  method: "POST",
  path: "/v1/poems",
  summary: "A poem of so many lines",
  body: json(z.looseObject({ model: z.string(), lines: z.int().min(1) })),
  model: "model",
  kinds: ["chat"],
  instances: true,
  meter: {
    bound: ({ lines }) => ({ fixed: { requests: lines } }),
    reader: ({ lines }) => ({
      kind: "json",
      read: (answer) => typeof answer === "object" && answer !== null && "poem" in answer,
      reading: () => ({ source: "exact", usage: { requests: lines } }),
    }),
  },
  retry: "costly",
  errors: "openai",
});

describe("a made-up endpoint", () => {
  it("takes one row: it is admitted, forwarded, relayed and settled by the pipeline as it is", async () => {
    const world = fakeWorld({ script: () => answerJson({ poem: "..." }), routing: ROUTING });
    const request = new Request("http://gateway.test/v1/poems", {
      method: "POST",
      headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "chat", lines: 3, x: 1 }),
    });
    const response = await serve(request, poems, {}, world.ports);
    expect(await response.json()).toEqual({ poem: "..." });
    await world.idle();
    expect(world.admitted[0]?.bound).toEqual({ fixed: { requests: 3 } });
    expect(world.sent[0]?.request.path).toBe("/v1/poems");
    expect(world.sent[0]?.body).toEqual({ model: "first:1", lines: 3, x: 1 });
    expect(world.settled[0]?.reading).toEqual({ source: "exact", usage: { requests: 3 } });
  });

  it("refuses what its schema refuses, in its error shape", async () => {
    const world = fakeWorld({ script: () => answerJson({}) });
    const request = new Request("http://gateway.test/v1/poems", {
      method: "POST",
      headers: { authorization: `Bearer ${makeKey()}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "chat", lines: 0 }),
    });
    const response = await serve(request, poems, {}, world.ports);
    expect([response.status, ((await response.json()) as { error: { param: string } }).error.param]).toEqual([
      400,
      "lines",
    ]);
    expect(world.admitted).toEqual([]);
  });
});

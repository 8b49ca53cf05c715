/** Lists in bodies: validation stops at the first fault, and what is large and right is quick. */
import { describe, expect, it } from "vitest";
import * as z from "zod/mini";
import { jsonSchemaOf } from "../../../src/api/documents/openapi.ts";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { list } from "../../../src/core/endpoints/list.ts";
import { ENDPOINTS } from "../../../src/core/endpoints/table.ts";
import { MAX_VALUES } from "../../../src/core/formats/json.ts";
import { allowedMs } from "../../support/slowness.ts";

const entry = (id: string) => ENDPOINTS.find((one) => one.id === id) as Endpoint;
const parse = (id: string, value: unknown) =>
  entry(id).parse({ askedPath: "/", params: {}, body: { kind: "json", value } });
const timed = <T>(work: () => T): { result: T; ms: number } => {
  const started = performance.now();
  const result = work();
  return { result, ms: performance.now() - started };
};
const many = <T>(item: T, count = MAX_VALUES) => Array<T>(count).fill(item);
const chat = (fields: object) => ({ model: "m", messages: [{ role: "user", content: "Hi" }], ...fields });
const user = (content: unknown) => [{ role: "user", content }];

describe("a list of a body", () => {
  it.each<[string, unknown, string, RegExp]>([
    ["chat.completions", chat({ messages: many(1) }), "messages[0]", /must be an object; it was 1\./],
    [
      "chat.completions",
      chat({ messages: [...many(user("x")[0], 80_000), 1] }),
      "messages[80000]",
      /must be an object; it was 1\./,
    ],
    [
      "chat.completions",
      chat({ messages: many({ role: "king" }) }),
      "messages[0].role",
      /must be one of system, .*"king"/,
    ],
    ["chat.completions", chat({ messages: many({ role: "user" }) }), "messages[0].content", /is required/],
    ["chat.completions", chat({ messages: user(many(1)) }), "messages[0].content[0]", /must be an object; it was 1\./],
    ["chat.completions", chat({ messages: user(many({ type: "text" })) }), "messages[0].content[0].text", /string/],
    ["chat.completions", chat({ tools: many(1) }), "tools[0]", /must be an object; it was 1\./],
    ["chat.completions", chat({ stop: many(1) }), "stop", /string/],
    [
      "chat.completions",
      chat({ messages: [] }),
      "messages",
      /must be a non-empty array of messages; it was an empty array/,
    ],
    ["responses.create", { model: "m", input: many(1) }, "input", /./],
    ["responses.create", { model: "m", input: many({ type: "item_reference" }) }, "input", /./],
    ["embeddings", { model: "m", input: many(1.5) }, "input", /./],
    ["embeddings", { model: "m", input: many([]) }, "input", /./],
    ["embeddings", { model: "m", input: [...many(1, 200_000), "x"] }, "input", /`input\[200000\]` was a string/],
    ["embeddings", { model: "m", input: [...many([1], 120_000), 1] }, "input", /`input\[120000\]` was 1/],
    [
      "rerank",
      { model: "m", query: "q", documents: many(1) },
      "documents",
      /must be an array of 1 to 1000 strings; it was an array of 250000 items/,
    ],
    ["rerank", { model: "m", query: "q", documents: ["a", 1] }, "documents[1]", /must be a string; it was 1\./],
    ["video.generations", { model: "m", prompt: "p", reference_images: many(1) }, "reference_images", /at most 9/],
    ["video.generations", { model: "m", prompt: "p", reference_video_urls: [1] }, "reference_video_urls[0]", /string/],
  ])("%s: the first fault of %#, in no time", (id, body, param, message) => {
    const { result, ms } = timed(() => parse(id, body));
    const expected = { kind: "invalid_request", message: expect.stringMatching(message) };
    expect(result).toMatchObject({ ok: false, refusal: expected });
    expect((result as { refusal: { param: string } }).refusal.param).toMatch(new RegExp(`^${escaped(param)}`));
    expect(ms).toBeLessThan(allowedMs(3_000));
  });
  const escaped = (text: string) => text.replaceAll(/[[\]]/g, "\\$&");

  it.each<[string, string, unknown]>([
    ["messages of text", "chat.completions", chat({ messages: many(user("x")[0], 80_000) })],
    ["parts of text", "chat.completions", chat({ messages: user(many({ type: "text", text: "x" }, 80_000)) })],
    ["messages of parts", "chat.completions", chat({ messages: many(user([{ type: "text", text: "x" }])[0], 40_000) })],
    ["input items", "responses.create", { model: "m", input: many({ type: "message", role: "user" }, 80_000) }],
    ["texts to embed", "embeddings", { model: "m", input: many("x") }],
  ])("large and right: %s pass quickly", (_, id, body) => {
    const { result, ms } = timed(() => parse(id, body));
    expect(result.ok).toBe(true);
    expect(ms).toBeLessThan(allowedMs(3_000));
  });

  it("stops at its first fault, and gives the caller's own items", () => {
    let judged = 0;
    const item = z.looseObject({ a: z.custom(() => ++judged > 0 && false, "is wrong") });
    const read = z.safeParse(list(item), many({ a: 1 }, 10));
    expect(read.error?.issues).toEqual([expect.objectContaining({ path: [0, "a"], message: "is wrong" })]);
    expect(judged).toBe(1);
    const given = { a: 1, b: 2 };
    expect(z.parse(list(z.looseObject({ a: z.number() })), [given])[0]).toBe(given);
  });

  it("stands in the document as any list does", () => {
    const schema = z.object({ names: z.nullish(list(z.string(), { least: 1, most: 3 })) });
    expect(jsonSchemaOf(schema, "input")).toMatchObject({
      properties: { names: { anyOf: [{ type: "array", items: { type: "string" }, minItems: 1, maxItems: 3 }, {}] } },
    });
  });

  it("is everywhere in the table one that stops: no list of zod's own judges its items", () => {
    const judging: string[] = [];
    const seen = new Set<unknown>();
    const walk = (schema: unknown, path: string) => {
      const def = (schema as { _zod?: { def: Record<string, unknown> } } | null)?._zod?.def;
      if (!def || seen.has(schema)) return;
      seen.add(schema);
      const element = def.element as { _zod: { def: { type: string } } } | undefined;
      if (element && !["unknown", "any"].includes(element._zod.def.type)) judging.push(path);
      for (const [name, part] of Object.entries(def)) {
        const parts = typeof part === "object" && part !== null ? Object.entries(part) : [];
        walk(part, `${path}.${name}`);
        for (const [inner, one] of parts) walk(one, `${path}.${inner}`);
      }
    };
    for (const { id, body } of ENDPOINTS) walk(body.schema, id);
    walk(z.array(z.string()), "control");
    expect(judging).toEqual(["control"]);
    expect(seen.size).toBeGreaterThan(50);
  });
});

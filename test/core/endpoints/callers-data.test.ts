/** The caller's own data is not searched, and only documented places are its own. */
import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../../src/core/endpoints/inference/chat.ts";
import { createResponse } from "../../../src/core/endpoints/inference/responses.ts";
import { judged } from "../../support/judged.ts";

/** Every keyword and refused name that a caller may use for names of its own. */
const OWN = JSON.parse(
  '{"type":"object","properties":{"api_key":{"type":"string"},"Model":{},"n":{},"image_url":{"default":"http://10.0.0.1"}},' +
    '"default":{"background":true,"MAX_TOKENS":5},"const":{"file_id":"f"},"examples":[{"models":["a"],"url":"file:///x"}],' +
    '"enum":[{"best_of":3}],"$defs":{"tools":{"type":"web_search"}},"best_of":2,"tools":[{"type":"mcp"}]}',
) as object;

describe("the caller's own data", () => {
  const CALL = (args: unknown) => ({
    role: "assistant",
    tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: args } }],
  });
  it.each<[string, Endpoint, (own: unknown) => object]>([
    ["metadata", chatCompletions, (own) => ({ metadata: own })],
    ["metadata", createResponse, (own) => ({ metadata: own })],
    ["client_metadata", createResponse, (own) => ({ client_metadata: own })],
    [
      "parameters",
      chatCompletions,
      (own) => ({ tools: [{ type: "function", function: { name: "f", parameters: own } }] }),
    ],
    ["legacy parameters", chatCompletions, (own) => ({ functions: [{ name: "f", parameters: own }] })],
    ["parameters", createResponse, (own) => ({ tools: [{ type: "function", name: "f", parameters: own }] })],
    [
      "a format's schema",
      chatCompletions,
      (own) => ({ response_format: { type: "json_schema", json_schema: { name: "f", schema: own } } }),
    ],
    [
      "a format's schema",
      createResponse,
      (own) => ({ text: { format: { type: "json_schema", name: "f", schema: own } } }),
    ],
    ["a format's value", chatCompletions, (own) => ({ response_format: { type: "json", value: own } })],
    ["json_schema", chatCompletions, (own) => ({ json_schema: own })],
    [
      "a structural tag",
      chatCompletions,
      (own) => ({
        response_format: { type: "structural_tag", structures: [{ begin: "<f>", schema: own, end: "</f>" }] },
      }),
    ],
    [
      "a structural tag's format",
      chatCompletions,
      (own) => ({ response_format: { type: "structural_tag", format: { type: "json_schema", json_schema: own } } }),
    ],
    ["guided_json", chatCompletions, (own) => ({ guided_json: own })],
    ["arguments", chatCompletions, (own) => ({ messages: [CALL(own)] })],
    [
      "arguments",
      createResponse,
      (own) => ({ input: [{ type: "function_call", call_id: "c", name: "f", arguments: own }] }),
    ],
  ])("%s is not searched, but for __proto__", (_, endpoint, place) => {
    expect(judged(endpoint, place(OWN))).toBe("taken");
    expect(judged(endpoint, place([{ a: [OWN] }]))).toBe("taken");
    expect(judged(endpoint, place(JSON.parse('{"a":[{"__proto__":1}]}')))).toContain("a[0].__proto__");
    expect(judged(endpoint, place(JSON.parse('{"__proto__":1}')))).toContain("__proto__");
  });

  it.each<[string, object]>([
    ["x.metadata.best_of", { x: { metadata: { best_of: 2 } } }],
    ["metadata_.best_of", { metadata_: { best_of: 2 } }],
    ["Metadata", { Metadata: { best_of: 2 } }],
    ["x.properties.api_key", { x: { properties: { api_key: 1 } } }],
    ["x.parameters.n", { x: { parameters: { n: 5 } } }],
    ["parameters.best_of", { parameters: { best_of: 5 } }],
    ["arguments.best_of", { arguments: { best_of: 5 } }],
    ["response_format.json_schema.best_of", { response_format: { type: "x", json_schema: { best_of: 2 } } }],
    ["tools[0].function.best_of", { tools: [{ type: "function", function: { name: "f", best_of: 2 } }] }],
    ["tools[0].parameters.best_of", { tools: [{ type: "function", parameters: { best_of: 2 } }] }],
    ["messages[0].arguments.best_of", { messages: [{ role: "user", content: "x", arguments: { best_of: 2 } }] }],
  ])("%s: no place is the caller's by its name alone", (param, fields) => {
    const place = param === "metadata_.best_of" ? "metadata_" : param;
    expect(judged(chatCompletions, fields)).toBe(place);
  });

  it("reaches the upstream as it came", () => {
    const body = {
      model: "m",
      messages: [{ role: "user", content: "hi" }, CALL(OWN)],
      metadata: OWN,
      tools: [{ type: "function", function: { name: "f", parameters: OWN } }],
    };
    const parsed = chatCompletions.parse({ askedPath: "/", params: {}, body: { kind: "json", value: body } });
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
    const sent = Buffer.concat(parsed.call.payload.encode({ model: "target" }) ?? []).toString();
    expect(JSON.parse(sent)).toEqual({ ...body, model: "target" });
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countParts as countInSteps } from "../../../src/core/meters/parts.ts";
import { toEnd } from "../../../src/core/steps.ts";

const countParts = (body: object) => toEnd(countInSteps(body));

const URL = "https://x.test/a";
const PIXEL = "data:image/png;base64,AAAA";
const image = { type: "image_url", image_url: { url: URL } };

const user = (content: unknown, beside: object = {}) => ({ messages: [{ role: "user", content, ...beside }] });
const found = (body: object) => {
  const { images, unbounded } = countParts(body);
  return { images, unbounded };
};

describe("parts that are not text", () => {
  it.each<[string, object, number]>([
    ["a chat part", user([image, { type: "text", text: "x" }]), 1],
    ["one without a type", user([{ image_url: URL }]), 1],
    ["one in a text part", user([{ type: "text", text: "x", image_url: { url: URL } }]), 1],
    ["forty", user(Array(40).fill(image)), 40],
    ["many in one part", user([{ type: "image_url", image_url: [URL, URL, URL] }]), 3],
    ["a tool's message", { messages: [{ role: "tool", content: [image, image] }] }, 2],
    ["beside the content", user("x", { images: ["AAAA", "BBBB"] }), 2],
    ["beside `content: null`", { input: [{ type: "input_image", image_url: URL, content: null }] }, 1],
    ["beside `content: null`, as a message", { input: [{ role: "user", content: null, image_url: URL }] }, 1],
    [
      "a function's output",
      {
        input: [
          { type: "function_call_output", output: Array(10).fill({ type: "input_image", image_url: PIXEL }) },
          { type: "computer_call_output", output: { type: "computer_screenshot", image_url: URL } },
        ],
      },
      11,
    ],
    ["of another maker", user([{ type: "image", source: { type: "base64", media_type: "image/png", data: "AA" } }]), 1],
    ["nested results", user([{ type: "tool_result", content: [image, { type: "tool_result", content: [image] }] }]), 2],
    ["named by something else", user([{ type: "image", ref: "stored" }, { type: "input_image" }]), 2],
    ["in camel case", user([{ imageUrl: URL }]), 1],
    ["at the top", { ...user("x"), image_url: PIXEL, images: [PIXEL] }, 2],
  ])("images: %s", (_, body, images) => {
    expect(found(body)).toEqual({ images, unbounded: 0 });
  });

  it.each<[string, object, number]>([
    ["a video", user([{ type: "video_url", video_url: { url: URL } }]), 1],
    ["a video without a type", user([{ video_url: URL }]), 1],
    ["a video as an image", user([{ type: "image_url", image_url: { url: "data:video/mp4;base64,AAAA" } }]), 1],
    ["frames", user([{ type: "video", video: [URL, URL] }]), 2],
    ["sound", user([{ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }]), 1],
    ["a file", { input: [{ role: "user", content: [{ type: "input_file", filename: "a.pdf", file_data: "AA" }] }] }, 1],
    ["a type that nobody knows", user([{ type: "hologram" }, { type: "hologram", ref: "x" }]), 2],
    ["a URL in a field that nobody knows", user("x", { attached: URL, more: ["file:///a"] }), 2],
    ["an image in a video", user([{ type: "video", content: [image] }]), 1],
  ])("of unknown length: %s", (_, body, unbounded) => {
    expect(found(body)).toEqual({ images: 0, unbounded });
  });

  it.each<[string, object]>([
    ["texts, whatever they say", user(`${PIXEL} ${URL}`)],
    ["a text that is a data URL", user([{ type: "text", text: PIXEL }])],
    ["what a client says of itself", { client_metadata: { "x-turn-metadata": "{}", source: URL } }],
    ["the caller's own data", user("x", { metadata: { image_url: URL, source: "web" }, name: "a", id: "b" })],
    [
      "tool calls and their results",
      {
        messages: [
          { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: URL } }] },
          { role: "tool", tool_call_id: "1", content: `{"image_url":"${URL}"}` },
        ],
        input: [
          { type: "function_call", name: "f", call_id: "1", arguments: `{"url":"${URL}"}` },
          { type: "function_call_output", call_id: "1", output: URL },
          { type: "reasoning", summary: [{ type: "summary_text", text: "x" }], encrypted_content: "AAAA" },
          { type: "message", role: "assistant", content: [{ type: "output_text", text: "x", annotations: [] }] },
        ],
      },
    ],
    [
      "what a router tells of its thoughts",
      {
        messages: [
          {
            role: "assistant",
            content: "x",
            reasoning_details: [
              { type: "reasoning.text", text: "hm", format: "unknown", index: 0, signature: null },
              { type: "reasoning.summary", summary: "hm" },
            ],
          },
        ],
      },
    ],
    [
      "schemas and settings",
      {
        ...user([{ type: "text", text: "x", cache_control: { type: "ephemeral" } }]),
        tools: [
          { type: "function", function: { name: "f", parameters: { properties: { image_url: { type: "s" } } } } },
        ],
        response_format: { type: "json_schema", json_schema: { schema: { properties: { video: {} } } } },
        user: URL,
        stop: [URL],
        stop_sequences: [URL],
        guided_choice: [URL],
        stream_options: { include_usage: true },
        modalities: ["text", "audio"],
        audio: { voice: "alloy", format: "wav" },
        prediction: { type: "content", content: "x" },
        metadata: { image_url: URL },
      },
    ],
  ])("none: %s", (_, body) => {
    expect(found(body)).toEqual({ images: 0, unbounded: 0 });
  });

  it("are found wherever they stand, once each", () => {
    const place = fc.letrec<{ node: unknown; tree: unknown }>((tie) => ({
      node: fc.oneof({ maxDepth: 6 }, fc.constant(image), tie("tree")),
      tree: fc.oneof(
        fc.array(tie("node"), { maxLength: 4 }),
        fc.record({ role: fc.constant("user"), content: tie("node") }),
        fc.record({ type: fc.constant("function_call_output"), output: tie("node") }),
        fc.record({ type: fc.constant("message"), content: fc.constant(null), extra: tie("node") }),
        fc.record({ some: tie("node"), other: tie("node") }),
      ),
    })).tree;
    fc.assert(
      fc.property(place, (content) => {
        const written = JSON.stringify(content).split('"image_url":').length - 1;
        expect(found({ messages: [{ role: "user", content }] })).toEqual({ images: written, unbounded: 0 });
      }),
    );
  });

  it("take the bytes of their data URLs from the text, and of no other string", () => {
    const bytes = (body: object) => countParts(body).dataUrlBytes;
    expect(bytes(user([{ type: "image_url", image_url: { url: PIXEL } }]))).toBe(PIXEL.length);
    expect(bytes({ input: [{ type: "input_image", image_url: PIXEL }] })).toBe(PIXEL.length);
    expect(bytes(user([{ type: "image_url", image_url: { url: "data:image/png;base64,not base64 but words" } }]))).toBe(
      0,
    );
    expect(bytes(user([PIXEL, { type: "text", text: PIXEL }], { attached: PIXEL }))).toBe(0);
  });
});

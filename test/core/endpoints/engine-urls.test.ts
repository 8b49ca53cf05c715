/** What an engine would fetch, and what the operator's account has stored: neither is a tenant's to name. */
import { describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { chatCompletions } from "../../../src/core/endpoints/inference/chat.ts";
import { embeddings } from "../../../src/core/endpoints/inference/embeddings.ts";
import { imageEdits, imageGenerations } from "../../../src/core/endpoints/inference/images.ts";
import { createResponse } from "../../../src/core/endpoints/inference/responses.ts";
import { speech } from "../../../src/core/endpoints/inference/speech.ts";
import { transcription } from "../../../src/core/endpoints/inference/transcription.ts";
import { videoGenerations } from "../../../src/core/endpoints/inference/video.ts";
import { judged, judgedForm } from "../../support/judged.ts";

const INSIDE = [
  "http://media.example/a.png",
  "https://127.0.0.1/",
  "https://169.254.169.254/latest/meta-data/",
  "https://metadata.google.internal/",
  "https://localhost/",
  "https://localhost./",
  "https://metadata.goog/",
  "https://metadata.google.inter\u034fnal/",
  "https://127.0.0.1\ufe0f/",
  "https://127\u30020\u30020\u30021/",
  "https://vault.default.svc/",
  "https://168.63.129.16/",
  `https://${"a.".repeat(200)}example/`,
  "https://2130706433/",
  "https://0x7f000001/",
  "https://[::1]/",
  "https://[::ffff:a9fe:a9fe]/",
  "https://10.0.0.1\uff0e/",
  "https://user:secret@media.example/",
  "file:///etc/passwd",
  "FILE:/etc/passwd",
  "ftp://media.example/a",
  "s3://bucket/key",
  "gs://bucket/key",
  " https://media.example/a.png",
  "\thttp://10.0.0.1/",
];
const OUTSIDE = ["https://media.example/a.png", "https://8.8.8.8/a.png", "data:image/png;base64,aGk=", ""];

const part = (fields: object) => ({ messages: [{ role: "user", content: [fields] }] });
const item = (fields: object) => ({ input: [{ role: "user", content: [fields] }] });
const PLACES: [string, Endpoint, (url: string) => object, string][] = [
  [
    "a video part",
    chatCompletions,
    (url) => part({ type: "video_url", video_url: { url } }),
    "messages[0].content[0].video_url.url",
  ],
  [
    "an audio part",
    chatCompletions,
    (url) => part({ type: "audio_url", audio_url: { url } }),
    "messages[0].content[0].audio_url.url",
  ],
  [
    "a part that is a URL itself",
    chatCompletions,
    (url) => part({ type: "x", image_url: url }),
    "messages[0].content[0].image_url",
  ],
  [
    "audio data",
    chatCompletions,
    (data) => part({ type: "input_audio", input_audio: { data } }),
    "messages[0].content[0].input_audio.data",
  ],
  [
    "a file",
    chatCompletions,
    (file_data) => part({ type: "file", file: { file_data } }),
    "messages[0].content[0].file.file_data",
  ],
  ["an image by its name", chatCompletions, (image) => part({ type: "image", image }), "messages[0].content[0].image"],
  [
    "frames of a video",
    chatCompletions,
    (url) => part({ type: "video", video: ["", url] }),
    "messages[0].content[0].video[1]",
  ],
  [
    "an image",
    createResponse,
    (image_url) => item({ type: "input_image", image_url }),
    "input[0].content[0].image_url",
  ],
  ["a file", createResponse, (file_url) => item({ type: "input_file", file_url }), "input[0].content[0].file_url"],
  [
    "a tool's output",
    createResponse,
    (image_url) => ({
      input: [{ type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url }] }],
    }),
    "input[0].output[0].image_url",
  ],
  ["an unknown field", imageGenerations, (url) => ({ x: { control_image_URL: url } }), "x.control_image_URL"],
  ["an unknown list", embeddings, (url) => ({ imageUrls: ["https://a.example/", url] }), "imageUrls[1]"],
  ["a voice to copy", speech, (ref_audio) => ({ ref_audio }), "ref_audio"],
  ["a URI", chatCompletions, (uri) => ({ x: { fileData: { fileUri: uri } } }), "x.fileData.fileUri"],
  ...[
    "src",
    "source",
    "link",
    "location",
    "document",
    "pdf",
    "b64_json",
    "image_embeds",
    "thumbnail",
    "clip",
    "remote",
  ].map((name): [string, Endpoint, (url: string) => object, string] => [
    `a field of no list, ${name},`,
    chatCompletions,
    (url) => part({ type: "x", [name]: { value: ["", url] } }),
    `messages[0].content[0].${name}.value[1]`,
  ]),
  ["a server", chatCompletions, (proxy) => ({ proxy }), "proxy"],
  ["a first frame", imageGenerations, (url) => ({ first_frame: url }), "first_frame"],
];

describe("a URL that an engine would fetch", () => {
  it.each(PLACES)("as %s of $id is https with a public host, or data", (_, endpoint, place, param) => {
    for (const url of INSIDE) {
      // What only may be media is judged where it is an address.
      expect([url, judged(endpoint, place(url))]).toEqual([url, param]);
    }
    for (const url of OUTSIDE) expect([url, judged(endpoint, place(url))]).toEqual([url, "taken"]);
    expect(judged(endpoint, { metadata: place(INSIDE[0] as string) })).toBe("taken");
  });

  it("as an image of a chat is https with a public host, or data of an image", () => {
    const image = (url: string) => part({ type: "image_url", image_url: { url, detail: "low" } });
    for (const url of [...INSIDE, ""]) expect(judged(chatCompletions, image(url))).toContain("image_url.url");
    for (const url of OUTSIDE.slice(0, 3)) expect(judged(chatCompletions, image(url))).toBe("taken");
  });

  it("as a video's reference keeps the rules of references: no data", () => {
    for (const url of [...INSIDE, "data:image/png;base64,aGk="]) {
      expect(judged(videoGenerations, { reference_image_urls: [url] })).toBe("reference_image_urls[0]");
    }
  });

  it.each(INSIDE)("as a form's field: %s", (url) => {
    expect(judgedForm(imageEdits, "mask_url", url)).toBe("mask_url");
    expect(judgedForm(imageEdits, "x[url]", url)).toBe("x[url]");
    expect(judgedForm(imageEdits, "mask", url)).toBe("mask");
    expect(judgedForm(imageEdits, "style", url)).toBe("style");
    expect(judgedForm(imageEdits, "negative_prompt", url)).toBe("taken");
  });

  it("stands beside no recording: what is charged is the file's length", () => {
    expect(judgedForm(transcription, "url", "https://media.example/long.wav")).toBe("url");
    expect(judgedForm(transcription, "file_url", "https://media.example/long.wav")).toBe("file_url");
    expect(judgedForm(transcription, "source", "https://media.example/long.wav")).toBe("source");
    expect(judgedForm(transcription, "x[source]", " HTTPS:media.example/long.wav")).toBe("x[source]");
    expect(judgedForm(transcription, "prompt", "https://media.example/long.wav")).toBe("taken");
  });

  it("is no path of the engine's machine; base64 is neither", () => {
    for (const path of ["/etc/passwd", "../a.png", "./a.png", "~/a.png", "C:\\a.png"]) {
      expect(judged(chatCompletions, { image: path })).toBe("image");
    }
    for (const name of ["path", "src", "image_path", "thumbnail"]) {
      const at = `messages[0].content[0].${name}`;
      expect(judged(chatCompletions, part({ type: "image", [name]: "/etc/passwd" }))).toBe(at);
      expect(judged(chatCompletions, part({ type: "image", text: "/me waves", filename: "/home/me/a.png" }))).toBe(
        "taken",
      );
    }
    for (const base64 of ["/9j/4AAQSkZJRg==", "//uQxAAAAAAA", "iVBORw0KGgo=", "UklGRg==", "//NkxAAA"]) {
      expect(judged(chatCompletions, { image: base64 })).toBe("taken");
    }
  });

  it("is not looked for in text", () => {
    const text = "see http://10.0.0.1/ and file:///etc/passwd";
    const message = { role: "user", content: [{ type: "text", text }], name: "http://localhost" };
    expect(judged(chatCompletions, { messages: [message], stop: ["http://localhost"] })).toBe("taken");
    expect(judged(createResponse, { input: text, instructions: text })).toBe("taken");
    expect(judged(embeddings, { input: [text, "http://localhost"] })).toBe("taken");
    const words = { guided_choice: ["http://localhost"], stop_sequences: ["http://"], guided_regex: "http://.*" };
    expect(judged(chatCompletions, words)).toBe("taken");
    const tool = { type: "function", function: { name: "f", description: "http://localhost" } };
    expect(judged(chatCompletions, { tools: [tool] })).toBe("taken");
    const patch = {
      type: "apply_patch_call",
      call_id: "c",
      operation: { type: "update_file", path: "/a/b.ts", diff: "x" },
    };
    expect(judged(createResponse, { input: [patch] })).toBe("taken");
  });
});

describe("stored objects of the operator's account", () => {
  it.each<[Endpoint, object, string]>([
    [createResponse, { input: [{ id: "msg_1" }] }, "input[0]"],
    [createResponse, { input: [{ id: "msg_1", type: null }] }, "input[0]"],
    [createResponse, { input: [{ ID: "msg_1" }] }, "input[0]"],
    [
      createResponse,
      {
        input: [
          { role: "user", content: "x" },
          { id: "msg_1", type: "message" },
        ],
      },
      "input[1]",
    ],
    [createResponse, { input: [{ id: "rs_1", type: "reasoning", summary: [] }] }, "input[0]"],
    [createResponse, { input: [{ id: "ig_1", type: "image_generation_call", result: null }] }, "input[0]"],
    [createResponse, { input: [{ id: "msg_1", type: "message", role: "assistant", content: [] }] }, "input[0]"],
    [createResponse, { input: [{ id: "x", type: "Item-Reference" }] }, "input[0]"],
    [createResponse, { input: [{ id: "msg_1", note: "x" }] }, "input[0]"],
    [createResponse, { input: [{ id: "msg_1", type: "message", content: {} }] }, "input[0]"],
    [createResponse, { input: [{ id: "msg_1", type: "message", content: [{}, [null]] }] }, "input[0]"],
    [createResponse, { input: [{ id: "ig_1", type: "image_generation_call", result: {}, x: 1 }] }, "input[0]"],
    [createResponse, item({ type: "item_reference", id: "msg_1" }), "input[0].content[0].type"],
    [createResponse, item({ type: "input_file", file_id: "file_1" }), "input[0].content[0].file_id"],
    [createResponse, item({ type: "input_image", file_ids: ["file_1"] }), "input[0].content[0].file_ids"],
    [createResponse, { prompt: { id: "pmpt_1", variables: {} } }, "prompt.id"],
    [createResponse, { x: { prompt: { Id: "pmpt_1" } } }, "x.prompt.Id"],
    [createResponse, { conversation: { id: "conv_1" } }, "conversation"],
    [createResponse, { x: { previous_response_id: "resp_1" } }, "x.previous_response_id"],
    [createResponse, { tool_resources: { file_search: { vector_store_ids: ["vs_1"] } } }, "tool_resources"],
    [createResponse, { container: "cntr_1" }, "container"],
    [chatCompletions, { messages: [{ role: "assistant", audio: { id: "audio_1" } }] }, "messages[0].audio.id"],
    [chatCompletions, part({ type: "file", file: { file_id: "file_1" } }), "messages[0].content[0].file.file_id"],
    [chatCompletions, part({ type: "file", file: { id: "file_1" } }), "messages[0].content[0].file.id"],
    [chatCompletions, part({ type: "x", image: [{ id: "file_1" }] }), "messages[0].content[0].image[0].id"],
    [chatCompletions, { audio: { voice: { id: "voice_1" } } }, "audio.voice.id"],
    [chatCompletions, { vector_store_ids: ["vs_1"] }, "vector_store_ids"],
  ])("%# $id: %j -> %s", (endpoint, fields, param) => {
    expect(judged(endpoint, fields)).toBe(param);
  });

  it("items that say what they mean keep their ids", () => {
    const input = [
      {
        id: "msg_1",
        type: "message",
        role: "assistant",
        content: [{ type: "output_text", text: "x", annotations: [] }],
      },
      { id: "fc_1", type: "function_call", call_id: "call_1", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "call_1", output: "x", id: null },
      { id: "rs_1", type: "reasoning", summary: [{ type: "summary_text", text: "x" }] },
      { role: "user", content: "x" },
    ];
    expect(judged(createResponse, { input })).toBe("taken");
  });
});

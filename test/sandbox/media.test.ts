import { expect, test } from "vitest";
import { encodeAudio } from "../../sandbox/audio/encode.ts";
import { measureMs } from "../../sandbox/audio/measure.ts";
import { ascii, bigEndian, concat } from "../../sandbox/bytes.ts";
import { advance, BASE, call, json, post, rowOf } from "../support/worker/sandbox-client.ts";
import { SILENCE } from "../support/worker/silence.ts";

const bytesOf = async (answer: Promise<Response> | Response) => new Uint8Array(await (await answer).arrayBuffer());
const unbase64 = (text: string) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
const audio = (format: "wav" | "mp3" | "opus", ms: number, streamed = false) =>
  concat([...encodeAudio(format, ms, streamed)].map(({ bytes }) => bytes));

function form(fields: Record<string, string | Uint8Array<ArrayBuffer>>, path: string, headers = {}, key?: string) {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string") data.set(name, value);
    else data.set(name, new File([value], `${name}.bin`));
  }
  return call(path, { method: "POST", body: data, headers }, key);
}

/** Width, height and the lines of a one bit png. */
async function readPng(bytes: Uint8Array<ArrayBuffer>) {
  const view = new DataView(bytes.buffer);
  const data: Uint8Array[] = [];
  for (let at = 8; at < bytes.length; at += 12 + view.getUint32(at)) {
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (type === "IDAT") data.push(bytes.slice(at + 8, at + 8 + view.getUint32(at)));
  }
  const lines = new Response(concat(data)).body!.pipeThrough(new DecompressionStream("deflate"));
  return { width: view.getUint32(16), height: view.getUint32(20), raw: await bytesOf(new Response(lines)) };
}

const picture = (extra: object, id = "picture") =>
  post("/v1/images/generations", { model: "image-turbo", prompt: "a gate", ...extra }, { "x-request-id": id });

test.each(["512x512", "768x768", "1024x1024", "1024x768", "768x1024"])(
  "a picture of %s is a png of that size",
  async (size) => {
    const { data, created } = await json(picture({ size }, size));
    expect(created).toBeGreaterThan(0);
    expect(data[0].revised_prompt).toBe(null);
    const { width, height, raw } = await readPng(unbase64(data[0].b64_json));
    expect(`${width}x${height}`).toBe(size);
    expect(raw).toHaveLength(height * (1 + Math.ceil(width / 8)));
    expect((await rowOf(size)).usage).toEqual({ images: 1 });
  },
);

test("the same prompt and seed make the same picture; a link serves it without a key for 24 h", async () => {
  const { data } = await json(picture({ response_format: "url", seed: 4 }));
  const same = await json(picture({ seed: 4 }));
  const other = await json(picture({ seed: 5 }));
  expect(other.data[0].b64_json).not.toBe(same.data[0].b64_json);
  const path = data[0].url.replace(BASE, "");
  await advance(24 * 3_600_000 - 60_000);
  expect(await bytesOf(call(path, {}, ""))).toEqual(unbase64(same.data[0].b64_json));
  await advance(60_000);
  expect((await call(path, {}, "")).status).toBe(404);
});

test.each([{ n: 2 }, { size: "640x480" }, { prompt: "" }, { response_format: "jpeg" }, { model: "image-edit" }])(
  "a picture with %o is 400",
  async (extra) => {
    await json(picture(extra), 400);
  },
);

test("an edit takes a form and an edit-capable model", async () => {
  const fields = { model: "image-edit", prompt: "bluer", image: new Uint8Array(10), size: "512x512" };
  const { data } = await json(form(fields, "/v1/images/edits"));
  expect((await readPng(unbase64(data[0].b64_json))).width).toBe(512);
  await json(form({ ...fields, model: "image-turbo" }, "/v1/images/edits"), 400);
  await json(form({ model: "image-edit", prompt: "bluer" }, "/v1/images/edits"), 400);
  await json(post("/v1/images/edits", {}), 400);
});

const say = (extra: object, id = "say") =>
  post(
    "/v1/audio/speech",
    { model: "tts-fast", voice: "af_heart", input: "x".repeat(100), ...extra },
    { "x-request-id": id },
  );

test.each([
  ["wav", "audio/wav", 6_000],
  ["mp3", "audio/mpeg", 6_000],
  ["opus", "audio/ogg", 6_000],
] as const)("speech as %s lasts 0.06 s a character, whole and streamed", async (response_format, type, ms) => {
  for (const stream of [false, true]) {
    const response = await say({ response_format, stream }, `${response_format}-${stream}`);
    expect(response.headers.get("content-type")).toBe(type);
    expect(measureMs(await bytesOf(response))).toBe(ms);
    const row = await rowOf(`${response_format}-${stream}`);
    expect(row.usage).toEqual({ audio_seconds: ms / 1000 });
    expect(row.frames_sent > 3).toBe(stream);
  }
});

test("speed shortens; mp3 rounds up to frames and says so in the log", async () => {
  expect(measureMs(await bytesOf(say({ response_format: "wav", speed: 2 })))).toBe(3_000);
  expect(measureMs(await bytesOf(say({ input: "hello", speed: 1 }, "hello")))).toBe(312);
  expect((await rowOf("hello")).usage).toEqual({ audio_seconds: 0.312 });
});

test("a client that leaves speech is logged with the seconds that were sent", async () => {
  const response = await say({ response_format: "wav", stream: true, sandbox_frame_delay_ms: 20 }, "left-speech");
  const reader = response.body!.getReader();
  for (let read = 0; read < 4; read++) await reader.read();
  await reader.cancel();
  const row = await rowOf("left-speech");
  expect(row.closed_early).toBe(true);
  expect(row.usage?.audio_seconds).toBe((row.frames_sent - 1) * 0.25);
});

test.each([
  { speed: 0.49 },
  { speed: 2.1 },
  { voice: "alloy" },
  { input: "x".repeat(4001) },
  { response_format: "aac" },
  { input: "" },
])("speech with %o is 400", async (extra) => {
  await json(say(extra), 400);
});

test("speech takes 4000 characters and speeds of 0.5 and 2", async () => {
  expect((await say({ input: "x".repeat(4000), speed: 2 })).status).toBe(200);
  expect((await say({ speed: 0.5 })).status).toBe(200);
});

test("a clone speaks its text, an edit lasts as its source and what the text grew; both name their inference", async () => {
  const clone = { model: "voice-1", input: "x".repeat(50), reference_audio: audio("wav", 1_000) };
  const cloned = await form(clone, "/v1/audio/voice-clone");
  expect(cloned.headers.get("inference-id")).toMatch(/^inf_/);
  expect(measureMs(await bytesOf(cloned))).toBe(3_000);
  const edit = {
    model: "voice-1",
    original_text: "one two",
    edited_text: "one two three",
    source_audio: audio("mp3", 2_400),
  };
  const edited = await form(edit, "/v1/audio/text-local-edit", { "x-request-id": "edit" });
  expect(measureMs(await bytesOf(edited))).toBe(2_400 + 6 * 60);
  expect((await rowOf("edit")).usage).toEqual({ audio_seconds: 2.76 });
  await json(form(clone, "/v1/audio/voice-clone", {}, "sandbox-other-key"), 403);
  await json(form({ ...clone, model: "tts-fast" }, "/v1/audio/voice-clone"), 400);
  await json(form({ ...clone, reference_audio: new Uint8Array(9) }, "/v1/audio/voice-clone"), 400);
});

const transcribe = (fields: Record<string, string | Uint8Array<ArrayBuffer>>, id = "stt") =>
  form({ model: "stt-large", file: audio("wav", 12_000), ...fields }, "/v1/audio/transcriptions", {
    "x-request-id": id,
  });

test("a transcript follows from the file, in each format, and is logged by its real length", async () => {
  const { text } = await json(transcribe({}, "heard"));
  expect((await rowOf("heard")).usage).toEqual({ transcribed_seconds: 12 });
  expect(await (await transcribe({ response_format: "text" })).text()).toBe(`${text}\n`);
  expect((await json(transcribe({ file: audio("wav", 11_000) }))).text).not.toBe(text);
  const verbose = await json(transcribe({ response_format: "verbose_json", language: "de" }));
  expect(verbose).toMatchObject({ task: "transcribe", language: "de", duration: 12, text });
  expect(verbose.segments.map(({ start, end }: { start: number; end: number }) => [start, end])).toEqual([
    [0, 5],
    [5, 10],
    [10, 12],
  ]);
  expect(await (await transcribe({ response_format: "srt" })).text()).toMatch(/^1\n00:00:00,000 --> 00:00:05,000\n/);
  const vtt = await transcribe({ response_format: "vtt" });
  expect(vtt.headers.get("content-type")).toContain("text/vtt");
  expect(await vtt.text()).toMatch(/^WEBVTT\n\n00:00:00.000 --> /);
});

test("a file of no audio format, a wrong response format, half an hour and a ms are 400", async () => {
  await json(transcribe({ file: ascii("not audio at all") }), 400);
  await json(transcribe({ response_format: "xml" }), 400);
  expect((await transcribe({ file: audio("mp3", 1_800_000) })).status).toBe(200);
  await json(transcribe({ file: audio("mp3", 1_800_024) }), 400);
});

test("lengths come from what is there, not from what a header claims", () => {
  expect(measureMs(audio("wav", 60_000, true))).toBe(60_000);
  const lying = audio("wav", 60_000);
  new DataView(lying.buffer).setUint32(40, 48_000, true);
  expect(measureMs(lying)).toBe(60_000);
  expect(measureMs(audio("opus", 1_000))).toBe(1_000);
  expect(measureMs(m4a({ claimed: 1, real: 60 }))).toBe(60_000);
  expect(measureMs(new Uint8Array(3))).toBe(undefined);
});

test.each(Object.entries(SILENCE))("the %s of a common encoder is measured within its padding", (_, base64) => {
  const ms = measureMs(unbase64(base64)) ?? 0;
  expect(ms).toBeGreaterThanOrEqual(3_000);
  expect(ms).toBeLessThan(3_150);
});

/** An m4a's boxes without its sound: the header claims one length, the sample table has another (seconds). */
function m4a({ claimed, real }: { claimed: number; real: number }) {
  const box = (type: string, ...body: Uint8Array[]) => {
    const inner = concat(body);
    return concat([bigEndian(4, inner.length + 8), ascii(type), inner]);
  };
  const mdhd = box("mdhd", bigEndian(4, 0, 0, 0, 48_000, claimed * 48_000, 0));
  const stts = box("stts", bigEndian(4, 0, 1, (real * 48_000) / 1_000, 1_000));
  return concat([
    box("ftyp", ascii("M4A "), bigEndian(4, 0)),
    box("moov", box("trak", box("mdia", mdhd, box("minf", box("stbl", stts))))),
  ]);
}

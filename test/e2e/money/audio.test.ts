/**
 * Audio through the real process, by the SDK where it has a method: what is charged is what the service really made or
 * heard.
 */
import { toFile } from "openai";
import { beforeAll, expect, test } from "vitest";
import { recordingLengthMs } from "../../../src/core/formats/audio/recording.ts";
import { mp3Frames, wav, xingFrame } from "../../support/audio.ts";
import { m4a } from "../../support/audio-containers.ts";
import { eventually } from "../../support/eventually.ts";
import { openaiOf } from "../../support/openai.ts";
import type { Execution } from "../../support/sandbox.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
const SECOND_USD = 0.001;
const MODELS = { "tts-multilingual": "speech", "voice-1": "voice", "stt-large": "transcription" } as const;
const [TTS, VOICE, STT] = Object.keys(MODELS) as [string, string, string];

beforeAll(async () => {
  for (const [model, kind] of Object.entries(MODELS)) {
    const unit = kind === "transcription" ? "transcribed_seconds" : "audio_seconds";
    const prices = { [unit]: { cost_usd: SECOND_USD / 2, price_usd: SECOND_USD } };
    await operator.call("PUT", `/models/${model}`, { kind, prices, upstream: "sandbox" });
  }
});

type Used = Execution & { usage: Record<string, number> | null };

/** What the tenant was charged, in seconds, and what the service's log says of the same calls. */
async function seconds(tenant: Tenant, count: number): Promise<{ charged: number[]; used: number[] }> {
  const charges = await eventually("the charges", async () => {
    const found = await tenant.charges();
    return found.length >= count && found;
  });
  const log = (await operator.sandbox.executions(TTS, VOICE, STT)) as Used[];
  const usedBy = (id: string | null) => log.find(({ request_id }) => request_id === id)?.usage ?? {};
  return {
    charged: charges.map(({ amount_usd }) => Math.round(-amount_usd / (SECOND_USD / 1000)) / 1000),
    used: charges.map(({ call_id }) => Object.values(usedBy(call_id))[0] ?? Number.NaN),
  };
}

const formOf = (fields: Record<string, string | Uint8Array<ArrayBuffer>>): FormData => {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string") form.set(name, value);
    else form.set(name, new File([value], "a.bin"));
  }
  return form;
};

test("speech by the SDK in every format, whole and streamed, is charged as it was made", async () => {
  const tenant = await operator.tenant();
  for (const response_format of ["mp3", "wav", "opus"] as const) {
    for (const stream of [false, true]) {
      const response = await openaiOf(tenant).audio.speech.create({
        model: TTS,
        voice: "any",
        input: "x".repeat(101),
        response_format,
        speed: 0.9,
        stream,
      } as never);
      const type = { mp3: "audio/mpeg", wav: "audio/wav", opus: "audio/ogg" }[response_format];
      expect(response.headers.get("content-type")).toBe(type);
      expect(recordingLengthMs(new Uint8Array(await response.arrayBuffer()))).toBeGreaterThan(6_700);
    }
  }
  const { charged, used } = await seconds(tenant, 6);
  expect(charged).toHaveLength(6);
  expect(charged).toEqual(used);
  expect(await tenant.audit()).toMatchObject({ ok: true, open_holds: 0, overrun_usd: 0 });
});

test("a stream of speech that its client leaves costs no more than was made", async () => {
  const tenant = await operator.tenant();
  const response = await tenant.fetch("/v1/audio/speech", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...{ model: TTS, voice: "v", input: "x".repeat(2_000), response_format: "wav", stream: true },
      sandbox_frame_delay_ms: 20,
    }),
  });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  for (let piece = 0; piece < 4; piece++) await reader.read();
  await reader.cancel();
  const { charged } = await seconds(tenant, 1);
  expect(charged[0]).toBeGreaterThan(0.2);
  expect(charged[0]).toBeLessThan(60);
});

test("a clone and an edit carry their inference id and are charged as they were made", async () => {
  const tenant = await operator.tenant();
  const post = (path: string, body: FormData) => tenant.fetch(path, { method: "POST", body });
  const clone = await post(
    "/v1/audio/voice-clone",
    formOf({ reference_audio: wav({ ms: 500 }), input: "x".repeat(50), model: VOICE }),
  );
  expect(clone.status).toBe(200);
  expect(clone.headers.get("inference-id")).toMatch(/^inf_/);
  expect(recordingLengthMs(new Uint8Array(await clone.arrayBuffer()))).toBe(3_000);
  const edit = await post(
    "/v1/audio/text-local-edit",
    formOf({
      ...{ model: VOICE, original_text: "one", edited_text: "one two", num_steps: "32" },
      source_audio: mp3Frames("mpeg2", 100),
    }),
  );
  expect(recordingLengthMs(new Uint8Array(await edit.arrayBuffer()))).toBe(2_640);
  expect(await seconds(tenant, 2)).toEqual({ charged: [3, 2.64], used: [3, 2.64] });
});

test("a key that may not call the model is 403", async () => {
  const tenant = await operator.tenant({}, { models: ["llama-7b"] });
  const body = formOf({ reference_audio: wav({ ms: 500 }), input: "hi", model: VOICE });
  const response = await tenant.fetch("/v1/audio/voice-clone", { method: "POST", body });
  expect(response.status).toBe(403);
  expect(await response.json()).toMatchObject({ error: { code: "model_not_allowed" } });
});

test("files whose headers claim a second are charged by their minute, as the service hears it", async () => {
  const tenant = await operator.tenant();
  const files: [string, Uint8Array<ArrayBuffer>][] = [
    ["a.wav", wav({ ms: 60_000, claimedBytes: 48_000 })],
    ["a.mp3", new Uint8Array([...xingFrame(38), ...mp3Frames("mpeg2", 2_500)])],
    ["a.m4a", m4a({ frames: 2_813, claimedSeconds: 1 })],
  ];
  for (const [name, bytes] of files) {
    const { text } = await openaiOf(tenant).audio.transcriptions.create({
      model: STT,
      file: await toFile(bytes, name),
    });
    expect(text.length).toBeGreaterThan(100);
  }
  const { charged, used } = await seconds(tenant, 3);
  expect(charged).toEqual([60, 60, 60.011]);
  expect(charged).toEqual(used);
});

test("a transcript comes in each format, at the same charge", async () => {
  const tenant = await operator.tenant();
  const create = async (response_format: "json" | "text" | "srt" | "vtt" | "verbose_json") =>
    openaiOf(tenant).audio.transcriptions.create({
      model: STT,
      file: await toFile(wav({ ms: 7_000 }), "a.wav"),
      response_format,
    });
  const json = (await create("json")) as { text: string };
  expect(await create("text")).toBe(`${json.text}\n`);
  expect(await create("srt")).toMatch(/^1\n00:00:00,000 --> /);
  expect(await create("vtt")).toMatch(/^WEBVTT/);
  expect(await create("verbose_json")).toMatchObject({ task: "transcribe", duration: 7, text: json.text });
  expect(await seconds(tenant, 5)).toEqual({ charged: [7, 7, 7, 7, 7], used: [7, 7, 7, 7, 7] });
});

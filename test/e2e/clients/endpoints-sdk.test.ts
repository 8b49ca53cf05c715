/**
 * Each endpoint through the real process, by the `openai` SDK where it has a method: it answers as the service does,
 * and costs the price book times what the service's log says.
 */
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toFile } from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { recordingLengthMs } from "../../../src/core/formats/audio/recording.ts";
import { wav } from "../../support/audio.ts";
import { openaiOf } from "../../support/openai.ts";
import {
  ask,
  billOf,
  callIdOf,
  callOf,
  executionsOf,
  FORM_CALLS,
  instanceFor,
  type Names,
  owedNanoUsd,
  serviceFor,
} from "../../support/service.ts";
import type { Tenant } from "../../support/tenant.ts";
import { world } from "../../support/world.ts";

const { operator } = world();
let tenant: Tenant;
let names: Names;
let dir: string;

beforeAll(async () => {
  tenant = await operator.tenant({ balance_usd: 10 });
  names = await serviceFor(operator, tenant);
  dir = mkdtempSync(join(tmpdir(), "tollgate-files-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Charged once, for what was executed once. Gives what the log says was used. */
async function expectBilled(response: Pick<Response, "headers">): Promise<Readonly<Record<string, number>>> {
  const { chargedNanoUsd, executions } = await billOf(tenant, callIdOf(response));
  expect(executions).toHaveLength(1);
  const usage = executions[0]?.usage ?? {};
  expect(chargedNanoUsd).toBe(owedNanoUsd(usage));
  expect(chargedNanoUsd).toBeGreaterThan(0);
  return usage;
}

describe("responses", () => {
  test("are made as JSON, continued, retrieved and cancelled; only turns cost", async () => {
    const { responses } = openaiOf(tenant);
    const first = await responses.create({ model: names.chat, input: "Remember: blue." }).withResponse();
    expect(first.data).toMatchObject({ id: expect.stringMatching(/^resp_/), object: "response", status: "completed" });
    expect(first.data.output_text.length).toBeGreaterThan(10);
    expect(first.response.headers.get("x-service-region")).toMatch(/^(us-east-1|eu-west-1)$/);
    await expectBilled(first.response);

    const continued = { model: names.chat, input: "Which colour?", previous_response_id: first.data.id };
    const second = await responses
      .create({ ...continued, instructions: "Be short.", max_output_tokens: 20 })
      .withResponse();
    const usage = await expectBilled(second.response);
    expect(usage.cached_input_tokens).toBe(first.data.usage?.total_tokens);
    expect(second.data.usage?.input_tokens_details.cached_tokens).toBe(usage.cached_input_tokens);
    expect(second.data.usage?.output_tokens).toBe(20);

    const read = await responses.retrieve(second.data.id).withResponse();
    expect(read.data.output_text).toBe(second.data.output_text);
    const cancelled = await responses.cancel(first.data.id).withResponse();
    expect(cancelled.data.id).toBe(first.data.id);
    for (const { response } of [read, cancelled]) expect(await executionsOf(tenant, callIdOf(response))).toEqual([]);
    expect((await tenant.charges()).length).toBe(2);
  });

  test("are streamed with the contract's events, and their id works from the first event on", async () => {
    const { responses } = openaiOf(tenant);
    const body = { model: names.chat, input: "Hi", sandbox_output_tokens: 12, sandbox_frame_delay_ms: 40 };
    const { data: stream, response } = await responses.create({ ...body, stream: true }).withResponse();
    const types: string[] = [];
    let text = "";
    let midStream: string | undefined;
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === "response.created") midStream = (await responses.retrieve(event.response.id)).status;
      if (event.type === "response.output_text.delta") text += event.delta;
      if (event.type === "response.completed") {
        expect(event.response).toMatchObject({ output: [{ content: [{ text }] }] });
      }
    }
    expect(midStream).toBe("in_progress");
    expect([types[0], types.at(-1)]).toEqual(["response.created", "response.completed"]);
    expect(types.filter((type) => type === "response.output_text.delta")).toHaveLength(12);
    expect((await expectBilled(response)).output_tokens).toBe(12);
  });
});

describe("images", () => {
  test("are generated as base64 of the size asked for, and as a link", async () => {
    const { images } = openaiOf(tenant);
    const made = await images
      .generate({ model: names.image, prompt: "a cat", size: "512x512" as never })
      .withResponse();
    const png = Buffer.from(made.data.data?.[0]?.b64_json ?? "", "base64");
    expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([512, 512]);
    expect(await expectBilled(made.response)).toEqual({ images: 1 });
    const linked = await images
      .generate({ model: names.image, prompt: "a cat", n: 1, response_format: "url", steps: 4, seed: 7 } as never)
      .withResponse();
    expect(
      (await fetch((linked.data as { data: { url: string }[] }).data[0]?.url ?? "")).headers.get("content-type"),
    ).toBe("image/png");
    expect(await expectBilled(linked.response)).toEqual({ images: 1 });
  });

  test("are edited", async () => {
    const image = await toFile(FORM_CALLS.edits?.body.image as Uint8Array<ArrayBuffer>, "a.png", { type: "image/png" });
    const edited = await openaiOf(tenant)
      .images.edit({ model: names.imageEdit, image, prompt: "a hat", size: "512x512" })
      .withResponse();
    expect(edited.data.data?.[0]?.b64_json?.length).toBeGreaterThan(100);
    expect(await expectBilled(edited.response)).toEqual({ images: 1 });
  });
});

describe("audio", () => {
  test.each(["mp3", "wav", "opus"] as const)(
    "speech in %s, whole and streamed, with its content type",
    async (format) => {
      for (const stream of [false, true]) {
        const response = await openaiOf(tenant).audio.speech.create({
          model: names.speech,
          voice: "any",
          input: "The quick brown fox jumps over the lazy dog.",
          response_format: format,
          speed: 1.5,
          ...({ stream } as object),
        });
        const type = { mp3: "audio/mpeg", wav: "audio/wav", opus: "audio/ogg" }[format];
        expect(response.headers.get("content-type")).toBe(type);
        const bytes = new Uint8Array(await response.arrayBuffer());
        const used = await expectBilled(response);
        if (!stream || format !== "wav")
          expect(recordingLengthMs(bytes)).toBe(Math.round((used.audio_seconds ?? 0) * 1000));
      }
    },
  );

  test.each(["json", "text", "srt", "vtt", "verbose_json"] as const)(
    "a transcription of a file stream as %s",
    async (response_format) => {
      const path = join(dir, `${response_format}.wav`);
      writeFileSync(path, wav({ ms: 12_340 }));
      const { data, response } = await openaiOf(tenant)
        .audio.transcriptions.create({ model: names.transcription, file: createReadStream(path), response_format })
        .withResponse();
      const said: unknown = data;
      if (response_format === "json") expect(said).toEqual({ text: expect.stringMatching(/\w+ \w+/) });
      else if (response_format === "text") expect(said).toMatch(/\w+ \w+/);
      else if (response_format === "srt") expect(said).toMatch(/^1\n00:00:00,000 --> 00:00:05,000\n/);
      else if (response_format === "vtt") expect(said).toMatch(/^WEBVTT\n\n00:00:00\.000 --> /);
      else expect(said).toMatchObject({ task: "transcribe", duration: 12.34, segments: { length: 3 } });
      expect(await expectBilled(response)).toEqual({ transcribed_seconds: 12.34 });
    },
  );

  test.each(["clone", "localEdit"])("%s: wav with its content type and inference id", async (endpoint) => {
    const response = await ask(tenant, callOf(endpoint, names.voice, { language: "en", cfg_scale: "2.5" }));
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "audio/wav"]);
    expect(response.headers.get("inference-id")).toMatch(/^inf_\w+$/);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const used = await expectBilled(response);
    expect(recordingLengthMs(bytes)).toBe(Math.round((used.audio_seconds ?? 0) * 1000));
  });
});

describe("vectors and ranks", () => {
  test("embeddings in the SDK's default encoding and as floats are the same vectors", async () => {
    const { embeddings } = openaiOf(tenant);
    const input = ["one text", "another, longer text"];
    const coded = await embeddings.create({ model: names.embedding, input }).withResponse();
    const floats = await embeddings.create({ model: names.embedding, input, encoding_format: "float" }).withResponse();
    expect(coded.data.data.map(({ embedding }) => embedding.length)).toEqual([768, 768]);
    for (const [index, { embedding }] of floats.data.data.entries()) {
      expect(Array.from(coded.data.data[index]?.embedding ?? [])).toEqual(embedding.map(Math.fround));
    }
    const one = await embeddings.create({ model: names.embedding, input: "one text" }).withResponse();
    for (const { response } of [coded, floats, one]) await expectBilled(response);
  });

  test("rerank orders documents, the best ones only, with their text when asked", async () => {
    const fields = { documents: ["a dog", "cats and cats", "a cat"], query: "cats", top_n: 2, return_documents: true };
    const response = await ask(tenant, callOf("rerank", names.rerank, fields));
    const { results } = (await response.json()) as { results: { index: number; document: { text: string } }[] };
    expect(results).toHaveLength(2);
    expect(results[0]).toMatchObject({ index: 1, document: { text: "cats and cats" } });
    await expectBilled(response);
  });
});

describe("own instances", () => {
  test.each(["chat", "image", "embedding", "rerank"] as const)("of kind %s are called by <name>:<id>", async (kind) => {
    const { model } = await instanceFor(operator, tenant, kind);
    const endpoint = { chat: "chat", image: "images", embedding: "embeddings", rerank: "rerank" }[kind];
    const response = await ask(tenant, callOf(endpoint, model));
    expect([response.status, await response.json()]).toMatchObject([200, {}]);
    await expectBilled(response);
  });

  test("custom ones pass body and answer verbatim, whatever they are, at their own path only", async () => {
    const { id } = await instanceFor(operator, tenant, "custom");
    const path = `/inference-instances/${id}/proxy/run`;
    const bytes = Uint8Array.from({ length: 5_000 }, (_, at) => at % 256);
    const headers = { "content-type": "application/x-anything; v=1" };
    const response = await tenant.fetch(path, { method: "POST", body: bytes, headers });
    expect([response.status, response.headers.get("content-type")]).toEqual([200, headers["content-type"]]);
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true);
    expect(await expectBilled(response)).toEqual({ requests: 1 });

    const body = JSON.stringify({ stream: true, sandbox_frames: 3 });
    const stream = await tenant.fetch(path, { method: "POST", body, headers: { "content-type": "application/json" } });
    expect(stream.headers.get("content-type")).toBe("text/event-stream");
    expect((await stream.text()).split("\n\n").filter(Boolean)).toHaveLength(3);
    await expectBilled(stream);

    for (const other of ["/ran", "/%72un", "/run/", "/run?x=1", "//run", "/run/../run2", ""]) {
      const refused = await tenant.fetch(path.replace(/\/run$/, other), { method: "POST", body });
      expect(refused.status).toBeGreaterThanOrEqual(400);
      expect(refused.status).toBeLessThan(405);
      expect(await executionsOf(tenant, callIdOf(refused))).toEqual([]);
    }
  });

  test("a free custom one costs nothing", async () => {
    const { id } = await instanceFor(operator, tenant, "custom", { path: "/v2/predict", free: true });
    const response = await tenant.fetch(`/inference-instances/${id}/proxy/v2/predict`, { method: "POST", body: "x" });
    expect([response.status, await response.text()]).toEqual([200, "x"]);
    expect((await billOf(tenant, callIdOf(response))).chargedNanoUsd).toBe(0);
  });
});

test("the books are sound, and everything was charged to the last nano-USD", async () => {
  const audit = await tenant.audit();
  expect(audit).toMatchObject({
    ok: true,
    open_holds: 0,
    held_usd: 0,
    overrun_usd: 0,
    operator_loss_usd: 0,
    problems: [],
  });
});

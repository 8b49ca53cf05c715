import { describe, expect, it, vi } from "vitest";
import { encodeAudio } from "../../sandbox/audio/encode.ts";
import { ascii, concat } from "../../sandbox/bytes.ts";
import type { Endpoint } from "../../src/core/endpoints/endpoint.ts";
import { speech } from "../../src/core/endpoints/inference/speech.ts";
import { transcription } from "../../src/core/endpoints/inference/transcription.ts";
import { textLocalEdit, voiceClone } from "../../src/core/endpoints/inference/voice.ts";
import { parseForm } from "../../src/core/formats/multipart.ts";
import type { ModelKind } from "../../src/core/pricing/prices.ts";
import { aliasKey } from "../../src/core/routing/routes.ts";
import { serve } from "../../src/gateway/serve.ts";
import { mp3Frames, wav } from "../support/audio.ts";
import {
  answer,
  type FakeOptions,
  fakeWorld,
  json,
  makeKey,
  ROUTING,
  type Script,
  scriptedStream,
} from "../support/fake-ports.ts";
import { BOUNDARY, formBytes } from "../support/fixtures.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type Fields = Parameters<typeof formBytes>[0];
const SAY = { model: "chat", voice: "v", input: "x".repeat(100) };
const WAV: Fields[number] = ["file", wav({ ms: 1_500 }), "../../a.wav"];
const never: Script = () => {
  throw new Error("no upstream call was expected");
};
const audio = (bytes: Bytes, type = "audio/wav", headers: Record<string, string> = {}) =>
  answer(bytes, { headers: { "content-type": type, ...headers } });

/** The alias `chat` of the fixture, priced as a model of this kind, with platform models as its targets. */
function routingOf(kind: ModelKind) {
  const row = ROUTING.models.chat?.[0];
  const alias = ROUTING.aliases[aliasKey(null, "chat")];
  if (!row || !alias) throw new Error("the fixture has a row and an alias");
  const costNanoUsd = { audio_seconds: 1_000_000, transcribed_seconds: 2_000_000 };
  const targets = alias.targets.map((target) => ({ ...target, model: target.model.split(":")[0] ?? "" }));
  const aliases = { [aliasKey(null, "chat")]: { ...alias, targets } };
  return { ...ROUTING, aliases, models: { chat: [{ ...row, kind, costNanoUsd }] } };
}

function request(endpoint: Endpoint, body: object | Fields, signal?: AbortSignal): Request {
  const isForm = Array.isArray(body);
  return new Request(`http://gateway.test${endpoint.path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${makeKey()}`,
      "content-type": isForm ? `multipart/form-data; boundary=${BOUNDARY}` : "application/json",
    },
    body: isForm ? (formBytes(body as Fields) as Bytes) : JSON.stringify(body),
    ...(signal && { signal }),
  });
}

async function call(endpoint: Endpoint, body: object | Fields, options: FakeOptions) {
  const kind = endpoint.kinds[0] ?? "chat";
  const world = fakeWorld({ routing: routingOf(kind), ...options });
  const response = await serve(request(endpoint, body), endpoint, {}, world.ports);
  const bytes = new Uint8Array(await response.arrayBuffer().catch(() => new ArrayBuffer(0)));
  await world.idle();
  const text = new TextDecoder().decode(bytes);
  return { ...world, response, bytes, error: text.startsWith("{") ? JSON.parse(text).error : undefined };
}

describe("audio that was made", () => {
  it("passes byte for byte with its content type and inference id, and is charged by the second", async () => {
    const made = concat([...encodeAudio("wav", 6_000, true)].map(({ bytes }) => bytes));
    const { response, bytes, settled, admitted, sent } = await call(speech, SAY, {
      script: () => audio(made, "audio/wav", { "inference-id": "inf_1", "x-service-account": "operator" }),
    });
    expect(bytes).toEqual(made);
    expect(response.headers.get("content-type")).toBe("audio/wav");
    expect(response.headers.get("inference-id")).toBe("inf_1");
    expect(response.headers.has("x-service-account")).toBe(false);
    expect(admitted[0]?.bound).toEqual({ fixed: { audio_seconds: 45_000 } });
    expect(sent[0]?.body).toEqual({ ...SAY, model: "first" });
    expect(settled).toEqual([
      expect.objectContaining({
        outcome: "completed",
        reading: { source: "exact", usage: { audio_seconds: 6_000 } },
        costNanoUsd: 6_000_000,
      }),
    ]);
  });

  const left = async (stream: boolean, onDisconnect: "cancel" | "drain" = "cancel") => {
    const upstream = scriptedStream();
    const leave = new AbortController();
    const { response: headers } = upstream.answer as { response: Response };
    headers.headers.set("content-type", "audio/mpeg");
    const world = fakeWorld({ routing: routingOf("speech"), script: () => upstream.answer, onDisconnect });
    const response = await serve(request(speech, { ...SAY, stream }, leave.signal), speech, {}, world.ports);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    return { upstream, world, reader, leave };
  };

  it("reaches the client piece by piece, each before the next is made", async () => {
    const { upstream, reader } = await left(true);
    for (const count of [1, 2, 3]) {
      upstream.send(mp3Frames("mpeg2", count));
      expect((await reader.read()).value).toEqual(mp3Frames("mpeg2", count));
    }
  });

  it("that breaks off is an aborted body, and what was delivered is charged", async () => {
    const { upstream, reader, world } = await left(true);
    upstream.send(mp3Frames("mpeg2", 10));
    await reader.read();
    upstream.cut();
    await expect(reader.read()).rejects.toThrow();
    await world.idle();
    expect(world.settled).toEqual([
      expect.objectContaining({
        outcome: "stream_broken",
        reading: { source: "exact", usage: { audio_seconds: 240 } },
      }),
    ]);
    expect(world.released).toEqual([]);
  });

  it("for a client that left: a stream is cancelled, and what was relayed is charged", async () => {
    const { upstream, reader, world, leave } = await left(true);
    upstream.send(mp3Frames("mpeg2", 10));
    await reader.read();
    leave.abort();
    await world.idle();
    expect(upstream.cancelled).toBe(true);
    expect(world.settled[0]).toMatchObject({ outcome: "client_gone", reading: { usage: { audio_seconds: 240 } } });
  });

  it("for a client that left before the first sound: its text is charged, once the service may have spoken it", async () => {
    const { upstream, world, leave } = await left(true);
    leave.abort();
    await world.idle();
    expect(upstream.cancelled).toBe(true);
    expect(world.settled).toEqual([
      expect.objectContaining({
        outcome: "client_gone",
        reading: { source: "own_count", usage: { audio_seconds: 6_000 } },
      }),
    ]);
  });

  it.each([
    ["to its end: what it made, which is nothing", true, { source: "exact", usage: { audio_seconds: 0 } }],
    ["for 25 s: its text", false, { source: "own_count", usage: { audio_seconds: 6_000 } }],
  ])("for a client that left, and an account that drains, a silent answer costs, read %s", async (_, ends, reading) => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
    try {
      const { upstream, world, leave } = await left(true, "drain");
      leave.abort();
      if (ends) upstream.close();
      await vi.advanceTimersByTimeAsync(25_100);
      await world.idle();
      expect(world.settled).toEqual([expect.objectContaining({ outcome: "client_gone", reading })]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("that breaks off before the first sound costs a client that stayed nothing", async () => {
    const { upstream, reader, world } = await left(true);
    upstream.cut();
    await expect(reader.read()).rejects.toThrow();
    await world.idle();
    expect(world.settled).toEqual([
      expect.objectContaining({ outcome: "stream_broken", reading: { source: "exact", usage: { audio_seconds: 0 } } }),
    ]);
  });

  it("for a client that left: what is no stream is read to its end, and all of it is charged", async () => {
    const { upstream, reader, world, leave } = await left(false);
    upstream.send(mp3Frames("mpeg2", 10));
    await reader.read();
    leave.abort();
    for (let piece = 0; piece < 3; piece++) upstream.send(mp3Frames("mpeg2", 10));
    upstream.close();
    await world.idle();
    expect(world.settled[0]).toMatchObject({ outcome: "client_gone", reading: { usage: { audio_seconds: 960 } } });
  });

  it.each([
    ["JSON under status 200", () => json({ error: { message: "x" } })],
    ["a page under status 200", () => audio(ascii("<html>"), "text/html")],
    ["a 500", () => json({}, 500)],
  ])("%s is no audio: 502, nobody else is asked, and it costs nothing", async (_, script) => {
    const { response, sent, settled, released } = await call(speech, SAY, { script });
    expect(response.status).toBe(502);
    expect(sent).toHaveLength(1);
    expect(settled).toEqual([]);
    expect(released).toEqual([expect.objectContaining({ lostTries: 1 })]);
  });

  it("a target that cannot serve is passed over; a lost connection is not, because audio may have been made", async () => {
    const made = mp3Frames("mpeg2", 1);
    const over = (first: Script) =>
      call(speech, SAY, {
        script: (sent) => (sent.target.model === "first" ? first(sent) : audio(made, "audio/mpeg")),
      });
    expect((await over(() => json({}, 503))).response.status).toBe(200);
    expect((await over(() => ({ kind: "lost" }))).response.status).toBe(504);
  });
});

describe("voice endpoints", () => {
  const clone: Fields = [
    ["reference_audio", wav({ ms: 100 }), "r.wav"],
    ["x_tuning", "7"],
    ["input", "x".repeat(50)],
    ["model", "chat"],
  ];

  it("pass every part as it came but the model, and are charged by the second", async () => {
    const { response, sent, settled, admitted } = await call(voiceClone, clone, {
      script: () => audio(wav({ ms: 3_000 })),
    });
    expect(response.status).toBe(200);
    const { contentType, body } = sent[0]?.request ?? {};
    const boundary = /^multipart\/form-data; boundary=(form-[0-9a-f]{32})$/.exec(contentType ?? "")?.[1] ?? "";
    const form = parseForm(Buffer.concat(body ?? []), boundary);
    const parts = form.ok ? form.parts.map(({ name, content }) => [name, Buffer.from(content)]) : [];
    const kept = clone.slice(0, 3).map(([name, value]) => [name, Buffer.from(value)]);
    expect(parts).toEqual([["model", Buffer.from("first")], ...kept]);
    expect(admitted[0]?.bound).toEqual({ fixed: { audio_seconds: 25_000 } });
    expect(settled[0]?.reading).toEqual({ source: "exact", usage: { audio_seconds: 3_000 } });
  });

  it("go upstream under a boundary of their own each time", async () => {
    const types = [];
    for (let count = 0; count < 2; count++) {
      const { sent } = await call(voiceClone, clone, { script: () => audio(wav({ ms: 10 })) });
      types.push(sent[0]?.request.contentType);
    }
    expect(new Set(types).size).toBe(2);
    expect(types.join()).not.toContain(BOUNDARY);
  });

  it("an edit is held for by its source's true length; a source that is no audio is 400", async () => {
    const edit = (source: Bytes): Fields => [
      ["source_audio", source, "s.wav"],
      ["model", "chat"],
      ["original_text", "one"],
      ["edited_text", "one two"],
    ];
    const lying = wav({ ms: 60_000, claimedBytes: 48_000 });
    const good = await call(textLocalEdit, edit(lying), { script: () => audio(wav({ ms: 60_240 })) });
    expect(good.admitted[0]?.bound).toEqual({ fixed: { audio_seconds: 5_000 + 7 * 400 + 60_000 } });
    expect(good.settled[0]?.reading.usage).toEqual({ audio_seconds: 60_240 });
    const bad = await call(textLocalEdit, edit(ascii("no audio, whatever it is called")), { script: never });
    expect([bad.response.status, bad.error.param]).toEqual([400, "source_audio"]);
    expect(bad.admitted).toEqual([]);
  });

  it("a model that the key may not call is 403", async () => {
    const { response, sent } = await call(voiceClone, clone, {
      script: never,
      admit: () => ({ ok: false, refusal: { kind: "model_not_allowed", model: "chat" } }),
    });
    expect(response.status).toBe(403);
    expect(sent).toEqual([]);
  });
});

describe("transcription", () => {
  const hear = (...more: Fields): Fields => [WAV, ["model", "chat"], ...more];

  it.each<[string, () => ReturnType<Script>, string]>([
    ["json", () => json({ text: "words" }), "application/json"],
    ["verbose_json", () => json({ task: "transcribe", duration: 1, text: "words" }), "application/json"],
    ["text", () => audio(ascii("words\n"), "text/plain; charset=utf-8"), "text/plain; charset=utf-8"],
    ["srt", () => audio(ascii("1\n"), "text/plain; charset=utf-8"), "text/plain; charset=utf-8"],
    ["vtt", () => audio(ascii("WEBVTT\n"), "text/vtt; charset=utf-8"), "text/vtt; charset=utf-8"],
  ])("as %s is charged by the file's true length", async (format, script, type) => {
    const { response, settled, admitted } = await call(transcription, hear(["response_format", format]), { script });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe(type);
    expect(admitted[0]?.bound).toEqual({ fixed: { transcribed_seconds: 1_500 } });
    expect(settled[0]).toMatchObject({
      reading: { source: "exact", usage: { transcribed_seconds: 1_500 } },
      costNanoUsd: 3_000_000,
    });
  });

  it("takes the file before the model or behind it, and sends it byte for byte", async () => {
    for (const fields of [hear(), [...hear()].reverse()]) {
      const { sent, response } = await call(transcription, fields, { script: () => json({ text: "x" }) });
      expect(response.status).toBe(200);
      const body = Buffer.concat(sent[0]?.request.body ?? []);
      expect(body.includes(Buffer.from(WAV[1] as Bytes))).toBe(true);
    }
  });

  it.each<[string, Fields, number, string | null]>([
    [
      "no audio",
      [
        ["file", "this is a text", "a.mp3"],
        ["model", "chat"],
      ],
      400,
      "file",
    ],
    [
      "half an hour and a frame",
      [
        ["file", mp3Frames("mpeg2", 75_001), "a.mp3"],
        ["model", "chat"],
      ],
      400,
      "file",
    ],
    [
      "a file above 25 MB",
      [
        ["file", new Uint8Array(25 * 1024 * 1024 + 1), "a.mp3"],
        ["model", "chat"],
      ],
      413,
      null,
    ],
    [
      "a body above 26 MB",
      [
        ["file", new Uint8Array(26 * 1024 * 1024), "a.mp3"],
        ["model", "chat"],
      ],
      413,
      null,
    ],
    ["two models", [WAV, ["model", "chat"], ["model", "other"]], 400, "model"],
    ["no file", [["model", "chat"]], 400, "file"],
  ])("%s is refused before anything is held", async (_, fields, status, param) => {
    const { response, error, admitted } = await call(transcription, fields, { script: never });
    expect([response.status, error.param]).toEqual([status, param]);
    expect(admitted).toEqual([]);
  });

  it("half an hour is taken", async () => {
    const fields: Fields = [
      ["file", mp3Frames("mpeg2", 75_000), "a.mp3"],
      ["model", "chat"],
    ];
    const { settled } = await call(transcription, fields, { script: () => json({ text: "x" }) });
    expect(settled[0]?.reading.usage).toEqual({ transcribed_seconds: 1_800_000 });
  });

  it("that fails costs nothing", async () => {
    for (const script of [
      () => json({ error: { message: "bad" } }, 400),
      () => json({ error: {} }),
      () => json({}, 500),
    ]) {
      const { settled, released } = await call(transcription, hear(), { script });
      expect(settled).toEqual([]);
      expect(released).toHaveLength(1);
    }
  });

  it("whose client left is read to its end and charged", async () => {
    const leave = new AbortController();
    const world = fakeWorld({
      routing: routingOf("transcription"),
      script: async () => {
        leave.abort();
        await new Promise((resolve) => setTimeout(resolve, 10));
        return json({ text: "words" });
      },
    });
    await serve(request(transcription, hear(), leave.signal), transcription, {}, world.ports);
    await vi.waitFor(() => expect(world.settled).toHaveLength(1), { timeout: 20_000 });
    expect(world.settled[0]).toMatchObject({
      outcome: "client_gone",
      reading: { usage: { transcribed_seconds: 1_500 } },
    });
  });
});

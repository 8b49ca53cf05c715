import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeAudio } from "../../../sandbox/audio/encode.ts";
import { ascii, concat } from "../../../sandbox/bytes.ts";
import type { Endpoint } from "../../../src/core/endpoints/endpoint.ts";
import { speech } from "../../../src/core/endpoints/inference/speech.ts";
import { MAX_FILE_BYTES, transcription } from "../../../src/core/endpoints/inference/transcription.ts";
import { textLocalEdit, voiceClone } from "../../../src/core/endpoints/inference/voice.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";
import type { BytesReader } from "../../../src/core/meters/meter.ts";
import type { ModelRow } from "../../../src/core/pricing/prices.ts";
import { formBody, type formBytes } from "../../support/fixtures.ts";

const ROW: ModelRow = { model: "m", kind: "speech", fromMs: 0, costNanoUsd: {}, priceNanoUsd: {}, free: false };
const SAY = { model: "m", voice: "af_heart", input: "hello" };
/** As the sandbox speaks (its README, "Answers"), ms. */
const spokenMs = (text: string, speed: number) => Math.max(250, Math.round(([...text].length * 60) / speed));
type Field = Parameters<typeof formBytes>[0][number];

const parseJson = (value: unknown) => speech.parse({ askedPath: "", params: {}, body: { kind: "json", value } });
const parseForm = (endpoint: Endpoint, fields: readonly Field[]) =>
  endpoint.parse({ askedPath: "", params: {}, body: formBody(...fields) });
type Parsed = ReturnType<typeof parseJson>;
const verdict = (parsed: Parsed) => {
  if (parsed.ok) return "accepted";
  return parsed.refusal.kind === "invalid_request" ? parsed.refusal.param : parsed.refusal.kind;
};
function callOf(parsed: Parsed) {
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.refusal));
  return parsed.call;
}
/** Given fields over these; undefined leaves one out. */
const fields = (base: readonly Field[], changes: Record<string, string | undefined>): Field[] => [
  ...base.flatMap(([name, value, file]): Field[] => {
    if (!Object.hasOwn(changes, name)) return [[name, value, ...(file ? ([file] as const) : [])] as Field];
    const changed = changes[name];
    return changed === undefined ? [] : [[name, changed]];
  }),
  ...Object.entries(changes).flatMap(([name, value]): Field[] =>
    value === undefined || base.some(([known]) => known === name) ? [] : [[name, value]],
  ),
];
const CLONE: Field[] = [
  ["model", "m"],
  ["input", "hello"],
  ["reference_audio", "RIFF", "a.wav"],
];
const EDIT: Field[] = [
  ["model", "m"],
  ["source_audio", "RIFF", "a.wav"],
  ["original_text", "one two"],
  ["edited_text", "one three"],
];
const HEAR: Field[] = [
  ["file", "RIFF", "a.wav"],
  ["model", "m"],
];

describe("documented fields, at their limits and one beyond", () => {
  it.each<[object, string]>([
    [SAY, "accepted"],
    [{ ...SAY, voice: "a voice that nobody knows" }, "accepted"],
    [{ ...SAY, input: "x".repeat(4000) }, "accepted"],
    [{ ...SAY, input: "😀".repeat(4000) }, "accepted"],
    [{ ...SAY, input: "x".repeat(4001) }, "input"],
    [{ ...SAY, input: "😀".repeat(4001) }, "input"],
    [{ ...SAY, input: "" }, "input"],
    [{ ...SAY, input: ["x"] }, "input"],
    [{ ...SAY, input: undefined }, "input"],
    [{ ...SAY, voice: undefined }, "voice"],
    [{ ...SAY, voice: "" }, "voice"],
    [{ ...SAY, model: undefined }, "model"],
    [{ ...SAY, speed: 0.5, response_format: "mp3", stream: true }, "accepted"],
    [{ ...SAY, speed: 2, response_format: "wav", stream: false }, "accepted"],
    [{ ...SAY, speed: null, response_format: "opus", stream: null }, "accepted"],
    [{ ...SAY, speed: 0.49 }, "speed"],
    [{ ...SAY, speed: 2.01 }, "speed"],
    [{ ...SAY, speed: "1" }, "speed"],
    [{ ...SAY, response_format: "aac" }, "response_format"],
    [{ ...SAY, stream: "yes" }, "stream"],
  ])("speech: %j -> %s", (body, expected) => {
    expect(verdict(parseJson(body))).toBe(expected);
  });

  it.each<[string, Endpoint, Field[], Record<string, string | undefined>, string]>([
    ["clone", voiceClone, CLONE, { language: "de" }, "accepted"],
    ["clone", voiceClone, CLONE, { input: undefined }, "input"],
    ["clone", voiceClone, CLONE, { input: "" }, "input"],
    ["clone", voiceClone, CLONE, { model: undefined }, "model"],
    ["clone", voiceClone, CLONE, { reference_audio: undefined }, "reference_audio"],
    ["clone", voiceClone, CLONE, { reference_audio: "https://x.test/a.wav" }, "reference_audio"],
    ["edit", textLocalEdit, EDIT, { num_steps: "32", cfg_scale: "2.5", length_mode: "auto" }, "accepted"],
    ["edit", textLocalEdit, EDIT, { source_audio: undefined }, "source_audio"],
    ["edit", textLocalEdit, EDIT, { original_text: undefined }, "original_text"],
    ["edit", textLocalEdit, EDIT, { edited_text: undefined }, "edited_text"],
    ["edit", textLocalEdit, EDIT, { padding_ms: "999999" }, "accepted"],
    ["edit", textLocalEdit, EDIT, { padding_ms: "1000000" }, "padding_ms"],
    ["edit", textLocalEdit, EDIT, { padding_ms: "-1" }, "padding_ms"],
    ["hear", transcription, HEAR, {}, "accepted"],
    ["hear", transcription, HEAR, { language: "", prompt: "names", temperature: "0" }, "accepted"],
    ["hear", transcription, HEAR, { language: "en", temperature: "0.7" }, "accepted"],
    ["hear", transcription, HEAR, { language: "english" }, "language"],
    ["hear", transcription, HEAR, { temperature: "warm" }, "temperature"],
    ["hear", transcription, HEAR, { temperature: "" }, "temperature"],
    ["hear", transcription, HEAR, { response_format: "xml" }, "response_format"],
    ["hear", transcription, HEAR, { file: undefined }, "file"],
    ["hear", transcription, HEAR, { file: "not a file" }, "file"],
    ["hear", transcription, HEAR, { model: undefined }, "model"],
    ["hear", transcription, HEAR, { api_key: "x" }, "api_key"],
  ])("%s: %#", (_, endpoint, base, changes, expected) => {
    expect(verdict(parseForm(endpoint, fields(base, changes)))).toBe(expected);
  });

  it.each(["json", "text", "srt", "vtt", "verbose_json"])("a transcript may be %s", (response_format) => {
    expect(verdict(parseForm(transcription, fields(HEAR, { response_format })))).toBe("accepted");
  });

  it("a file of 25 MB is taken, one byte more is too large", () => {
    const sized = (bytes: number): Field[] => [
      ["file", new Uint8Array(bytes), "a.wav"],
      ["model", "m"],
    ];
    expect(verdict(parseForm(transcription, sized(MAX_FILE_BYTES)))).toBe("accepted");
    expect(verdict(parseForm(transcription, sized(MAX_FILE_BYTES + 1)))).toBe("too_large");
  });

  it.each([voiceClone, textLocalEdit, transcription])("$id takes one model, once", (endpoint) => {
    const base = endpoint === voiceClone ? CLONE : endpoint === textLocalEdit ? EDIT : HEAR;
    expect(verdict(parseForm(endpoint, [...base, ["model", "m"]]))).toBe("model");
    expect(verdict(parseForm(endpoint, fields(base, { model: undefined }).concat([["model", "m", "m.txt"]])))).toBe(
      "model",
    );
  });

  it("the model is rewritten in its part; every other part passes byte for byte, wherever the model stood", () => {
    const tuning = fields(EDIT, { num_steps: "32", "weird-name[1]": "é\r\n--x" });
    for (const given of [tuning, [...tuning.slice(1), ...tuning.slice(0, 1)]]) {
      const { payload } = callOf(parseForm(textLocalEdit, given));
      const sent = new TextDecoder().decode(joinBytes(payload.encode({ model: "target:1" }) ?? []));
      const whole = formBody(...given);
      const parts = whole.kind === "form" ? whole.parts : [];
      for (const { name, content } of parts.filter(({ name }) => name !== "model")) {
        expect(sent).toContain(`name="${name}"`);
        expect(sent).toContain(`\r\n\r\n${new TextDecoder().decode(content)}\r\n--`);
      }
      expect(sent.match(/name="model"/g)).toHaveLength(1);
      expect(sent).toContain(`name="model"\r\n\r\ntarget:1\r\n`);
    }
  });
});

describe("bounds", () => {
  const bound = (parsed: Parsed, recordingMs: number | null = null) =>
    callOf(parsed).bound(ROW, { sentBytes: 1, recordingMs }).fixed;

  it("of speech: 5 s and 0.4 s a character, over the speed", () => {
    expect(bound(parseJson({ ...SAY, input: "x".repeat(100) }))).toEqual({ audio_seconds: 45_000 });
    expect(bound(parseJson({ ...SAY, input: "😀".repeat(100), speed: 0.5 }))).toEqual({ audio_seconds: 85_000 });
    expect(bound(parseJson({ ...SAY, input: "x".repeat(7), speed: 2 }))).toEqual({ audio_seconds: 6_400 });
  });

  it("of a clone: its text at normal speed; of an edit: the source's length and padding on top", () => {
    expect(bound(parseForm(voiceClone, fields(CLONE, { input: "x".repeat(10) })))).toEqual({ audio_seconds: 9_000 });
    const edit = fields(EDIT, { edited_text: "x".repeat(10), padding_ms: "150" });
    expect(bound(parseForm(textLocalEdit, edit), 2_500)).toEqual({ audio_seconds: 9_000 + 300 + 2_500 });
  });

  it("of a transcription: the recording's length; half an hour is the longest", () => {
    expect(bound(parseForm(transcription, HEAR), 61_234)).toEqual({ transcribed_seconds: 61_234 });
    expect(callOf(parseForm(transcription, HEAR)).recording()).toMatchObject({ field: "file", longestMs: 1_800_000 });
    expect(callOf(parseForm(textLocalEdit, EDIT)).recording()).toMatchObject({
      field: "source_audio",
      longestMs: null,
    });
    expect(callOf(parseForm(voiceClone, CLONE)).recording()).toBe(null);
  });

  it("cover what the service makes of any text, in every format, at every speed", () => {
    const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 400 });
    const speed = fc.double({ min: 0.5, max: 2, noNaN: true });
    fc.assert(
      fc.property(text, speed, fc.constantFrom("wav", "mp3", "opus"), (input, speed, format) => {
        const made = [...encodeAudio(format, spokenMs(input, speed), false)].at(-1)?.madeMs ?? 0;
        expect(bound(parseJson({ ...SAY, input, speed })).audio_seconds).toBeGreaterThanOrEqual(made);
      }),
    );
  });
});

describe("readings", () => {
  const sent = { row: ROW, outputCap: undefined, earlierTokens: 0, measured: { sentBytes: 1, recordingMs: 61_234 } };
  const bytesReader = (parsed: Parsed): BytesReader => {
    const reader = callOf(parsed).reader(sent);
    if (reader.kind !== "bytes") throw new Error("expected a bytes reader");
    return reader;
  };

  it.each(["wav", "mp3", "opus"] as const)("%s is charged for what passed, to the last byte that did", (format) => {
    const reader = bytesReader(parseJson(SAY));
    expect(reader.accepts("audio/whatever")).toBe(true);
    for (const { bytes, madeMs } of encodeAudio(format, 3_000, true)) {
      reader.push(bytes);
      expect(reader.reading()).toEqual({ source: "exact", usage: { audio_seconds: madeMs } });
    }
  });

  it("audio of a format that is not measured is settled from our own count: 0.06 s a character over the speed", () => {
    const reader = bytesReader(parseJson({ ...SAY, input: "x".repeat(100), speed: 2 }));
    reader.accepts("audio/aac");
    reader.push(ascii("no format that is known here"));
    expect(reader.reading()).toEqual({ source: "own_count", usage: { audio_seconds: 3_000 } });
  });

  it("a client that left before there was an answer is not free; an answer that made nothing costs nothing", () => {
    const reader = bytesReader(parseJson({ ...SAY, input: "x".repeat(100) }));
    expect(reader.reading()).toEqual({ source: "own_count", usage: { audio_seconds: 6_000 } });
    reader.accepts("audio/mpeg");
    expect(reader.reading()).toEqual({ source: "exact", usage: { audio_seconds: 0 } });
  });

  it.each(["wav", "mp3", "opus"] as const)(
    "%s: a client that left before the first sound pays for its text, then for what passed",
    (format) => {
      const reader = bytesReader(parseJson({ ...SAY, input: "x".repeat(100) }));
      reader.accepts("audio/whatever");
      reader.left?.();
      const pieces = [...encodeAudio(format, 3_000, true)];
      for (const { bytes, madeMs } of pieces) {
        expect(reader.reading().usage.audio_seconds).toBeGreaterThan(0);
        reader.push(bytes);
        const expected = madeMs === 0 ? { source: "own_count", ms: 6_000 } : { source: "exact", ms: madeMs };
        expect(reader.reading()).toEqual({ source: expected.source, usage: { audio_seconds: expected.ms } });
      }
    },
  );

  it("the silence that an edit asks for is in our own count too", () => {
    const edit = bytesReader(
      parseForm(textLocalEdit, fields(EDIT, { edited_text: "x".repeat(10), padding_ms: "400" })),
    );
    expect(edit.reading()).toEqual({ source: "own_count", usage: { audio_seconds: 600 + 2 * 400 } });
  });

  it.each([
    ["audio/mpeg", true],
    ["audio/ogg; codecs=opus", true],
    ["application/octet-stream", true],
    ["application/json", false],
    ["text/html", false],
    ["", false],
  ])("speech as %j is an answer: %s", (contentType, expected) => {
    expect(bytesReader(parseJson(SAY)).accepts(contentType)).toBe(expected);
    expect(bytesReader(parseForm(voiceClone, CLONE)).accepts(contentType)).toBe(expected);
  });

  it.each(["text", "srt", "vtt"])("a transcript as %s is charged for the whole recording", (response_format) => {
    const reader = bytesReader(parseForm(transcription, fields(HEAR, { response_format })));
    expect(reader.accepts("text/plain; charset=utf-8")).toBe(true);
    expect(reader.accepts("text/vtt")).toBe(true);
    expect(reader.accepts("application/json")).toBe(false);
    reader.push(ascii("1\n"));
    expect(reader.reading()).toEqual({ source: "exact", usage: { transcribed_seconds: 61_234 } });
  });

  it.each(["json", "verbose_json"])("a transcript as %s is a document with a text", (response_format) => {
    const reader = callOf(parseForm(transcription, fields(HEAR, { response_format }))).reader(sent);
    if (reader.kind !== "json") throw new Error("expected a JSON reader");
    expect(reader.read({ text: "", duration: 1 })).toBe(true);
    for (const other of [{}, { error: { message: "x" } }, [], "text", null]) expect(reader.read(other)).toBe(false);
    expect(reader.reading()).toEqual({ source: "exact", usage: { transcribed_seconds: 61_234 } });
  });

  it("a wav in one piece is measured as in many", () => {
    const whole = concat([...encodeAudio("wav", 1_234, true)].map(({ bytes }) => bytes));
    const reader = bytesReader(parseForm(voiceClone, CLONE));
    reader.accepts("audio/x-wav");
    reader.push(whole);
    expect(reader.reading().usage).toEqual({ audio_seconds: 1_234 });
  });
});

describe("what is asked of an upstream", () => {
  it("is the media type of the format asked for", () => {
    const accept = (response_format?: string) => callOf(parseJson({ ...SAY, response_format })).accept;
    expect([accept(), accept("mp3"), accept("wav"), accept("opus")]).toEqual([
      "audio/mpeg",
      "audio/mpeg",
      "audio/wav",
      "audio/ogg",
    ]);
    expect(callOf(parseForm(transcription, fields(HEAR, { response_format: "srt" }))).accept).toBe("text/*");
  });

  it("only speech that is asked for as a stream is one", () => {
    expect(callOf(parseJson({ ...SAY, stream: true })).streams).toBe(true);
    expect(callOf(parseJson(SAY)).streams).toBe(false);
    expect(callOf(parseForm(voiceClone, CLONE)).streams).toBe(false);
  });
});

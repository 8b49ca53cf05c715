/** `POST /v1/audio/transcriptions`: words that depend on the file's bytes, two and a half a second. */
import { z } from "zod";
import { readForm } from "../body.ts";
import { prose } from "../chat/words.ts";
import { check } from "../check.ts";
import type { Answer, Endpoint } from "../endpoint.ts";
import { done, invalid } from "../refusal.ts";
import type { Usage } from "../usage.ts";
import { measureMs } from "./measure.ts";

const LARGEST_FILE = 25 * 1024 * 1024;
const LONGEST_MS = 30 * 60_000;
const SEGMENT_MS = 5_000;
/** About ten bytes a second of speech. */
const TOKENS_PER_SEGMENT = 12;

const TranscriptionRequest = z.looseObject({
  model: z.string().min(1),
  language: z
    .string()
    .regex(/^([a-z]{2})?$/, "must be an ISO-639-1 code")
    .optional(),
  prompt: z.string().optional(),
  response_format: z.enum(["json", "text", "srt", "vtt", "verbose_json"]).optional(),
  temperature: z.coerce.number().min(0).max(1).optional(),
});
type Format = NonNullable<z.output<typeof TranscriptionRequest>["response_format"]>;

interface Segment {
  readonly startMs: number;
  readonly endMs: number;
  readonly text: string;
}

export const transcriptions: Endpoint = {
  method: "POST",
  path: "/v1/audio/transcriptions",
  errors: "openai",
  prepare: async (received) => {
    const form = await readForm(received);
    if (!form.ok) return form;
    const read = check(form.value.fields, TranscriptionRequest);
    if (!read.ok) return read;
    const file = form.value.files.file;
    if (!file) return invalid("`file` must be a file.", "file");
    if (file.size > LARGEST_FILE) return invalid("`file` must be at most 25 MB: split longer audio.", "file");
    const bytes = new Uint8Array(await file.arrayBuffer());
    const ms = measureMs(bytes);
    if (ms === undefined) return invalid("`file` must be mp3, wav, m4a, webm, ogg or flac.", "file");
    if (ms > LONGEST_MS) return invalid("`file` must be at most 30 minutes: split longer audio.", "file");
    const body = read.value;
    const segments = await transcribe(bytes, ms);
    return done({
      model: body.model,
      kinds: ["transcription"],
      executes: true,
      answer: () => formatted(body.response_format ?? "json", segments, ms, body.language || "en"),
    });
  },
};

async function transcribe(bytes: Uint8Array<ArrayBuffer>, ms: number): Promise<Segment[]> {
  const seed = new DataView(await crypto.subtle.digest("SHA-256", bytes)).getUint32(0);
  return Array.from({ length: Math.ceil(ms / SEGMENT_MS) }, (_, index) => {
    const startMs = index * SEGMENT_MS;
    const endMs = Math.min(ms, startMs + SEGMENT_MS);
    const tokens = Math.max(1, Math.round((TOKENS_PER_SEGMENT * (endMs - startMs)) / SEGMENT_MS));
    return { startMs, endMs, text: prose("", seed + index, tokens + 1).trim() };
  });
}

function formatted(format: Format, segments: readonly Segment[], ms: number, language: string): Answer {
  const usage: Usage = { transcribed_seconds: ms / 1000 };
  const text = segments.map((segment) => segment.text).join(" ");
  if (format === "json") return { kind: "json", body: { text }, usage };
  if (format === "verbose_json") {
    const seconds = segments.map(({ startMs, endMs, text: spoken }, id) => ({
      id,
      start: startMs / 1000,
      end: endMs / 1000,
      text: spoken,
    }));
    return {
      kind: "json",
      body: { task: "transcribe", language, duration: ms / 1000, text, segments: seconds },
      usage,
    };
  }
  const plain = format === "text" ? `${text}\n` : subtitles(segments, format);
  const contentType = format === "vtt" ? "text/vtt; charset=utf-8" : "text/plain; charset=utf-8";
  return { kind: "bytes", bytes: new TextEncoder().encode(plain), contentType, usage };
}

function subtitles(segments: readonly Segment[], format: "srt" | "vtt"): string {
  const mark = format === "srt" ? "," : ".";
  const cues = segments.map(({ startMs, endMs, text }, index) => {
    const number = format === "srt" ? `${index + 1}\n` : "";
    return `${number}${clock(startMs, mark)} --> ${clock(endMs, mark)}\n${text}\n`;
  });
  return (format === "vtt" ? "WEBVTT\n\n" : "") + cues.join("\n");
}

/** `00:01:05,000` */
function clock(ms: number, mark: string): string {
  const [hours, minutes, seconds] = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60].map((part) =>
    String(Math.floor(part)).padStart(2, "0"),
  );
  return `${hours}:${minutes}:${seconds}${mark}${String(ms % 1000).padStart(3, "0")}`;
}

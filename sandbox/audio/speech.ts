/**
 * `POST /v1/audio/speech`: 0.06 s of audio for each character, divided by the speed, and at least a quarter of a
 * second.
 */
import { z } from "zod";
import { readJson } from "../body.ts";
import { concat } from "../bytes.ts";
import type { Answer, Chunk, Endpoint } from "../endpoint.ts";
import { done, invalid } from "../refusal.ts";
import type { Usage } from "../usage.ts";
import { type AudioFormat, type AudioPiece, CONTENT_TYPES, encodeAudio } from "./encode.ts";

export const MS_PER_CHARACTER = 60;
export const SHORTEST_MS = 250;
const LONGEST_INPUT = 4_000;

/** The model whose voices are checked; other models take any name. */
const DEFAULT_MODEL = "tts-fast";
const VOICES = new Set([
  ...["af_bella", "af_heart", "af_nova", "af_sky"],
  ...["am_adam", "am_michael"],
  ...["bf_emma", "bf_isabella"],
  ...["bm_george", "bm_lewis"],
]);

const charactersOf = (text: string): number => [...text].length;

const SpeechRequest = z.looseObject({
  model: z.string().min(1),
  voice: z.string().min(1),
  input: z
    .string()
    .min(1)
    .refine((text) => charactersOf(text) <= LONGEST_INPUT, `must have at most ${LONGEST_INPUT} characters`),
  response_format: z.enum(["mp3", "wav", "opus"]).nullish(),
  speed: z.number().min(0.5).max(2).nullish(),
  stream: z.boolean().nullish(),
  sandbox_frame_delay_ms: z.number().min(0).max(60_000).optional(),
});

export const speech: Endpoint = {
  method: "POST",
  path: "/v1/audio/speech",
  errors: "openai",
  prepare: (received) => {
    const read = readJson(received, SpeechRequest);
    if (!read.ok) return read;
    const body = read.value;
    if (body.model === DEFAULT_MODEL && !VOICES.has(body.voice)) {
      return invalid(`\`${body.model}\` has no voice \`${body.voice}\`.`, "voice");
    }
    const ms = spokenMs(body.input, body.speed ?? 1);
    const format = body.response_format ?? "mp3";
    return done({
      model: body.model,
      kinds: ["speech"],
      executes: true,
      answer: () => (body.stream ? streamedAudio(format, ms, body.sandbox_frame_delay_ms) : wholeAudio(format, ms)),
    });
  },
};

/** How long speaking a text takes, ms. */
export const spokenMs = (text: string, speed: number): number =>
  Math.max(SHORTEST_MS, Math.round((charactersOf(text) * MS_PER_CHARACTER) / speed));

export function wholeAudio(format: AudioFormat, ms: number, headers: Readonly<Record<string, string>> = {}): Answer {
  const pieces = [...encodeAudio(format, ms, false)];
  return {
    kind: "bytes",
    bytes: concat(pieces.map(({ bytes }) => bytes)),
    contentType: CONTENT_TYPES[format],
    usage: usageOf(pieces.at(-1)?.madeMs ?? 0),
    headers,
  };
}

function streamedAudio(format: AudioFormat, ms: number, delayMs: number | undefined): Answer {
  const chunks = chunksOf(encodeAudio(format, ms, true));
  return { kind: "chunks", chunks, contentType: CONTENT_TYPES[format], usage: usageOf(0), delayMs };
}

function* chunksOf(pieces: Iterable<AudioPiece>): Iterable<Chunk> {
  for (const { bytes, madeMs } of pieces) yield { bytes, usage: usageOf(madeMs) };
}

const usageOf = (ms: number): Usage => ({ audio_seconds: ms / 1000 });

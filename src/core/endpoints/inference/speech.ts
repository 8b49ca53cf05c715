/** Speech synthesis (contract: POST /v1/audio/speech): streams audio, charged per second. */
import * as z from "zod";
import { audioMade, charactersOf } from "../../meters/audio.ts";
import { json } from "../body.ts";
import { endpoint } from "../endpoint.ts";

const LONGEST_INPUT = 4_000;
const MEDIA_TYPES = { mp3: "audio/mpeg", wav: "audio/wav", opus: "audio/ogg" } as const;

/** Voices differ by model and change over time, so the service checks them. */
export const SpeechRequest = z.looseObject({
  model: z.string().min(1).max(256),
  voice: z.string().min(1),
  input: z
    .string()
    .min(1)
    .refine((text) => charactersOf(text) <= LONGEST_INPUT, `must have at most ${LONGEST_INPUT} characters`),
  response_format: z.enum(["mp3", "wav", "opus"]).nullish(),
  speed: z.number().min(0.5).max(2).nullish(),
  stream: z.boolean().nullish(),
  stream_format: z
    .literal("audio", 'must be "audio": with `stream: true` speech comes as bytes of audio, not as events')
    .nullish(),
});

export const speech = endpoint({
  id: "audio.speech",
  method: "POST",
  path: "/v1/audio/speech",
  summary: "Speech from text as mp3, wav or opus, whole or while it is made",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: json(SpeechRequest),
  model: "model",
  kinds: ["speech"],
  meter: audioMade(({ input, speed }: z.infer<typeof SpeechRequest>) => ({
    characters: charactersOf(input),
    speed: speed ?? 1,
  })),
  retry: "costly",
  errors: "openai",
  accept: ({ response_format }) => MEDIA_TYPES[response_format ?? "mp3"],
  streams: ({ stream }) => stream === true,
});

/** Speech synthesis (contract: POST /v1/audio/speech): streams audio, charged per second. */
import * as z from "zod/mini";
import { audioMade, charactersOf } from "../../meters/audio.ts";
import { characters } from "../../shapes.ts";
import { json } from "../body.ts";
import { endpoint } from "../endpoint.ts";

const LONGEST_INPUT = 4_000;
const MEDIA_TYPES = { mp3: "audio/mpeg", wav: "audio/wav", opus: "audio/ogg" } as const;

/** Voices differ by model and change over time, so the service checks them. */
export const SpeechRequest = z.looseObject({
  model: characters(1, 256),
  voice: z.string().check(z.minLength(1)),
  input: z.string().check(
    z.minLength(1),
    z.refine((text) => charactersOf(text) <= LONGEST_INPUT, `must have at most ${LONGEST_INPUT} characters`),
  ),
  response_format: z.nullish(z.enum(["mp3", "wav", "opus"])),
  speed: z.nullish(z.number().check(z.minimum(0.5), z.maximum(2))),
  stream: z.nullish(z.boolean()),
  stream_format: z.nullish(
    z.literal("audio", 'must be "audio": with `stream: true` speech comes as bytes of audio, not as events'),
  ),
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

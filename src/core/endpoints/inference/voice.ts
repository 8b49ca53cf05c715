/**
 * Voice cloning and speech editing (contract: POST /v1/audio/voice-clone, POST /v1/audio/text-local-edit), charged like
 * speech. Tuning fields pass unchanged.
 */
import * as z from "zod/mini";
import { audioMade, charactersOf } from "../../meters/audio.ts";
import { brief } from "../../schema-words.ts";
import { characters } from "../../shapes.ts";
import { type FormFile, form, isFormFile } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { OTHER_DATA } from "../inspection/callers-data.ts";
import { STREAMS } from "../inspection/refused.ts";

const audioFile = () =>
  z.custom<FormFile>((value) => isFormFile(value) && value.bytes.length > 0, "must be an audio file");

export const VoiceCloneRequest = z.looseObject({
  model: characters(1, 256),
  input: z.string().check(z.minLength(1)),
  reference_audio: audioFile(),
  language: z.optional(z.string()),
});

export const TextLocalEditRequest = z.looseObject({
  model: characters(1, 256),
  source_audio: audioFile(),
  original_text: z.string().check(z.minLength(1)),
  edited_text: z.string().check(z.minLength(1)),
  /** The only tuning field that can make the answer longer than its text; applied on both sides of the edit. */
  padding_ms: z.optional(
    brief(z.string().check(z.regex(/^\d{1,6}(\.\d+)?$/, "must be a number of milliseconds below 1000000"))),
  ),
});

export const voiceClone = endpoint({
  id: "audio.voice_clone",
  method: "POST",
  path: "/v1/audio/voice-clone",
  summary: "Speech in the voice of a reference clip",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: form(VoiceCloneRequest, { data: OTHER_DATA, refused: STREAMS }),
  model: "model",
  kinds: ["voice"],
  meter: audioMade(({ input }: z.infer<typeof VoiceCloneRequest>) => ({ characters: charactersOf(input), speed: 1 })),
  retry: "costly",
  errors: "openai",
  accept: () => "audio/*",
});

export const textLocalEdit = endpoint({
  id: "audio.text_local_edit",
  method: "POST",
  path: "/v1/audio/text-local-edit",
  summary: "A recording with a part of what it says replaced",
  scope: "inference",
  flow: { kind: "forwarded" },
  body: form(TextLocalEditRequest, {
    data: OTHER_DATA,
    refused: STREAMS,
    noUrls: "the recording is sent as `source_audio`",
  }),
  model: "model",
  kinds: ["voice"],
  meter: audioMade(({ edited_text, padding_ms = "0" }: z.infer<typeof TextLocalEditRequest>) => ({
    characters: charactersOf(edited_text),
    speed: 1,
    paddingMs: 2 * Number(padding_ms),
  })),
  retry: "costly",
  errors: "openai",
  accept: () => "audio/*",
  recording: ({ source_audio }) => ({ bytes: source_audio.bytes, field: "source_audio", longestMs: null }),
});

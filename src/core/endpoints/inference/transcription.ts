/** Transcription (contract: POST /v1/audio/transcriptions), charged by the measured length of the recording. */
import * as z from "zod/mini";
import { audioHeard, LONGEST_RECORDING_MS } from "../../meters/audio.ts";
import { refused } from "../../outcome.ts";
import { brief } from "../../schema-words.ts";
import { characters } from "../../shapes.ts";
import { TRANSCRIPT_ANSWER } from "../answer-names.ts";
import { type BodyRule, type FormFile, form, isFormFile } from "../body.ts";
import { endpoint } from "../endpoint.ts";
import { OTHER_DATA } from "../inspection/callers-data.ts";
import { MORE_RECORDINGS, STREAMS } from "../inspection/refused.ts";

/** Contract, "Limits". */
export const MAX_FILE_BYTES = 25 * 1024 * 1024;

const TranscriptionRequest = z.looseObject({
  model: characters(1, 256),
  file: z.custom<FormFile>((value) => isFormFile(value) && value.bytes.length > 0, "must be an audio file"),
  language: z.optional(
    brief(z.string().check(z.regex(/^([A-Za-z]{2})?$/, "must be a two-letter ISO-639-1 code, or blank"))),
  ),
  prompt: z.optional(z.string()),
  response_format: z.optional(z.enum(["json", "text", "srt", "vtt", "verbose_json"])),
  temperature: z.optional(
    brief(
      z.string().check(z.refine((text) => text.trim() !== "" && Number.isFinite(Number(text)), "must be a number")),
    ),
  ),
});
type Transcription = z.infer<typeof TranscriptionRequest>;

const anyForm = form(TranscriptionRequest, {
  data: OTHER_DATA,
  refused: new Map([...STREAMS, ...MORE_RECORDINGS]),
  noUrls: "the recording is sent as `file`",
});
const body: BodyRule<Transcription> = {
  ...anyForm,
  *parse(raw, rules) {
    const parsed = yield* anyForm.parse(raw, rules);
    if (!parsed.ok || parsed.body.file.bytes.length <= MAX_FILE_BYTES) return parsed;
    return refused({ kind: "too_large", limitBytes: MAX_FILE_BYTES });
  },
};

const isJson = ({ response_format = "json" }: Transcription): boolean => response_format.endsWith("json");

export const transcription = endpoint({
  id: "audio.transcriptions",
  method: "POST",
  path: "/v1/audio/transcriptions",
  summary: "Text of a recording as json, verbose_json, text, srt or vtt",
  scope: "inference",
  flow: { kind: "forwarded" },
  body,
  model: "model",
  kinds: ["transcription"],
  meter: audioHeard(isJson),
  answer: TRANSCRIPT_ANSWER,
  retry: "costly",
  errors: "openai",
  accept: (asked) => (isJson(asked) ? "application/json" : "text/*"),
  recording: ({ file }) => ({ bytes: file.bytes, field: "file", longestMs: LONGEST_RECORDING_MS }),
});

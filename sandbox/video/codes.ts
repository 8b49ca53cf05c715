/** The contract's stable codes of video: the status at submission, and whether the same request may be retried. */
import { invalid, type Outcome, refuse } from "../refusal.ts";

export const VIDEO_CODES = {
  invalid_request: { status: 400, retryable: false },
  reference_media_unreachable: { status: 400, retryable: false },
  reference_media_too_long: { status: 400, retryable: false },
  "content_filtered.input_text": { status: 400, retryable: false },
  "content_filtered.input_image": { status: 400, retryable: false },
  "content_filtered.input_video": { status: 400, retryable: false },
  "content_filtered.input_audio": { status: 400, retryable: false },
  "content_filtered.output_text": { status: 400, retryable: false },
  "content_filtered.output_image": { status: 400, retryable: false },
  "content_filtered.output_video": { status: 400, retryable: false },
  "content_filtered.output_audio": { status: 400, retryable: false },
  capacity_exceeded: { status: 429, retryable: true },
  generation_timeout: { status: 504, retryable: true },
  internal_error: { status: 502, retryable: true },
  model_unavailable: { status: 503, retryable: false },
} as const;
export type VideoCode = keyof typeof VIDEO_CODES;

export const isVideoCode = (code: string): code is VideoCode => Object.hasOwn(VIDEO_CODES, code);

/** A submission refused with one of the codes. */
export const refuseVideo = (code: VideoCode, message: string) => refuse(VIDEO_CODES[code].status, code, message);

const ON_SUBMIT = /\[fail:([a-z_.]+)\]/;
const ON_JOB = /\[fail-job:([a-z_.]+)\]/;

/**
 * The failure that a prompt asks for. `[fail:CODE]` fails where the contract has that code (codes about the output on
 * the finished job, others at submission); `[fail-job:CODE]` always fails the job. Null: none.
 */
export function failureAsked(prompt: string): Outcome<{ at: "submit" | "job"; code: VideoCode } | null> {
  const [submit, job] = [ON_SUBMIT.exec(prompt)?.[1], ON_JOB.exec(prompt)?.[1]];
  const code = submit ?? job;
  if (code === undefined) return { ok: true, value: null };
  if (!isVideoCode(code)) return invalid(`There is no code \`${code}\`.`, "prompt");
  const onJob = submit === undefined || code.startsWith("content_filtered.output_");
  return { ok: true, value: { at: onJob ? "job" : "submit", code } };
}

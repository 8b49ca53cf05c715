/**
 * The contract's stable codes of video errors, and the statuses that a submission may answer them with. Such a refusal
 * is definite: no job was created, nothing is billed ("Errors", rule 5).
 */
import type { ReadCode } from "../routing/failure.ts";

interface CodeRule {
  /** Statuses it may have at submission; another status is answered as the first of them. */
  readonly statuses: readonly [VideoStatus, ...VideoStatus[]];
  /** Whether the same request may succeed on a repeat. */
  readonly retry: boolean;
}
type VideoStatus = 400 | 429 | 502 | 503 | 504;

const once = (status: VideoStatus): CodeRule => ({ statuses: [status], retry: false });

export const VIDEO_CODES: Readonly<Record<string, CodeRule>> = {
  invalid_request: once(400),
  reference_media_unreachable: once(400),
  reference_media_too_long: once(400),
  capacity_exceeded: { statuses: [429], retry: true },
  generation_timeout: { statuses: [504], retry: true },
  internal_error: { statuses: [502], retry: true },
  model_unavailable: { statuses: [503, 502], retry: false },
};

/** Codes of new modalities keep this prefix ("Errors", rule 3). */
const CONTENT_FILTERED = /^content_filtered\.[a-z0-9_.]{1,64}$/;

function ruleOf(code: string): CodeRule | undefined {
  if (CONTENT_FILTERED.test(code)) return once(400);
  return Object.hasOwn(VIDEO_CODES, code) ? VIDEO_CODES[code] : undefined;
}

/** Whether the code may be shown to a tenant. */
export const isVideoCode = (code: unknown): code is string => typeof code === "string" && ruleOf(code) !== undefined;

/** Whether a failed job may be repeated: as the service says, otherwise by the code's rule. */
export const isRetryable = (code: string, said: unknown): boolean =>
  typeof said === "boolean" ? said : (ruleOf(code)?.retry ?? false);

/** Reads an error of the service. If one target lacks capacity, another may have it. */
export const readVideoCode: ReadCode = ({ status, code, retryAfterMs }, message) => {
  const rule = code === null ? undefined : ruleOf(code);
  if (code === null || !rule) return null;
  const said = rule.statuses.find((one) => one === status) ?? rule.statuses[0];
  const refusal = { kind: "video_refused", status: said, code, message, retryable: rule.retry, retryAfterMs } as const;
  return { refusal, passedOver: code === "capacity_exceeded" };
};

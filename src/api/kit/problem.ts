/**
 * How this API refuses: one shape, `{"error":{"message","type","param","code"}}`, the same as on the data plane. A
 * handler throws a `Problem`; only `answerError` turns one, or any unexpected error, into HTTP.
 */
import type { Context } from "hono";
import * as z from "zod/mini";
import { DamagedPart } from "../../core/archive/damaged-part.ts";
import type { LogLine } from "../../gateway/ports.ts";

export type ProblemStatus = 400 | 401 | 402 | 403 | 404 | 409 | 413 | 429 | 500 | 503;

export class Problem extends Error {
  readonly status: ProblemStatus;
  readonly code: string;
  /** The faulty field, with dots: `prices.input_tokens.cost_usd`. */
  readonly param: string | null;
  /** Set if a part of the change was made before it was refused: the log of changes keeps that. */
  partly = false;
  /** When to try again; null says nothing. */
  readonly retryAfterSeconds: number | null;

  constructor(
    status: ProblemStatus,
    code: string,
    message: string,
    param: string | null = null,
    retryAfterSeconds: number | null = null,
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export const invalid = (param: string | null, message: string): Problem =>
  new Problem(400, "invalid_request_error", message, param);

export const notFound = (what: string, id: string): Problem =>
  new Problem(404, "not_found", `There is no ${what} '${id}'.`, what);

export const conflict = (code: string, message: string, param: string | null = null): Problem =>
  new Problem(409, code, message, param);

/** The account has the most keys or teams that it may have. */
export const tooMany = (what: "keys" | "teams", most: number): Problem =>
  conflict(
    `too_many_${what}`,
    `This account has as many live ${what} as it may have (${most}). End one that is not used any more.`,
  );

export const ErrorBody = z
  .object({
    error: z.object({
      message: z.string().check(z.describe("What is wrong and what to do")),
      type: z.enum([
        "invalid_request_error",
        "insufficient_quota",
        "requests",
        "tokens",
        "idempotency_error",
        "server_error",
      ]),
      param: z.nullable(z.string()).check(z.describe("The field to blame, in dots")),
      code: z.string(),
    }),
  })
  .register(z.globalRegistry, { id: "Error" });

/** The contract's other error shapes: of video, and of the compute API. */
export const VideoErrorBody = z
  .object({ error: z.string(), code: z.string() })
  .register(z.globalRegistry, { id: "VideoError" });
export const ComputeErrorBody = z.object({ error: z.string() }).register(z.globalRegistry, { id: "ComputeError" });

/** Turns an error from a handler into a response. */
export function answerError(error: unknown, context: Context, log: (line: LogLine) => void): Response {
  const { status, message, param, code, retryAfterSeconds } = asProblem(error);
  if (retryAfterSeconds !== null) context.header("retry-after", String(retryAfterSeconds));
  if (status >= 500) log({ event: "admin_call_failed", status, code, error: String(error) });
  const type =
    status >= 500 ? "server_error" : code === "idempotency_error" ? "idempotency_error" : "invalid_request_error";
  return context.json({ error: { message, type, param, code } }, status);
}

function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof DamagedPart)
    return new Problem(503, "archive_damaged", `${error.message}. Its audit says more.`);
  // The platform sets these flags on errors of an unreachable or overloaded account object.
  const unreachable = error instanceof Error && ("retryable" in error || "overloaded" in error);
  if (unreachable)
    return new Problem(503, "account_unavailable", "The account cannot be asked for a moment. Try again.");
  return new Problem(500, "internal_error", "An internal error; the log has it.");
}

/**
 * The table from refusals to HTTP. Messages tell the client what to do; they never contain a prompt, a key, a host, a
 * credential or a cost.
 */
import { computeToHttp } from "./compute/refusals.ts";
import { formatUsd } from "./pricing/money.ts";
import type { Refusal } from "./refusal.ts";
import { BAD_KEY, LIMIT_WORDS, NAMED_LIMIT_WORDS, ROLE_WORDS } from "./refusal-words.ts";

/** A refusal as HTTP. */
export interface HttpRefusal {
  readonly status: number;
  readonly message: string;
  readonly type: string;
  readonly code: string;
  readonly param: string | null;
  /** Seconds, for `retry-after`. */
  readonly retryAfterSeconds?: number;
  /** The same in ms, for `retry-after-ms`, where clients should not come back all at once. */
  readonly retryAfterMs?: number;
  /** False if a repeat cannot help: sent as `x-should-retry: false`. */
  readonly shouldRetry: boolean;
}

/** SDKs should not retry by themselves after a wait longer than this (docs/design.md, section 5). */
const LONGEST_USEFUL_WAIT_MS = 65_000;
/** SDKs take no notice of a longer `retry-after`, and come back at once. */
const LONGEST_RETRY_AFTER_S = 60;

/** For a failure after which a repeat may be charged twice or fail again. */
const NOT_REPEATED = "Check what it did before you send it again.";

const IDEMPOTENCY: Record<(Refusal & { kind: "idempotency" })["why"], string> = {
  other_body: "This Idempotency-Key was used with another request. Use a new key for a new request.",
  running: "The first request with this Idempotency-Key is still running. Repeat this one when it has ended.",
  not_kept:
    "The request with this Idempotency-Key was completed and charged once, and its answer was not kept. " +
    "Use a new key to run it again.",
};

/** How long each kind of id is kept. */
const KEPT: Record<(Refusal & { kind: "id_not_found" })["what"], string> = {
  response: "responses are kept for 24 hours after the last turn",
  "video job": "video jobs are kept for 7 days",
};

const invalid = (status: number, message: string, param: string | null, code: string): HttpRefusal => ({
  status,
  message,
  type: "invalid_request_error",
  code,
  param,
  shouldRetry: false,
});

const waitable = (retryAfterMs: number | null) => ({
  shouldRetry: retryAfterMs !== null && retryAfterMs <= LONGEST_USEFUL_WAIT_MS,
  ...(retryAfterMs !== null && { retryAfterSeconds: inSeconds(retryAfterMs) }),
});
const inSeconds = (ms: number): number => Math.min(LONGEST_RETRY_AFTER_S, Math.max(1, Math.ceil(ms / 1000)));
/** A wait that is random within a second: the header in seconds is rounded, so that it differs as well. */
const spread = (ms: number) =>
  ms < 2_000 && { retryAfterMs: Math.max(1_000, ms), retryAfterSeconds: Math.max(1, Math.round(ms / 1000)) };

const server = (status: number, message: string, code: string, shouldRetry: boolean): HttpRefusal => ({
  status,
  message,
  type: "server_error",
  code,
  param: null,
  shouldRetry,
});

/** The table from refusals to HTTP (docs/design.md, section 7). */
const TABLE: { readonly [K in Refusal["kind"]]: (refusal: Extract<Refusal, { kind: K }>) => HttpRefusal } = {
  no_key: () => invalid(401, "No API key was sent. Send it as `Authorization: Bearer <key>`.", null, "invalid_api_key"),
  bad_key: (refusal) => invalid(401, BAD_KEY[refusal.why], null, "invalid_api_key"),
  scope_missing: (refusal) =>
    invalid(
      403,
      `This API key has no ${refusal.scope} scope. Use a key that was created with that scope.`,
      null,
      "insufficient_scope",
    ),
  role_too_low: (refusal) => invalid(403, ROLE_WORDS[refusal.role], null, "role_not_allowed"),
  not_your_instance: () =>
    invalid(
      401,
      "This instance does not belong to the account of this API key. Check the instance id, or use a key of its account.",
      "model",
      "invalid_api_key",
    ),
  invalid_request: (refusal) => invalid(400, refusal.message, refusal.param, refusal.code ?? "invalid_request_error"),
  too_large: (refusal) =>
    invalid(
      413,
      `The request body is larger than ${refusal.limitBytes} bytes. Send less in one request.`,
      null,
      "request_too_large",
    ),
  wrong_content_type: (refusal) =>
    invalid(400, `Send the body as \`Content-Type: ${refusal.expected}\`.`, null, "invalid_request_error"),
  wrong_content_encoding: () =>
    invalid(
      415,
      "This Content-Encoding is not read here. Send the body as it is, or as `Content-Encoding: gzip`.",
      null,
      "unsupported_content_encoding",
    ),
  unknown_route: (refusal) =>
    invalid(
      404,
      `${refusal.meant === null ? "" : `Did you mean ${refusal.meant}? `}${refusal.method} ${refusal.path} is not served here. ` +
        "GET /openapi.json lists what is.",
      null,
      "not_found",
    ),
  model_not_found: (refusal) =>
    invalid(
      404,
      `The model \`${refusal.model}\` does not exist or you do not have access to it. GET /v1/models lists what you can call.`,
      "model",
      "model_not_found",
    ),
  model_not_priced: (refusal) => ({
    ...invalid(402, `The model \`${refusal.model}\` has no price yet. Ask your operator.`, "model", "model_not_priced"),
    type: "insufficient_quota",
  }),
  model_not_allowed: (refusal) =>
    invalid(
      403,
      `This API key may not call the model \`${refusal.model}\`. Use an allowed model, or another key.`,
      "model",
      "model_not_allowed",
    ),
  // The message omits the id: another account's id and an unknown one must get the same answer.
  id_not_found: (refusal) =>
    invalid(
      404,
      `No ${refusal.what} with this id is available. Check the id; ${KEPT[refusal.what]}.`,
      null,
      "not_found",
    ),
  rate_limit: (refusal) => ({
    status: 429,
    message:
      `Rate limit reached on the ${refusal.level}: ${refusal.allowed} ${LIMIT_WORDS[refusal.limit]} (${refusal.limit}). ` +
      (refusal.retryAfterMs === null
        ? refusal.allowed === 0
          ? "No request is served until the limit is raised. Ask your operator."
          : "This request alone is larger than the limit. Send a smaller one, or lower its output cap."
        : `Try again in ${Math.max(1, Math.ceil(refusal.retryAfterMs / 1000))} s.`),
    type: refusal.limit === "tpm_limit" ? "tokens" : "requests",
    code: "rate_limit_exceeded",
    param: null,
    ...waitable(refusal.retryAfterMs),
  }),
  budget_spent: (refusal) => ({
    status: 429,
    message:
      `The ${refusal.level}'s budget of ${formatUsd(refusal.budgetNanoUsd)} USD (max_budget, ${refusal.duration}) has no room for this call. ` +
      (refusal.retryAfterMs === null
        ? "Ask for a larger budget."
        : `It renews in ${Math.ceil(refusal.retryAfterMs / 1000)} s, with its next window.`),
    type: "insufficient_quota",
    code: "insufficient_quota",
    param: null,
    ...waitable(refusal.retryAfterMs),
    shouldRetry: false,
  }),
  instance_unpaid: () => ({
    ...invalid(
      402,
      "This instance is paid by the hour, and the balance does not cover its time. Top up; then it is served again.",
      "model",
      "insufficient_quota",
    ),
    type: "insufficient_quota",
  }),
  no_credit: (refusal) => ({
    status: 402,
    message:
      `The balance is insufficient: this call needs up to ${formatUsd(refusal.neededNanoUsd)} USD and ` +
      `${formatUsd(refusal.availableNanoUsd)} USD is available (${formatUsd(refusal.heldNanoUsd)} USD is held by calls in flight). ` +
      "Top up, or lower the output cap.",
    type: "insufficient_quota",
    code: "insufficient_quota",
    param: null,
    shouldRetry: false,
  }),
  busy: (refusal) => ({
    ...server(
      503,
      "The gateway is handling too many large requests. Try again after the seconds in `retry-after`.",
      "overloaded",
      true,
    ),
    ...waitable(refusal.retryAfterMs),
  }),
  unpaid_work: (refusal) => ({
    ...invalid(429, "Too much was sent in calls that were refused; mend them first.", null, "rate_limit_exceeded"),
    ...{ type: "requests", ...waitable(refusal.retryAfterMs) },
  }),
  admission_unavailable: () => ({
    ...server(
      503,
      "The balance and limits of your account could not be checked. Try again in 1 s.",
      "admission_unavailable",
      true,
    ),
    retryAfterSeconds: 1,
  }),
  no_healthy_upstream: (refusal) => ({
    ...server(503, "No region can serve this model now. Try again later.", "no_healthy_upstream", true),
    ...(refusal.retryAfterMs !== null && { ...waitable(refusal.retryAfterMs), ...spread(refusal.retryAfterMs) }),
  }),
  upstream_refused: (refusal) => ({
    ...invalid(refusal.status, refusal.message, refusal.param, refusal.code ?? "invalid_request_error"),
  }),
  upstream_error: ({ repeatable }) =>
    server(
      502,
      `The model server failed on this request. ${repeatable ? "Try again." : NOT_REPEATED}`,
      "upstream_error",
      repeatable,
    ),
  upstream_timeout: ({ repeatable }) =>
    server(
      504,
      `The model server did not answer in time. ${repeatable ? "Try again." : NOT_REPEATED}`,
      "upstream_timeout",
      repeatable,
    ),
  named_limit: (refusal) => ({
    status: 429,
    message:
      `At most ${refusal.limit.count} ${NAMED_LIMIT_WORDS[refusal.limit.name]} in ${refusal.limit.windowMs / 1000} s. ` +
      `Try again in ${Math.max(1, Math.ceil(refusal.retryAfterMs / 1000))} s.`,
    type: "requests",
    code: "rate_limit_exceeded",
    param: null,
    ...waitable(refusal.retryAfterMs),
  }),
  too_many_changes: (refusal) => ({
    status: 429,
    message: `The keys of an account may change ${refusal.allowed} things a ${refusal.in}. Try again later, or ask the operator.`,
    type: "requests",
    code: "rate_limit_exceeded",
    param: null,
    ...waitable(refusal.retryAfterMs),
  }),
  video_refused: (refusal) => ({
    ...invalid(refusal.status, refusal.message, null, refusal.code),
    shouldRetry: refusal.retryable,
    ...(refusal.retryAfterMs !== null && waitable(refusal.retryAfterMs)),
  }),
  outcome_unknown: () =>
    server(
      504,
      "The model server took this request and did not answer. It may have been carried out, so it was not sent again. " +
        "Check the result before you repeat it.",
      "upstream_timeout",
      false,
    ),
  idempotency: (refusal) => ({
    ...invalid(409, IDEMPOTENCY[refusal.why], null, "idempotency_error"),
    type: "idempotency_error",
    ...(refusal.why === "running" && { shouldRetry: true, retryAfterSeconds: 1 }),
  }),
  compute: ({ refusal }) => {
    const { status, message, param, code, retryAfterMs } = computeToHttp(refusal);
    return { ...invalid(status, message, param, code), ...(retryAfterMs !== null && waitable(retryAfterMs)) };
  },
  internal: () =>
    server(
      500,
      "An internal error happened. Try again, and give the request id to your operator if it happens again.",
      "internal_error",
      true,
    ),
};

/** Looks up the refusal in the table. */
export function toHttp<K extends Refusal["kind"]>(refusal: Extract<Refusal, { kind: K }>): HttpRefusal {
  return TABLE[refusal.kind as K](refusal);
}

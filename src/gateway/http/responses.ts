/**
 * The folder `http/` reads requests and upstream answers within bounds of size, pace and memory, and writes the
 * gateway's own responses. It must not know endpoints, money or targets.
 *
 * This file: refusals in the endpoint's error shape, and the headers of every response. An upstream's header passes
 * only if it is named.
 */

import type { Rate, Rates } from "../../core/account/hold.ts";
import { type ErrorShape, errorBody } from "../../core/endpoints/error-shape.ts";
import { toHttp } from "../../core/http-refusal.ts";
import type { CallId } from "../../core/ids.ts";
import type { Refusal } from "../../core/refusal.ts";
import type { Ports } from "../ports.ts";

/** `x-service-region` where no region of the service was asked. */
const EDGE_REGION = "edge";

/** Headers of every response: the call's id, the region that answered, and what is left of the limits. */
export function callHeaders(callId: CallId, region: string | null, rates: Rates | undefined): Headers {
  const headers = new Headers({
    "x-request-id": callId,
    "x-service-request-id": callId,
    "x-service-region": region ?? EDGE_REGION,
    "cache-control": "no-store",
  });
  for (const [sort, rate] of [
    ["requests", rates?.requests],
    ["tokens", rates?.tokens],
  ] as const) {
    if (rate) setRate(headers, sort, rate);
  }
  return headers;
}

function setRate(headers: Headers, sort: "requests" | "tokens", rate: Rate): void {
  headers.set(`x-ratelimit-limit-${sort}`, String(rate.limit));
  headers.set(`x-ratelimit-remaining-${sort}`, String(rate.remaining));
  headers.set(`x-ratelimit-reset-${sort}`, formatReset(rate.resetMs));
}

/** A duration in the form of OpenAI's reset headers: `6m0s`, `1s`, `120ms`. */
function formatReset(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.ceil(ms))}ms`;
  const seconds = Math.ceil(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  return `${hours ? `${hours}h` : ""}${hours || minutes ? `${minutes}m` : ""}${seconds % 60}s`;
}

/** A refusal as a response. */
export function refuse(refusal: Refusal, callId: CallId, shape: ErrorShape, rates?: Rates): Response {
  const http = toHttp(refusal);
  const headers = callHeaders(callId, null, rates);
  headers.set("content-type", "application/json");
  if (http.retryAfterSeconds !== undefined) headers.set("retry-after", String(http.retryAfterSeconds));
  if (http.retryAfterMs !== undefined) headers.set("retry-after-ms", String(http.retryAfterMs));
  if (!http.shouldRetry) headers.set("x-should-retry", "false");
  return new Response(JSON.stringify(errorBody(http, shape)), { status: http.status, headers });
}

/** The answer to a call that threw: a defect of ours, which the log has. */
export function refuseCrashed(error: unknown, shape: ErrorShape, ports: Pick<Ports, "log" | "newCallId">): Response {
  ports.log({ event: "request_crashed", error: String(error) });
  return refuse({ kind: "internal" }, ports.newCallId(), shape);
}

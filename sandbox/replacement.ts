/** The answers that a fault sends in place of the real one. */
import type { MetFaults } from "./faults.ts";
import { type ErrorShape, refusalBody } from "./refusal.ts";

type Headers = Readonly<Record<string, string>>;

export function replacement(met: MetFaults, request: Request, errors: ErrorShape, headers: Headers): Response {
  if (met.redirect) {
    const location = met.redirect.location ?? "https://elsewhere.example/v1";
    return new Response(null, { status: 302, headers: { ...headers, location } });
  }
  if (met.echo_headers) return echo(request, errors, headers);
  if (met.json_error_200) {
    const error = { message: "The engine failed.", type: "server_error", param: null, code: "internal_error" };
    return Response.json({ error }, { headers });
  }
  return asStatus(met.status, errors, headers);
}

function asStatus(fault: MetFaults["status"], errors: ErrorShape, headers: Headers): Response {
  const status = fault?.status ?? 500;
  const all = { ...headers, ...fault?.headers };
  if ([204, 205, 304].includes(status)) return new Response(null, { status, headers: all });
  if (typeof fault?.body === "string") {
    return new Response(fault.body, { status, headers: { "content-type": "text/plain", ...all } });
  }
  const body =
    fault?.body ??
    refusalBody({ status, code: codeOf(status, errors), message: `Fault ${status}.`, param: null }, errors);
  return Response.json(body, { status, headers: all });
}

const VIDEO_CODES_BY_STATUS: Readonly<Record<number, string>> = {
  429: "capacity_exceeded",
  502: "internal_error",
  503: "model_unavailable",
  504: "generation_timeout",
};

/** The code for a status if the fault gives none. */
function codeOf(status: number, errors: ErrorShape): string {
  if (errors === "video" && VIDEO_CODES_BY_STATUS[status]) return VIDEO_CODES_BY_STATUS[status];
  if (status === 401) return "invalid_api_key";
  if (status === 402) return "insufficient_quota";
  if (status === 404) return "model_not_found";
  if (status === 429) return "rate_limit_exceeded";
  return status >= 500 ? "internal_error" : "invalid_request";
}

/** A careless error text: all received headers, the credential included. */
function echo(request: Request, errors: ErrorShape, headers: Headers): Response {
  const received = [...request.headers].map(([name, value]) => `${name}: ${value}`).join("; ");
  const refusal = { status: 400, code: "invalid_request", message: `Received ${received}`, param: null };
  return Response.json(refusalBody(refusal, errors), { status: 400, headers });
}

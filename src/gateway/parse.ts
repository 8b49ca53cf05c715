/**
 * From a request to a call: its body, read within the endpoint's limit, and what the endpoint's entry makes of it.
 */
import type { Endpoint, ParsedCall } from "../core/endpoints/endpoint.ts";
import { parseJson } from "../core/json.ts";
import type { Refusal } from "../core/refusal.ts";
import { readBody } from "./body.ts";

const refused = (refusal: Refusal): ParsedCall => ({ ok: false, refusal });

export async function parse(request: Request, endpoint: Endpoint): Promise<ParsedCall> {
  if (!isJson(request.headers.get("content-type"))) {
    return refused({ kind: "wrong_content_type", expected: "application/json" });
  }
  const bytes = await readBody(request, endpoint.maxBytes);
  if (bytes === "too_large") return refused({ kind: "too_large", limitBytes: endpoint.maxBytes });
  if (bytes === "broken") {
    return refused({ kind: "invalid_request", message: "The request body ended early.", param: null });
  }
  const json = parseJson(bytes);
  if (!json.ok) return refused({ kind: "invalid_request", message: json.message, param: null });
  return endpoint.parse(json.value);
}

const isJson = (contentType: string | null): boolean =>
  contentType !== null && /^application\/json\s*(;|$)/i.test(contentType.trim());

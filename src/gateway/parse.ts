/**
 * From a request to a call: its body, read within the endpoint's limit, and what the endpoint's entry makes of it.
 */
import type { RawBody } from "../core/endpoints/body.ts";
import type { Endpoint, ParsedCall } from "../core/endpoints/endpoint.ts";
import { parseJson } from "../core/json.ts";
import { freshBoundary } from "../core/multipart/form-writer.ts";
import { boundaryOf, parseForm } from "../core/multipart.ts";
import type { Refusal } from "../core/refusal.ts";
import { type BodyHolder, free, readBody } from "./body.ts";
import { BUSY } from "./body-gate.ts";

type ReadBody = { ok: true; body: RawBody } | { ok: false; refusal: Refusal };

const refused = (refusal: Refusal): ReadBody => ({ ok: false, refusal });
const malformed = (message: string): ReadBody => refused({ kind: "invalid_request", message, param: null });

/** `params`: what the path names. `holder`: holds its body. */
export async function parse(
  request: Request,
  endpoint: Endpoint,
  params: Readonly<Record<string, string>>,
  holder: BodyHolder,
): Promise<ParsedCall> {
  const read = await readRaw(request, endpoint.body, holder);
  if (!read.ok) return read;
  const { pathname, search } = new URL(request.url);
  return endpoint.parse({ askedPath: pathname + search, params, body: read.body });
}

async function readRaw(request: Request, rule: Endpoint["body"], holder: BodyHolder): Promise<ReadBody> {
  if (rule.kind === "none") return { ok: true, body: { kind: "none" } };
  const contentType = request.headers.get("content-type");
  if (rule.kind === "json" && !isType(contentType, "application/json")) {
    return refused({ kind: "wrong_content_type", expected: "application/json" });
  }
  if (rule.kind === "form" && !isType(contentType, "multipart/form-data")) {
    return refused({ kind: "wrong_content_type", expected: "multipart/form-data; boundary=..." });
  }
  const found = rule.kind === "form" ? boundaryOf(contentType ?? "") : undefined;
  if (found?.ok === false) return malformed(found.message);
  const bytes = await readBody(request, rule.maxBytes, holder.roomFor);
  if (bytes === "busy") return refused(BUSY);
  if (bytes === "too_large") return refused({ kind: "too_large", limitBytes: rule.maxBytes });
  if (bytes === "broken") return malformed("The request body ended early.");
  if (rule.kind !== "json") holder.keep(bytes);
  return take(rule.kind, bytes, contentType, found?.boundary ?? "");
}

function take(kind: RawBody["kind"], bytes: Uint8Array, contentType: string | null, boundary: string): ReadBody {
  if (kind === "any") return { ok: true, body: { kind, contentType, bytes } };
  if (kind === "form") {
    const form = parseForm(bytes, boundary);
    if (!form.ok) return malformed(form.message);
    // Made once all of the form is here: nobody could write it into the form.
    const fresh = freshBoundary(crypto.getRandomValues(new Uint8Array(16)));
    return { ok: true, body: { kind, boundary: fresh, parts: form.parts } };
  }
  const json = parseJson(bytes);
  // What was read is values now.
  free(bytes);
  return json.ok ? { ok: true, body: { kind: "json", value: json.value } } : malformed(json.message);
}

const isType = (contentType: string | null, type: string): boolean =>
  contentType?.split(";")[0]?.trim().toLowerCase() === type;

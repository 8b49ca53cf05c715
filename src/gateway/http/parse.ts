/**
 * From a request to a call: its body, read within the endpoint's limit, and what the endpoint's entry makes of it.
 */
import type { RawBody } from "../../core/endpoints/body.ts";
import type { Endpoint } from "../../core/endpoints/endpoint.ts";
import { parseInSteps } from "../../core/formats/json.ts";
import { freshBoundary } from "../../core/formats/multipart/form-writer.ts";
import { boundaryOf, parseForm } from "../../core/formats/multipart.ts";
import { type Outcome, refused } from "../../core/outcome.ts";
import type { IdentifiedCall, ParsedCall, Step } from "../call.ts";
import type { Ports } from "../ports.ts";
import { free, readBody } from "./body-reader.ts";
import { inTurns } from "./turns.ts";
import type { BodyKeeper } from "./upload-slot.ts";

type ReadBody = Outcome<{ body: RawBody }>;

type TurnPorts = Pick<Ports, "bodies" | "now" | "after">;

const malformed = (message: string): ReadBody => refused({ kind: "invalid_request", message, param: null });

export async function parse(identified: IdentifiedCall, ports: TurnPorts): Promise<Step<ParsedCall>> {
  const { request, endpoint, params, place, caller } = identified;
  const read = await readRaw(request, endpoint.body, place.of(caller), ports);
  if (!read.ok) return read;
  const { pathname, search } = new URL(request.url);
  const steps = endpoint.parseInSteps({ askedPath: pathname + search, params, body: read.body });
  const parsed = await inTurns(steps, ports);
  return parsed.ok ? { ok: true, call: { ...identified, call: parsed.call } } : parsed;
}

/** `holder`: holds the body. */
export async function readRaw(
  request: Request,
  rule: Endpoint["body"],
  holder: BodyKeeper,
  ports: TurnPorts,
): Promise<ReadBody> {
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
  const upload = await readBody(request, rule.maxBytes, holder, () => ports.now(), ports.after);
  if (!upload.ok) return upload;
  const unpaid = holder.parsing(upload.bytes.length);
  if (unpaid) return refused(unpaid);
  if (rule.kind === "json" && MARK.every((byte, at) => upload.bytes[at] === byte)) {
    return malformed("The request body begins with a byte order mark; send it without.");
  }
  if (rule.kind === "json") return takeJson(upload.bytes, holder, ports);
  holder.keep(upload.bytes);
  if (rule.kind === "any") return { ok: true, body: { kind: "any", contentType, bytes: upload.bytes } };
  const form = parseForm(upload.bytes, found?.boundary ?? "");
  if (!form.ok) return malformed(form.message);
  // Made once all of the form is here: nobody could write it into the form.
  const fresh = freshBoundary(crypto.getRandomValues(new Uint8Array(16)));
  return { ok: true, body: { kind: "form", boundary: fresh, parts: form.parts } };
}

/** UTF-8's byte order mark. */
const MARK = [0xef, 0xbb, 0xbf];

/** The bytes are given back once the value is made. */
async function takeJson(bytes: Uint8Array, holder: BodyKeeper, ports: TurnPorts): Promise<ReadBody> {
  const read = await inTurns(parseInSteps(bytes), ports);
  free(bytes);
  holder.counted(read.values);
  return read.ok ? { ok: true, body: { kind: "json", value: read.value } } : malformed(read.message);
}

const isType = (contentType: string | null, type: string): boolean =>
  contentType?.split(";")[0]?.trim().toLowerCase() === type;

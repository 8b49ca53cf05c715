/**
 * The endpoint table's type: an endpoint as a value.
 *
 * `endpoint()` checks an entry against its own schema's type and then erases that type: what comes out of `parse` is a
 * plain `Call`, so nothing after it knows which endpoint it serves. Adding an endpoint is adding an entry.
 */
import type * as z from "zod";
import type { RetryClass } from "../failure.ts";
import type { Bound } from "../hold.ts";
import type { AnswerReader, Meter, Sent } from "../meters/meter.ts";
import type { ModelKind, ModelRow } from "../prices.ts";
import type { Refusal } from "../refusal.ts";
import { type JsonPayload, jsonPayload } from "./payload.ts";
import { findRefused } from "./refused.ts";

/** Which shape errors have on an endpoint. */
export type ErrorShape = "openai" | "video" | "compute";

/** JSON bodies up to this many bytes. */
export const MAX_JSON_BYTES = 20 * 1024 * 1024;

/** One validated call, whatever its endpoint. */
export interface Call {
  /** The model as the tenant named it. */
  readonly model: string;
  readonly payload: JsonPayload;
  /** Fields that tell the tenant's users apart; they go upstream as pseudonyms only. */
  readonly pseudonyms: Readonly<Record<string, string>>;
  /** The media type of the answer asked for. */
  readonly accept: string;
  /** `modelBytes`: the longest name that a target has for the model. */
  bound(row: ModelRow, modelBytes: number): Bound;
  /** A fresh reader for the answer of one try. */
  reader(sent: Sent): AnswerReader;
}

export type ParsedCall = { ok: true; call: Call } | { ok: false; refusal: Refusal };

/** An entry of the table, as the pipeline sees it. */
export interface Endpoint {
  /** Names the endpoint in reports, e.g. `chat.completions`. */
  readonly id: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  /** One line for the README and the OpenAPI document. */
  readonly summary: string;
  readonly maxBytes: number;
  /** Kinds of models it serves. */
  readonly kinds: readonly ModelKind[];
  readonly retry: RetryClass;
  readonly errors: ErrorShape;
  /** The documented field in which an output cap is sent; null where there is none. */
  readonly capField: string | null;
  /** Of the JSON body, for documents. */
  readonly schema: z.ZodType;
  parse(body: unknown): ParsedCall;
}

/** What a field of the table's entries says about the body. */
export interface EndpointEntry<Body extends object> {
  readonly id: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly summary: string;
  readonly body: z.ZodType<Body>;
  /** The field that names the model. */
  readonly model: keyof Body & string;
  readonly kinds: readonly ModelKind[];
  readonly meter: Meter<Body>;
  readonly retry: RetryClass;
  readonly errors: ErrorShape;
  readonly accept: (body: Body) => string;
  /** The documented field for the output cap, and other fields that say the same and must not contradict it. */
  readonly cap?: { readonly field: string; readonly replaces: readonly string[] };
  /** Fields that are set over the caller's, e.g. to have usage reported. */
  readonly forced?: (body: Body) => Record<string, unknown>;
  /** UTF-8 bytes of data URLs, whose content is charged per part and not as text. */
  readonly dataUrlBytes?: (body: Body) => number;
}

/** Tell one of the tenant's users from another; what they say is the tenant's business. */
const PSEUDONYMOUS = ["user", "safety_identifier", "prompt_cache_key"] as const;

/** Builds a table entry. */
export function endpoint<Body extends object>(entry: EndpointEntry<Body>): Endpoint {
  return {
    id: entry.id,
    method: entry.method,
    path: entry.path,
    summary: entry.summary,
    maxBytes: MAX_JSON_BYTES,
    kinds: entry.kinds,
    retry: entry.retry,
    errors: entry.errors,
    capField: entry.cap?.field ?? null,
    schema: entry.body,
    parse: (body) => parseCall(entry, body),
  };
}

function parseCall<Body extends object>(entry: EndpointEntry<Body>, raw: unknown): ParsedCall {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) {
    return refuse("The request body must be a JSON object.", null);
  }
  const refused = findRefused(raw);
  if (refused) return refuse(`\`${refused.path}\` is not accepted: ${refused.why}.`, refused.path);
  const checked = entry.body.safeParse(raw);
  if (!checked.success) return refuseIssue(checked.error);
  // What is sent are the caller's own values; the schema only judges them.
  const body = checked.data;
  const { rest, pseudonyms } = split(entry, raw as Record<string, unknown>, body);
  const payload = jsonPayload(rest, entry.dataUrlBytes?.(body) ?? 0);
  return {
    ok: true,
    call: {
      model: String(body[entry.model]),
      payload,
      pseudonyms,
      accept: entry.accept(body),
      bound: (row, modelBytes) => entry.meter.bound(body, payload.countedBytes + modelBytes, row),
      reader: (sent) => entry.meter.reader(body, sent),
    },
  };
}

/** Parts the caller's fields into those sent as they are and those set anew for each try. */
function split<Body extends object>(entry: EndpointEntry<Body>, raw: Record<string, unknown>, body: Body) {
  const rest: Record<string, unknown> = { ...raw, ...entry.forced?.(body) };
  delete rest[entry.model];
  for (const field of entry.cap ? [entry.cap.field, ...entry.cap.replaces] : []) delete rest[field];
  const pseudonyms: Record<string, string> = {};
  for (const field of PSEUDONYMOUS) {
    const value = rest[field];
    if (value === undefined || value === null) continue;
    pseudonyms[field] = typeof value === "string" ? value : JSON.stringify(value);
    delete rest[field];
  }
  return { rest, pseudonyms };
}

function refuse(message: string, param: string | null): ParsedCall {
  return { ok: false, refusal: { kind: "invalid_request", message, param } };
}

/** The first thing wrong, with the field's path as OpenAI writes it. */
function refuseIssue(error: z.ZodError): ParsedCall {
  const issue = error.issues[0];
  const param = issue ? pathOf(issue.path) : "";
  return refuse(
    param ? `Invalid \`${param}\`: ${issue?.message}` : (issue?.message ?? "Invalid request."),
    param || null,
  );
}

export function pathOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    return text ? `${text}.${String(step)}` : String(step);
  }, "");
}

/**
 * The endpoint table's type: an endpoint as a value.
 *
 * `endpoint()` checks an entry against its own body's type and then erases that type: what comes out of `parse` is a
 * plain `Call`, so nothing after it knows which endpoint it serves. Adding an endpoint is adding an entry.
 */
import type * as z from "zod";
import type { Bound } from "../account/hold.ts";
import type { MemberRules } from "../formats/answer-filter.ts";
import type { AnswerReader, Measured, MeasuredBody, Meter, Sent } from "../meters/meter.ts";
import { NO_PARTS, type Parts } from "../meters/parts.ts";
import { boundless } from "../meters/tokens.ts";
import type { Outcome } from "../outcome.ts";
import type { OwnedRef } from "../owned.ts";
import type { ModelKind, ModelRow } from "../pricing/prices.ts";
import type { Refusal } from "../refusal.ts";
import type { RetryClass } from "../routing/failure.ts";
import type { VideoUnit } from "../video/rates.ts";
import { answerRules } from "./answer-names.ts";
import { type BodyKind, type BodyRule, identityOf, type RawBody } from "./body.ts";
import type { Payload } from "./payload.ts";

/** Which shape errors have on an endpoint. */
export type ErrorShape = "openai" | "video" | "compute";

/**
 * How the pipeline serves a row. `call`: forwarded, charged when it was answered. `job`: quoted by the upstream first, then
 * submitted; its hold lives on with the job that the answer names. `quote`: asks what a job may come to; counts as a
 * request and costs nothing. `poll`: a job's state, which the account object asks for. `prices`: answered from the
 * tenant's prices.
 */
export type Manner = "call" | "job" | "quote" | "poll" | "prices";

/** A request as the table takes it: its path, what that names, and a body read within its limit. */
export interface RawCall {
  /** As it stood in the URL, not decoded. */
  readonly askedPath: string;
  readonly params: Readonly<Record<string, string>>;
  readonly body: RawBody;
}

/** A recording that a call sends. */
interface Recording {
  readonly bytes: Uint8Array;
  /** The field that it stands in. */
  readonly field: string;
  /** A longer one is refused; null where any length will do. */
  readonly longestMs: number | null;
}

/** One validated call, whatever its endpoint. */
export interface Call {
  /** The model as the tenant named it; null where something else that the call names decides. */
  readonly model: string | null;
  /** The instance that the path names, as text, and the path as it was asked; null on other endpoints. */
  readonly instance: { readonly id: string; readonly askedPath: string } | null;
  /** The upstream's path, built from stored parts only. */
  readonly path: string;
  readonly payload: Payload;
  /** Fields that tell the tenant's users apart; they go upstream as pseudonyms only. */
  readonly pseudonyms: Readonly<Record<string, string>>;
  /** The media type of the answer asked for. */
  readonly accept: string;
  /** True where the client reads the answer while it is made. */
  readonly streams: boolean;
  /** Ids of the service that the call names: each must be the account's own. The first one pins the target. */
  readonly owned: readonly OwnedRef[];
  /** The rate that the job is charged by which is submitted or asked about; null on other endpoints. */
  readonly jobUnit: VideoUnit | null;
  /** A recording whose length the bound needs; measured by the pipeline. */
  readonly recording: Recording | null;
  /** What tells this call's body from another's, where the call makes something. */
  identity(): readonly Uint8Array<ArrayBuffer>[];
  /** Why the row names no bound for this call; null where it does. */
  boundless(row: ModelRow): Refusal | null;
  /** The true upper bound. */
  bound(row: ModelRow, measured: Measured): Bound;
  /** A fresh reader for the answer of one try; `sent` is null where the call costs nothing. */
  reader(sent: Sent | null): AnswerReader;
}

type ParsedCall = Outcome<{ call: Call }>;

/** An entry of the table, as the pipeline sees it. */
export interface Endpoint {
  /** Names the endpoint in reports, e.g. `chat.completions`. */
  readonly id: string;
  readonly method: "GET" | "POST";
  /** With `{name}` where the path has a parameter, `{name*}` where that may have slashes. */
  readonly path: string;
  /** One line for the OpenAPI document. */
  readonly summary: string;
  readonly body: { readonly kind: BodyKind; readonly maxBytes: number; readonly schema: z.ZodType | null };
  /** Kinds of models it serves. */
  readonly kinds: readonly ModelKind[];
  /** Whether user instances may be called here. */
  readonly instances: boolean;
  readonly manner: Manner;
  /** A call that costs nothing takes no hold; the account object only says whether its key is live. */
  readonly free: boolean;
  readonly retry: RetryClass;
  readonly errors: ErrorShape;
  /** The field that names the model in the body; null where none does. */
  readonly modelField: string | null;
  /** The documented field in which an output cap is sent; null where there is none. */
  readonly capField: string | null;
  /** What kind of id the answer carries that is the account's from then on; null where none. */
  readonly creates: OwnedRef["kind"] | null;
  /** What of a JSON answer passes. */
  readonly answerRules: MemberRules;
  parse(raw: RawCall): ParsedCall;
}

/** An entry as it is written. What is left out takes the default beside it. */
export interface EndpointEntry<Body> {
  readonly id: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly summary: string;
  readonly body: BodyRule<Body>;
  /** The body's field that names the model (none). */
  readonly model?: keyof Body & string;
  /** The path's parameter that names the model, where the body does not (none). */
  readonly modelParam?: string;
  /** (`call`.) */
  readonly manner?: Manner;
  /** The path's parameter that names a custom instance, in place of a model (none). */
  readonly instance?: string;
  readonly kinds: readonly ModelKind[];
  /** (No.) */
  readonly instances?: boolean;
  /** Left out: the call costs nothing. */
  readonly meter?: Meter<NoInfer<Body>>;
  readonly retry: RetryClass;
  readonly errors: ErrorShape;
  /** The media type asked for (`application/json`). */
  readonly accept?: (body: Body) => string;
  /** (No.) */
  readonly streams?: (body: Body) => boolean;
  /** The documented field for the output cap, and other fields that say the same and must not contradict it. */
  readonly cap?: { readonly field: string; readonly replaces: readonly string[] };
  /** Fields that are set over the caller's, e.g. to have usage reported. */
  readonly forced?: (body: Body) => Record<string, unknown>;
  /** Parts that a model reads as something other than text (none). */
  readonly parts?: (body: Body) => Parts;
  readonly recording?: (body: Body) => Recording;
  readonly jobUnit?: (body: Body) => VideoUnit;
  readonly creates?: OwnedRef["kind"];
  /** Names of a JSON answer's outermost members that pass (all of them: it is written anew, or no JSON). */
  readonly answer?: ReadonlySet<string>;
  /** Where ids of the service stand: `path.id` or a field of the body. */
  readonly owned?: readonly { readonly kind: OwnedRef["kind"]; readonly at: string }[];
}

/** Tell one of the tenant's users from another; what they say is the tenant's business. */
const PSEUDONYMOUS = ["user", "safety_identifier", "prompt_cache_key"] as const;

/** Builds a table entry. */
export function endpoint<Body>(entry: EndpointEntry<Body>): Endpoint {
  return {
    id: entry.id,
    method: entry.method,
    path: entry.path,
    summary: entry.summary,
    body: { kind: entry.body.kind, maxBytes: entry.body.maxBytes, schema: entry.body.schema },
    kinds: entry.kinds,
    instances: entry.instances ?? false,
    manner: entry.manner ?? "call",
    free: entry.meter === undefined,
    retry: entry.retry,
    errors: entry.errors,
    modelField: entry.model ?? null,
    capField: entry.cap?.field ?? null,
    creates: entry.creates ?? null,
    answerRules: answerRules(entry.answer ?? null),
    parse: (raw) => parseCall(entry, raw),
  };
}

function parseCall<Body>(entry: EndpointEntry<Body>, raw: RawCall): ParsedCall {
  const capFields = entry.cap ? [entry.cap.field, ...entry.cap.replaces] : [];
  let parts = NO_PARTS;
  const parsed = entry.body.parse(raw.body, {
    taken: [...(entry.model ? [entry.model] : []), ...capFields, ...PSEUDONYMOUS],
    forced: entry.forced ?? (() => ({})),
    dataUrlBytes: (body) => {
      parts = entry.parts?.(body) ?? NO_PARTS;
      return parts.dataUrlBytes;
    },
  });
  if (!parsed.ok) return parsed;
  const { body, payload } = parsed;
  const fields = body as Record<string, unknown> | null;
  const owned = ownedRefs(entry, raw.params, fields);
  const found = (measured: Measured): MeasuredBody => ({ ...measured, parts, ownBytes: payload.ownBytes });
  return {
    ok: true,
    call: {
      model: entry.model ? String(body[entry.model]) : entry.modelParam ? (raw.params[entry.modelParam] ?? "") : null,
      instance: entry.instance ? { id: raw.params[entry.instance] ?? "", askedPath: raw.askedPath } : null,
      path: fillPath(entry.path, raw.params),
      payload,
      pseudonyms: pseudonymsOf(fields),
      accept: entry.accept?.(body) ?? "application/json",
      streams: entry.streams?.(body) ?? false,
      owned,
      jobUnit: entry.jobUnit?.(body) ?? null,
      recording: entry.recording?.(body) ?? null,
      identity: entry.retry === "safe" ? noIdentity : identifying(raw.body),
      boundless: (row) => boundless(parts, row),
      bound: (row, measured) => entry.meter?.bound(body, found(measured), row) ?? { fixed: {} },
      reader: (sent) =>
        entry.meter && sent ? entry.meter.reader(body, { ...sent, measured: found(sent.measured) }) : freeReader(),
    },
  };
}

/** A call that makes nothing is not told from another: its raw body need not be kept. */
const noIdentity = () => [];
const identifying = (body: RawBody) => () => identityOf(body);

/** For an answer that costs nothing: any JSON object without an error is one. */
function freeReader(): AnswerReader {
  return {
    kind: "json",
    read: (answer) => typeof answer === "object" && answer !== null && !(answer as { error?: unknown }).error,
    reading: () => ({ source: "exact", usage: {} }),
  };
}

function ownedRefs(
  entry: Pick<EndpointEntry<unknown>, "owned">,
  params: Readonly<Record<string, string>>,
  fields: Record<string, unknown> | null,
): OwnedRef[] {
  return (entry.owned ?? []).flatMap(({ kind, at }) => {
    const id = at.startsWith("path.") ? params[at.slice(5)] : fields?.[at];
    return typeof id === "string" ? [{ kind, id }] : [];
  });
}

/**
 * An id in a path is looked up before it is sent; encoded, it cannot leave its place. An instance's path is not made
 * here but from what is stored of it.
 */
function fillPath(path: string, params: Readonly<Record<string, string>>): string {
  return path.replace(/\{(\w+)\*?\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
}

function pseudonymsOf(fields: Record<string, unknown> | null): Record<string, string> {
  const pseudonyms: Record<string, string> = {};
  for (const field of PSEUDONYMOUS) {
    const value = fields?.[field];
    if (value === undefined || value === null) continue;
    pseudonyms[field] = typeof value === "string" ? value : JSON.stringify(value);
  }
  return pseudonyms;
}

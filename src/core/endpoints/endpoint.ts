/**
 * The endpoint table's type: an endpoint as a value.
 *
 * `endpoint()` checks an entry against its own body's type and then erases that type: what comes out of `parse` is a
 * plain `Call`, so nothing after it knows which endpoint it serves. Adding an endpoint is adding an entry.
 */
import type * as z from "zod";
import type { MemberRules } from "../formats/answer-filter.ts";
import type { AnswerReader, Measured, MeasuredBody, Meter } from "../meters/meter.ts";
import { NO_PARTS, type Parts } from "../meters/parts.ts";
import { boundless } from "../meters/tokens.ts";
import type { Outcome } from "../outcome.ts";
import type { Owned, OwnedRef } from "../owned.ts";
import type { ModelKind, ModelRow } from "../pricing/prices.ts";
import type { ReadCode, RetryClass } from "../routing/failure.ts";
import type { VideoUnit } from "../video/rates.ts";
import { answerRules } from "./answer-names.ts";
import { type BodyKind, type BodyRule, identityOf, type RawBody } from "./body.ts";
import type { Call, ParseResult, RawCall, Recording } from "./call.ts";
import type { ErrorShape } from "./error-shape.ts";

/**
 * How the pipeline serves a row; each has its file in `gateway/flows/`. `forwarded`: held, sent, charged when it was
 * answered. `job`: quoted by the upstream first, by the row named, then submitted; its hold lives on with the job that the
 * answer names. `quote`: asks what a job may come to; counts as a request and costs nothing. `poll`: a job's state, which
 * the account object asks for. `prices`: answered from the tenant's prices. `free`: sent to where the id that it names
 * lives; costs nothing. `local`: answered from what the gateway knows.
 */
type Flow =
  | { readonly kind: "forwarded" | "quote" | "poll" | "prices" | "free" }
  | { readonly kind: "job"; readonly quotedBy: Endpoint }
  | { readonly kind: "local"; answer(call: Call, facts: LocalFacts): LocalAnswer };

/** What a row that is answered here may know: nothing of it is secret to the key. */
interface LocalFacts {
  /** The models that the key may call now. */
  readonly models: readonly ModelRow[];
}
/** `missing`: a name that is not known here; the operator's books are asked before this refusal is told. */
export type LocalAnswer = Outcome<{ body: unknown }, { missing?: boolean }>;

/** How the answer of a call is made again, from the id that it handed out, when the call is repeated. */
export type ReadBack =
  | { readonly kind: "known"; answer(created: Owned): string }
  | { readonly kind: "asked"; readonly by: Endpoint; asEvents(answer: Record<string, unknown>): string };

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
  readonly flow: Flow;
  readonly retry: RetryClass;
  readonly errors: ErrorShape;
  /** What the codes in an upstream's errors mean; null where only its statuses count. */
  readonly readCode: ReadCode | null;
  /** Nothing is made for the answer: its first byte is due as soon as a stream's. */
  readonly atHand: boolean;
  /** Only a whole JSON answer is of use: a longer one than is held is none. */
  readonly wholeAnswer: boolean;
  /** The body stands for an idempotency key that was not sent. */
  readonly bodyIsKey: boolean;
  /** Null where a repeat's answer cannot be made again. */
  readonly readBack: ReadBack | null;
  /** The field that names the model in the body; null where none does. */
  readonly modelField: string | null;
  /** The documented field in which an output cap is sent; null where there is none. */
  readonly capField: string | null;
  /** What kind of id the answer carries that is the account's from then on; null where none. */
  readonly creates: OwnedRef["kind"] | null;
  /** What of a JSON answer passes. */
  readonly answerRules: MemberRules;
  /** Of an answer that is the gateway's own, for the OpenAPI document; null where it is the service's. */
  readonly answerSchema: z.ZodType | null;
  parse(raw: RawCall): ParseResult;
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
  readonly flow: Flow;
  /** The path's parameter that names a custom instance, in place of a model (none). */
  readonly instance?: string;
  readonly kinds: readonly ModelKind[];
  /** (No.) */
  readonly instances?: boolean;
  /** Of a call that costs something. */
  readonly meter?: Meter<NoInfer<Body>>;
  readonly retry: RetryClass;
  readonly errors: ErrorShape;
  readonly readCode?: ReadCode;
  readonly readBack?: ReadBack;
  readonly answerSchema?: z.ZodType;
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
    flow: entry.flow,
    retry: entry.retry,
    errors: entry.errors,
    readCode: entry.readCode ?? null,
    atHand: entry.meter === undefined,
    wholeAnswer: entry.flow.kind === "job" || entry.flow.kind === "quote",
    bodyIsKey: entry.flow.kind === "job",
    readBack: entry.readBack ?? null,
    modelField: entry.model ?? null,
    capField: entry.cap?.field ?? null,
    creates: entry.creates ?? null,
    answerRules: answerRules(entry.answer ?? null),
    answerSchema: entry.answerSchema ?? null,
    parse: (raw) => parseCall(entry, raw),
  };
}

function parseCall<Body>(entry: EndpointEntry<Body>, raw: RawCall): ParseResult {
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

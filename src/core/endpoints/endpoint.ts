/**
 * Endpoints: the contract as a table of values (`core/endpoints`). A row says how its body is checked, what the call
 * may use, and which parts of the answer a tenant may see. Endpoints must not know who calls, which target serves, or
 * what it costs.
 *
 * `endpoint()` checks an entry against its own body type and then erases that type: `parse` returns a plain `Call`, so
 * nothing downstream depends on the endpoint. To add an endpoint, add an entry.
 */
import type * as z from "zod/mini";
import type { CallAccess } from "../account/call-access.ts";
import type { Role, Scope } from "../account/tenant.ts";
import type { MemberRules } from "../formats/answer-filter.ts";
import type { AnswerReader, JsonReader, Measured, MeasuredBody, Meter } from "../meters/meter.ts";
import { NO_PARTS, type Parts } from "../meters/parts.ts";
import { boundless } from "../meters/tokens.ts";
import type { Outcome } from "../outcome.ts";
import type { Owned, OwnedRef } from "../owned.ts";
import type { ModelKind, ModelRow } from "../pricing/prices.ts";
import type { NamedLimit } from "../refusal.ts";
import type { ReadCode, RetryClass } from "../routing/failure.ts";
import { type Steps, toEnd } from "../steps.ts";
import type { VideoUnit } from "../video/rates.ts";
import { answerRules } from "./answer-names.ts";
import { type BodyKind, type BodyRule, identityOf } from "./body.ts";
import type { Call, ParseResult, RawCall, Recording } from "./call.ts";
import type { ErrorShape } from "./error-shape.ts";
import { checkQuery, type PassedQuery, passedQuery } from "./inspection/query.ts";
import type { RefusedField } from "./inspection/refused.ts";
import { Kept, without } from "./kept.ts";

/**
 * How the pipeline serves a row; each flow has its file in `gateway/flows/`.
 *
 * `forwarded`: takes a hold, is sent, and is charged when answered. `job`: first quoted by the upstream through
 * `quotedBy`, then submitted; its hold stays open for the job that the answer names. `quote`: asks what a job may cost;
 * free, but counts as a request. `poll`: a job's state, fetched by the account object. `prices`: answered from the
 * tenant's prices. `free`: sent to the target where the named id is kept; costs nothing. `local`: answered by the
 * gateway alone.
 */
type Flow =
  | { readonly kind: "forwarded" | "quote" | "poll" | "prices" | "free" }
  | { readonly kind: "job"; readonly quotedBy: Endpoint }
  | { readonly kind: "local"; answer(call: Call, facts: LocalFacts): LocalAnswer };

/** What a `local` row may use for its answer. The key may see all of it. */
interface LocalFacts {
  /** The models that the key can call now. */
  readonly models: readonly ModelRow[];
}
/** `missing`: the name is not in the routing snapshot; the operator's books are checked before refusing. */
export type LocalAnswer = Outcome<{ body: unknown }, { missing?: boolean }>;

/** How to rebuild a call's answer for a repeat, from the id that it created. */
export type ReadBack =
  | { readonly kind: "known"; answer(created: Owned): string }
  | { readonly kind: "asked"; readonly by: Endpoint; asEvents(answer: Record<string, unknown>): string };

/** A table entry as the pipeline sees it. */
export interface Endpoint {
  /** Names the endpoint in reports, e.g. `chat.completions`. */
  readonly id: string;
  readonly method: "GET" | "POST" | "DELETE";
  /** `{name}` is a path parameter; `{name*}` may contain slashes. */
  readonly path: string;
  /** One line for the OpenAPI document. */
  readonly summary: string;
  readonly body: { readonly kind: BodyKind; readonly maxBytes: number; readonly schema: z.core.$ZodType | null };
  /** The kinds of models that it serves. */
  readonly kinds: readonly ModelKind[];
  /** Whether user instances may be called here. */
  readonly instances: boolean;
  readonly flow: Flow;
  /** What the caller's key must be. */
  readonly access: CallAccess;
  /** Limits of this row, the same for all accounts. */
  readonly limits: readonly NamedLimit[];
  readonly retry: RetryClass;
  readonly errors: ErrorShape;
  /** Reads the codes in an upstream's errors; null if only statuses matter. */
  readonly readCode: ReadCode | null;
  /** The answer needs no model, so its first byte is due as soon as a stream's. */
  readonly atHand: boolean;
  /** Only a complete JSON answer is useful; one too long to be buffered counts as no answer. */
  readonly wholeAnswer: boolean;
  /** If the client sent no idempotency key, the body serves as one. */
  readonly bodyIsKey: boolean;
  /** Null if the answer cannot be rebuilt for a repeat. */
  readonly readBack: ReadBack | null;
  /** The body field that names the model; null if none does. */
  readonly modelField: string | null;
  /** The field that carries the output cap to a model of this row; null if there is none. */
  capField(row: Pick<ModelRow, "capField"> | undefined): string | null;
  /** The kind of id that the answer hands out, owned by the account from then on; null if none. */
  readonly creates: OwnedRef["kind"] | null;
  /** The answer may report that the id in the path was deleted. The account then no longer owns it. */
  readonly deletes: boolean;
  /** Which members of a JSON answer pass. */
  readonly answerRules: MemberRules;
  /** Schema of an answer that the gateway makes itself, for the OpenAPI document; null if the service answers. */
  readonly answerSchema: z.core.$ZodType | null;
  parse(raw: RawCall): ParseResult;
  /** The same in steps: a body may be long. */
  parseInSteps(raw: RawCall): Steps<ParseResult>;
}

/** An entry as written in the table. Defaults are given in parentheses. */
export interface EndpointEntry<Body> {
  readonly id: string;
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly summary: string;
  readonly body: BodyRule<Body>;
  /** The body field that names the model (none). */
  readonly model?: keyof Body & string;
  /** The path parameter that names the model, if the body does not (none). */
  readonly modelParam?: string;
  readonly flow: Flow;
  /** The API that a key must have been made for; null: any live key may call. */
  readonly scope: Scope | null;
  /** The lowest role that may call (member). */
  readonly role?: Role;
  /** Limits of this row, the same for all accounts (none). */
  readonly limits?: readonly NamedLimit[];
  /** The path parameter that names a custom instance, instead of a model (none). */
  readonly instance?: string;
  readonly kinds: readonly ModelKind[];
  /** (No.) */
  readonly instances?: boolean;
  /** Set if the call costs something. */
  readonly meter?: Meter<NoInfer<Body>>;
  readonly retry: RetryClass;
  readonly errors: ErrorShape;
  readonly readCode?: ReadCode;
  readonly readBack?: ReadBack;
  readonly answerSchema?: z.core.$ZodType;
  /** The media type requested (`application/json`). */
  readonly accept?: (body: Body) => string;
  /** (No.) */
  readonly streams?: (body: Body) => boolean;
  /** The documented field for the output cap, and its synonyms, which must not contradict it. */
  readonly cap?: { readonly field: string; readonly replaces: readonly string[] };
  /** Fields that override the caller's, e.g. to request usage figures. */
  readonly forced?: (body: Body) => Record<string, unknown>;
  /** Counts the parts other than text (none). */
  readonly parts?: (body: Body) => Steps<Parts>;
  /** Members that are only sent: nobody reads them once the body is encoded and its parts are counted. */
  readonly sentOnly?: readonly (keyof Body & string)[];
  readonly recording?: (body: Body) => Recording;
  readonly jobUnit?: (body: Body) => VideoUnit;
  readonly creates?: OwnedRef["kind"];
  /** (No.) */
  readonly deletes?: boolean;
  /** Adds to a free call's answer what clients need and the upstream may omit (nothing). */
  readonly completes?: JsonReader["completed"];
  /** Names of the top-level members of a JSON answer that pass (all: it is rewritten, or not JSON). */
  readonly answer?: ReadonlySet<string>;
  /** Parameters in the query that are refused (none). */
  readonly refusedQuery?: ReadonlyMap<string, RefusedField>;
  /** Parameters in the query that go upstream, and what they may be (none). */
  readonly passedQuery?: PassedQuery;
  /** Where the call names ids of the service: `path.id` or a body field. */
  readonly owned?: readonly { readonly kind: OwnedRef["kind"]; readonly at: string }[];
}

/** Fields that identify the tenant's users; their values are the tenant's business. */
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
    access: { scope: entry.scope, role: entry.role ?? "member" },
    limits: entry.limits ?? [],
    retry: entry.retry,
    errors: entry.errors,
    readCode: entry.readCode ?? null,
    atHand: entry.meter === undefined,
    wholeAnswer: entry.flow.kind === "job" || entry.flow.kind === "quote",
    bodyIsKey: entry.flow.kind === "job",
    readBack: entry.readBack ?? null,
    modelField: entry.model ?? null,
    capField: (row) => {
      const asked = row?.capField;
      return asked && entry.cap?.replaces.includes(asked) ? asked : (entry.cap?.field ?? null);
    },
    creates: entry.creates ?? null,
    deletes: entry.deletes ?? false,
    answerRules: answerRules(entry.answer ?? null),
    answerSchema: entry.answerSchema ?? null,
    parse: (raw) => toEnd(parseCall(entry, raw)),
    parseInSteps: (raw) => parseCall(entry, raw),
  };
}

const NO_FIELDS: ReadonlyMap<string, RefusedField> = new Map();

function* parseCall<Body>(entry: EndpointEntry<Body>, raw: RawCall): Steps<ParseResult> {
  const query = checkQuery(raw.askedPath, entry.refusedQuery ?? NO_FIELDS);
  if (!query.ok) return query;
  const passed = passedQuery(raw.askedPath, entry.passedQuery);
  if (!passed.ok) return passed;
  const capFields = entry.cap ? [entry.cap.field, ...entry.cap.replaces] : [];
  const counted = { parts: NO_PARTS };
  const parsed = yield* entry.body.parse(raw.body, {
    taken: [...(entry.model ? [entry.model] : []), ...capFields, ...PSEUDONYMOUS],
    forced: entry.forced ?? (() => ({})),
    dataUrlBytes: (body) => countInto(counted, entry, body),
  });
  if (!parsed.ok) return parsed;
  const { body, payload } = parsed;
  const { parts } = counted;
  // A call that creates nothing needs no identity.
  const kept = new Kept({ body: without(body, entry.sentOnly ?? []), raw: entry.retry === "safe" ? null : raw.body });
  const fields = body as Record<string, unknown> | null;
  const owned = ownedRefs(entry, raw.params, fields);
  const found = (measured: Measured): MeasuredBody => ({ ...measured, parts, ownBytes: payload.ownBytes });
  return {
    ok: true,
    call: {
      model: entry.model ? String(body[entry.model]) : entry.modelParam ? (raw.params[entry.modelParam] ?? "") : null,
      instance: entry.instance ? { id: raw.params[entry.instance] ?? "", askedPath: raw.askedPath } : null,
      path: fillPath(entry.path, raw.params) + passed.query,
      payload,
      pseudonyms: pseudonymsOf(fields),
      accept: entry.accept?.(body) ?? "application/json",
      streams: entry.streams?.(body) ?? false,
      owned,
      jobUnit: entry.jobUnit?.(body) ?? null,
      identity: () => identityOf(kept.get().raw),
      boundless: (row) => boundless(parts, row),
      bound: (row, measured) => entry.meter?.bound(kept.get().body, found(measured), row) ?? { fixed: {} },
      recording: () => entry.recording?.(kept.get().body) ?? null,
      reader: (sent) =>
        entry.meter && sent
          ? entry.meter.reader(kept.get().body, { ...sent, measured: found(sent.measured) })
          : freeReader(entry),
      drop() {
        kept.drop();
        payload.drop();
      },
    },
  };
}

function* countInto<Body>(
  counted: { parts: Parts },
  { parts }: Pick<EndpointEntry<Body>, "parts">,
  body: Body,
): Steps<number> {
  if (parts) counted.parts = yield* parts(body);
  return counted.parts.dataUrlBytes;
}

/** The reader of a free call: accepts any JSON object without an error. */
function freeReader({ completes }: Pick<EndpointEntry<unknown>, "completes">): AnswerReader {
  return {
    ...(completes && { completed: completes }),
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
 * Fills in the path parameters. Encoding keeps an id inside its path segment; ids are looked up before the call is
 * sent. An instance's path is not built here but from its stored data.
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

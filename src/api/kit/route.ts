/**
 * What the operator's and the tenants' routes share (`kit/`). A route is a value: path, query, body and answers in zod,
 * declared once. The request is validated, the handler typed and the OpenAPI entry (../documents/openapi.ts) made from
 * it.
 *
 * Promises: a handler gets only validated input; errors have one shape (`problem.ts`). Must not know a particular
 * route.
 */
import type { Context, Env, Hono } from "hono";
import * as z from "zod/mini";
import type { Allowed } from "../../core/account/operators.ts";
import type { ErrorShape } from "../../core/endpoints/error-shape.ts";
import { parseJson } from "../../core/formats/json.ts";
import { toHttp } from "../../core/http-refusal.ts";
import { dotted, validate } from "../../core/issue-words.ts";
import type { Refusal } from "../../core/refusal.ts";
import { fieldNames } from "../../core/schema-words.ts";
import { type BodyHolder, readBody, SMALL_BODIES } from "../../gateway/http/body-reader.ts";
import { anyNames, type Making } from "./making.ts";
import { invalid, Problem, type ProblemStatus } from "./problem.ts";

export type Status = 200 | 201 | 202;
type Method = "get" | "post" | "put" | "patch" | "delete";

/** The names in braces in a path. */
type Placeholder<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Placeholder<Rest>
  : never;

interface AnswerShape {
  readonly description: string;
  readonly schema: z.core.$ZodType;
}
/** The statuses that a call may be refused with. */
export type RefusalStatus = 400 | 401 | 402 | 403 | 404 | 409 | 413 | 422 | 429 | 500 | 502 | 503 | 504;
type Answers = { readonly [S in Status]?: AnswerShape };

export interface Route<
  Path extends string = string,
  Query extends z.core.$ZodType = z.core.$ZodType,
  Body extends z.core.$ZodType = z.core.$ZodType,
  A extends Answers = Answers,
> {
  /** Names the call in the document, like `createKey`: unique there and never changed. */
  readonly id: string;
  readonly method: Method;
  readonly path: Path;
  readonly summary: string;
  /** A strict object. Without it the route accepts no query. */
  readonly query?: Query;
  readonly body?: Body;
  /** The body's media type if it is not JSON; for documents of endpoints that validate elsewhere. */
  readonly bodyAs?: string;
  /** The largest body, in bytes; 1 MB if absent. */
  readonly maxBodyBytes?: number;
  /** True: any bytes of any size pass as they come; for documents of service paths. */
  readonly passesBody?: true;
  /** True: an absent body counts as `{}`. */
  readonly bodyOptional?: true;
  readonly answers: A;
  /** Another media type of the 200 answer. */
  readonly alsoAs?: string;
  /** Refusals besides those of every call of its document. */
  readonly refusals?: readonly RefusalStatus[];
  /** The shape of its errors; OpenAI's if absent. */
  readonly errors?: ErrorShape;
  /** Of a row of `/admin`: the roles besides owner that may call it; owners alone if absent. */
  readonly roles?: Allowed;
  /** Of a POST: the field of its answer with a secret, null in the answer to a repeat. */
  readonly secret?: string;
  /**
   * True: a POST that reads, since what it asks for stands in no URL. It is not recorded and takes no
   * `Idempotency-Key`.
   */
  readonly reads?: true;
  /** Whether it takes an `Idempotency-Key`; every POST that changes something does. */
  readonly idempotent?: boolean;
}

/** One validated call. `Work`: what its handler works with. */
export interface Call<Work, Path extends string, Query, Body> {
  readonly work: Work;
  readonly params: Readonly<Record<Placeholder<Path>, string>>;
  readonly query: Query;
  readonly body: Body;
  readonly making: Making;
}

/** An answer as the route declares it. */
export type Reply<A extends Answers> = {
  [S in keyof A & Status]: A[S] extends { readonly schema: infer Schema extends z.core.$ZodType }
    ? { readonly status: S; readonly body: z.input<Schema> }
    : never;
}[keyof A & Status];

export const route = <
  const Path extends string,
  A extends Answers,
  Query extends z.core.$ZodType = z.ZodMiniObject<Record<never, never>>,
  Body extends z.core.$ZodType = z.ZodMiniUndefined,
>(
  description: Route<Path, Query, Body, A>,
): Route<Path, Query, Body, A> => description;

export const answers = <Schema extends z.core.$ZodType>(description: string, schema: Schema) => ({
  description,
  schema,
});
export const ok = <Body>(body: Body) => ({ status: 200 as const, body });
export const created = <Body>(body: Body) => ({ status: 201 as const, body });

export type CarriedOut = { readonly status: Status; readonly body: unknown } | Response;

/** A call that may change something: all but GET. */
export interface ChangeCall {
  readonly route: Route;
  /** The path of the request. */
  readonly target: string;
  readonly params: Readonly<Record<string, string>>;
  /** The names of the body's fields. */
  readonly fields: readonly string[];
  /** The header; null where there is none. */
  readonly idempotencyKey: string | null;
  /** What a repeat has alike besides its path. */
  readonly identity: string;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
  /** What the same path shows now; null where nothing does. */
  before(): Promise<unknown>;
  carryOut(making?: Making): Promise<CarriedOut>;
}

/** What an API does around its calls. */
export interface Around<Work> {
  /** What each of its calls may be refused with (nothing). */
  readonly refusals?: readonly RefusalStatus[];
  /** Throws where the caller may not make this call. Comes before anything of the request is read. */
  admit?(work: Work, route: Route): void;
  /** Throws where the caller may not send these fields. */
  permit?(work: Work, route: Route, fields: readonly string[]): void;
  /** Where the bodies of its callers are kept while they are read. Absent: its callers are trusted with memory. */
  placeOf?(work: Work): { readonly holder: BodyHolder; leave(): void };
  /** Carries out a change and records it. */
  record(work: Work, call: ChangeCall): Promise<CarriedOut>;
}

/** Answers a GET of the path with these parameters and this query. */
type Read<Work> = (work: Work, params: Record<string, string>, query: object) => Promise<CarriedOut>;

/** Adds routes to one application. */
export class ApiRoutes<Work, Bindings extends Env> {
  readonly routes: Route[] = [];
  readonly #app: Hono<Bindings>;
  readonly #workOf: (context: Context<Bindings>) => Work;
  readonly #around: Around<Work>;
  /** By path. */
  readonly #reads = new Map<string, Read<Work>>();

  constructor(app: Hono<Bindings>, workOf: (context: Context<Bindings>) => Work, around: Around<Work>) {
    this.#app = app;
    this.#workOf = workOf;
    this.#around = around;
  }

  add<Path extends string, Query extends z.core.$ZodType, Body extends z.core.$ZodType, A extends Answers>(
    described: Route<Path, Query, Body, A>,
    handle: (call: Call<Work, Path, z.output<Query>, z.output<Body>>) => Promise<Reply<A> | Response>,
  ): void {
    const refusals = [...(this.#around.refusals ?? []), ...usualRefusals(described), ...(described.refusals ?? [])];
    const idempotent = described.method === "post" && !described.reads;
    const route: Route = { ...(described as unknown as Route), refusals, idempotent };
    this.routes.push(route);
    type Params = Readonly<Record<Placeholder<Path>, string>>;
    const prepare = (work: Work, params: Params, query: object, body: unknown) => {
      const call = {
        work,
        params,
        query: checked(described.query ?? NO_QUERY, query, "query") as z.output<Query>,
        body: (described.body && checked(described.body, body, "body")) as z.output<Body>,
      };
      return (making: Making = anyNames) => handle({ ...call, making });
    };
    if (described.method === "get") {
      this.#reads.set(route.path, (work, params, query) =>
        prepare(work, params as Params, pick(query, described.query), undefined)(),
      );
    }
    this.#app.on(described.method.toUpperCase(), route.path.replaceAll(/\{(\w+)\}/g, ":$1"), async (context) => {
      const work = this.#workOf(context);
      this.#around.admit?.(work, route);
      const params = context.req.param() as Params;
      const query = flat(context.req.queries());
      const body = described.body && (await bodyIn(context, described, this.#around.placeOf?.(work)));
      const fields = typeof body === "object" && body !== null ? Object.keys(body) : [];
      this.#around.permit?.(work, route, fields);
      const carryOut = prepare(work, params, query, body);
      const reply = await (described.method === "get" || described.reads
        ? carryOut()
        : this.#around.record(work, {
            route,
            target: context.req.path,
            params,
            fields,
            idempotencyKey: context.req.header("idempotency-key") ?? null,
            identity: JSON.stringify([query, body ?? null]),
            signal: context.req.raw.signal,
            before: () => this.#before(route, work, params, { ...(body as object | undefined), ...query }),
            carryOut,
          }));
      return reply instanceof Response ? reply : context.json(reply.body as object, reply.status);
    });
  }

  /** What a GET of the path shows; its query has what the change names too, such as the account of an alias. */
  async #before({ path, method }: Route, work: Work, params: Record<string, string>, named: object): Promise<unknown> {
    if (method === "post") return null;
    try {
      const reply = await this.#reads.get(path)?.(work, params, named);
      return reply === undefined || reply instanceof Response ? null : reply.body;
    } catch (error) {
      if (error instanceof Problem && error.status === 404) return null;
      throw error;
    }
  }
}

const pick = (from: object, schema: z.core.$ZodType | undefined): object =>
  Object.fromEntries(
    Object.entries(from).filter(([name, value]) => fieldNames(schema).includes(name) && typeof value === "string"),
  );

/** A path with an id may find nothing (404); a change may conflict with the stored state (409). */
const usualRefusals = ({ method, path, reads }: Pick<Route, "method" | "path" | "reads">): readonly RefusalStatus[] => [
  ...(path.includes("{") ? [404 as const] : []),
  ...(method === "get" || reads ? [] : [409 as const]),
];

const NO_QUERY = z.strictObject({});

function checked<Schema extends z.core.$ZodType>(
  schema: Schema,
  value: unknown,
  what: "query" | "body",
): z.output<Schema> {
  const outcome = validate(schema, value, { whole: `The ${what}`, pathOf: dotted });
  if (!outcome.ok) throw invalid(outcome.complaint.param, outcome.complaint.message);
  return outcome.data as z.output<Schema>;
}

/** A repeated parameter stays a list, which no schema accepts. */
const flat = (queries: Record<string, string[]>): Record<string, string | string[]> =>
  Object.fromEntries(
    Object.entries(queries).map(([name, values]) => [name, values.length === 1 ? (values[0] ?? "") : values]),
  );

/** The most bytes and JSON values of a body; lists of models and targets are far smaller. */
export const MAX_BODY_BYTES = 1_000_000;
const MAX_BODY_VALUES = 20_000;

async function bodyIn(
  context: Context,
  described: Pick<Route, "bodyOptional">,
  place: ReturnType<NonNullable<Around<never>["placeOf"]>> | undefined,
): Promise<unknown> {
  try {
    return await bodyOf(context, described, place?.holder ?? SMALL_BODIES);
  } finally {
    place?.leave();
  }
}

async function bodyOf(
  context: Context,
  { bodyOptional }: Pick<Route, "bodyOptional">,
  holder: BodyHolder,
): Promise<unknown> {
  const type = context.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (bodyOptional && type === undefined) return {};
  if (type !== "application/json") throw invalid(null, "Send the body as `Content-Type: application/json`.");
  const upload = await readBody(context.req.raw, MAX_BODY_BYTES, holder, Date.now);
  if (!upload.ok) throw unread(upload.refusal);
  if (bodyOptional && upload.bytes.length === 0) return {};
  const json = parseJson(upload.bytes, MAX_BODY_VALUES);
  if (!json.ok) throw invalid(null, json.message);
  return json.value;
}

function unread(refusal: Refusal): Problem {
  const { status, code, message, retryAfterSeconds } = toHttp(refusal);
  return new Problem(status as ProblemStatus, code, message, null, retryAfterSeconds ?? null);
}

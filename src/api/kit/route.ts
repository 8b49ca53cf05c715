/**
 * What the operator's and the tenants' routes share (`kit/`). A route is a value: path, query, body and answers in zod,
 * declared once. The request is validated, the handler typed and the OpenAPI entry (openapi.ts) made from it.
 *
 * Promises: a handler gets only validated input; errors have one shape (`problem.ts`). Must not know a particular
 * route.
 *
 * zod makes the JSON Schema itself. The library that joins zod and hono would put all of zod's languages into the
 * Worker: 70 KB of the bundle, gzipped.
 */
import type { Context, Env, Hono } from "hono";
import * as z from "zod";
import type { ErrorShape } from "../../core/endpoints/error-shape.ts";
import { parseJson } from "../../core/formats/json.ts";
import { toHttp } from "../../core/http-refusal.ts";
import { dotted, validate } from "../../core/issue-words.ts";
import type { Refusal } from "../../core/refusal.ts";
import { readBody, SMALL_BODIES } from "../../gateway/http/body-reader.ts";
import { invalid, Problem } from "./problem.ts";

type Status = 200 | 201 | 202;
type Method = "get" | "post" | "put" | "patch" | "delete";

/** The names in braces in a path. */
type Placeholder<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Placeholder<Rest>
  : never;

interface AnswerShape {
  readonly description: string;
  readonly schema: z.ZodType;
}
/** The statuses that a call may be refused with. */
export type RefusalStatus = 400 | 401 | 402 | 403 | 404 | 409 | 413 | 422 | 429 | 500 | 502 | 503 | 504;
type Answers = { readonly [S in Status]?: AnswerShape };

export interface Route<
  Path extends string = string,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
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
  /** True: an absent body counts as `{}`. */
  readonly bodyOptional?: true;
  readonly answers: A;
  /** Another media type of the 200 answer. */
  readonly alsoAs?: string;
  /** Refusals besides those of every call of its document. */
  readonly refusals?: readonly RefusalStatus[];
  /** The shape of its errors; OpenAI's if absent. */
  readonly errors?: ErrorShape;
}

/** One validated call. `Work`: what its handler works with. */
export interface Call<Work, Path extends string, Query, Body> {
  readonly work: Work;
  readonly params: Readonly<Record<Placeholder<Path>, string>>;
  readonly query: Query;
  readonly body: Body;
}

/** An answer as the route declares it. */
export type Reply<A extends Answers> = {
  [S in keyof A & Status]: A[S] extends { readonly schema: infer Schema extends z.ZodType }
    ? { readonly status: S; readonly body: z.input<Schema> }
    : never;
}[keyof A & Status];

export const route = <
  const Path extends string,
  A extends Answers,
  Query extends z.ZodType = z.ZodObject<Record<never, never>>,
  Body extends z.ZodType = z.ZodUndefined,
>(
  description: Route<Path, Query, Body, A>,
): Route<Path, Query, Body, A> => description;

export const answers = <Schema extends z.ZodType>(description: string, schema: Schema) => ({ description, schema });
export const ok = <Body>(body: Body) => ({ status: 200 as const, body });
export const created = <Body>(body: Body) => ({ status: 201 as const, body });

/** Adds routes to one application. */
export class ApiRoutes<Work, Bindings extends Env> {
  readonly routes: Route[] = [];
  readonly #app: Hono<Bindings>;
  readonly #workOf: (context: Context<Bindings>) => Work;
  readonly #refusals: readonly RefusalStatus[];

  /** `refusals`: what each of its calls may be refused with. */
  constructor(
    app: Hono<Bindings>,
    workOf: (context: Context<Bindings>) => Work,
    refusals: readonly RefusalStatus[] = [],
  ) {
    this.#app = app;
    this.#workOf = workOf;
    this.#refusals = refusals;
  }

  add<Path extends string, Query extends z.ZodType, Body extends z.ZodType, A extends Answers>(
    described: Route<Path, Query, Body, A>,
    handle: (call: Call<Work, Path, z.output<Query>, z.output<Body>>) => Promise<Reply<A> | Response>,
  ): void {
    const refusals = [...this.#refusals, ...usualRefusals(described), ...(described.refusals ?? [])];
    this.routes.push({ ...(described as unknown as Route), refusals });
    const path = described.path.replaceAll(/\{(\w+)\}/g, ":$1");
    this.#app.on(described.method.toUpperCase(), path, async (context) => {
      const reply = await handle({
        work: this.#workOf(context),
        params: context.req.param() as Readonly<Record<Placeholder<Path>, string>>,
        query: checked(described.query ?? NO_QUERY, flat(context.req.queries()), "query") as z.output<Query>,
        body: (described.body && checked(described.body, await bodyOf(context, described), "body")) as z.output<Body>,
      });
      return reply instanceof Response ? reply : context.json(reply.body as object, reply.status);
    });
  }
}

/** A path with an id may find nothing (404); a change may conflict with the stored state (409). */
const usualRefusals = ({ method, path }: Pick<Route, "method" | "path">): readonly RefusalStatus[] => [
  ...(path.includes("{") ? [404 as const] : []),
  ...(method === "get" ? [] : [409 as const]),
];

const NO_QUERY = z.strictObject({});

function checked<Schema extends z.ZodType>(schema: Schema, value: unknown, what: "query" | "body"): z.output<Schema> {
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

async function bodyOf(context: Context, { bodyOptional }: Pick<Route, "bodyOptional">): Promise<unknown> {
  const type = context.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (bodyOptional && type === undefined) return {};
  if (type !== "application/json") throw invalid(null, "Send the body as `Content-Type: application/json`.");
  const upload = await readBody(context.req.raw, MAX_BODY_BYTES, SMALL_BODIES, Date.now);
  if (!upload.ok) throw unread(upload.refusal);
  if (bodyOptional && upload.bytes.length === 0) return {};
  const json = parseJson(upload.bytes, MAX_BODY_VALUES);
  if (!json.ok) throw invalid(null, json.message);
  return json.value;
}

function unread(refusal: Refusal): Problem {
  const { status, code, message } = toHttp(refusal);
  return new Problem(status === 413 ? 413 : 400, code, message);
}

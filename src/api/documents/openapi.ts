/**
 * Makes an OpenAPI 3.1 document from the routes of an API. Its schemas are those that validate, as zod writes them in
 * JSON Schema. A schema with an id becomes a component.
 */
import * as z from "zod/mini";
import { LONGEST_IDEMPOTENCY_KEY } from "../../core/account/idempotency.ts";
import type { ErrorShape } from "../../core/endpoints/error-shape.ts";
import { listFacts } from "../../core/schema-words.ts";
import { ComputeErrorBody, ErrorBody, VideoErrorBody } from "../kit/problem.ts";
import { MAX_BODY_BYTES, type RefusalStatus, type Route } from "../kit/route.ts";

interface DocumentInfo {
  readonly title: string;
  readonly description: string;
  /** Describes the bearer token. */
  readonly bearer: string;
}

type JsonObject = { [name: string]: unknown };

/** What each status means; for 413 the route's size limit says it. */
const MEANINGS: { readonly [S in Exclude<RefusalStatus, 413>]: string } = {
  400: "A field or header is missing, unknown or out of range; `param` names it",
  401: "The bearer token is missing, wrong or no longer live",
  402: "The balance does not cover the call, or its model has no price yet",
  403: "This key may not do this",
  404: "There is nothing of this name or id, or not for this key",
  409: "It contradicts what stands",
  422: "The model server cannot process this request",
  429: "A limit or a budget has no room; `retry-after` says when to try again",
  500: "A defect of the gateway",
  502: "The model server failed",
  503: "Something that the call needs is unavailable for a moment, or not configured",
  504: "The model server did not answer in time",
};
/** The refusals of every call. */
const ALWAYS: readonly RefusalStatus[] = [400, 401, 500, 503];

const ERROR_BODIES: { readonly [S in ErrorShape]: z.core.$ZodType } = {
  openai: ErrorBody,
  video: VideoErrorBody,
  compute: ComputeErrorBody,
};

/** The document of these routes. */
export function openApi(routes: readonly Route[], info: DocumentInfo): JsonObject {
  const schemas = new Components();
  const paths: { [path: string]: JsonObject } = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method]: operation(route, schemas) };
  }
  return {
    openapi: "3.1.0",
    info: { title: info.title, version: "1", description: info.description },
    security: [{ bearer: [] }],
    paths,
    components: {
      schemas: schemas.all,
      securitySchemes: { bearer: { type: "http", scheme: "bearer", description: info.bearer } },
    },
  };
}

function operation(route: Route, schemas: Components): JsonObject {
  const responses: JsonObject = {};
  for (const [status, answer] of Object.entries(route.answers)) {
    const content: JsonObject = { "application/json": { schema: schemas.use(answer.schema, "output") } };
    if (route.alsoAs) content[route.alsoAs] = { schema: { type: "string" } };
    responses[status] = { description: answer.description, content };
  }
  const limit = `At most ${megabytes(route.maxBodyBytes ?? MAX_BODY_BYTES)} MB`;
  const error = { "application/json": { schema: schemas.use(ERROR_BODIES[route.errors ?? "openai"], "output") } };
  for (const status of refusalsOf(route)) {
    const description = status === 413 ? `The body is too large. ${limit}` : MEANINGS[status];
    responses[status] = { description, content: error };
  }
  return {
    operationId: route.id,
    summary: route.summary,
    parameters: [
      ...pathParameters(route.path),
      ...queryParameters(route, schemas),
      ...(route.idempotent ? [IDEMPOTENCY_KEY] : []),
    ],
    ...(route.body && {
      requestBody: {
        description: limit,
        required: !route.bodyOptional,
        content: { [route.bodyAs ?? "application/json"]: { schema: schemas.use(route.body, "input") } },
      },
    }),
    ...(route.passesBody && {
      requestBody: { description: "Any bytes, of any size", required: false, content: { "*/*": { schema: {} } } },
    }),
    responses,
  };
}

function refusalsOf(route: Route): readonly RefusalStatus[] {
  const named = [...ALWAYS, ...(route.refusals ?? []), ...(route.body ? [413 as const] : [])];
  return [...new Set(named)].sort();
}

/** In the unit of the limit: 2^20 bytes, or 10^6. */
const megabytes = (bytes: number): number => bytes / (bytes % 1_048_576 === 0 ? 1_048_576 : 1_000_000);

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "Sent again within 24 h, the call is carried out once: a repeat gets the same record without its secret",
  schema: { type: "string", minLength: 1, maxLength: LONGEST_IDEMPOTENCY_KEY },
};

const pathParameters = (path: string): JsonObject[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));

function queryParameters(route: Route, schemas: Components): JsonObject[] {
  if (!route.query) return [];
  const { properties = {}, required = [] } = schemas.inline(route.query) as {
    properties?: Record<string, JsonObject>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: "query",
    required: required.includes(name),
    ...(typeof description === "string" && { description }),
    schema,
  }));
}

/** The JSON Schema of a schema. zod does not see the items of a list of ours (core/endpoints/list.ts). */
export function jsonSchemaOf(schema: z.core.$ZodType, io: "input" | "output"): JsonObject {
  return z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      const facts = listFacts(zodSchema);
      if (!facts) return;
      const { $schema: _, ...items } = jsonSchemaOf(facts.item, "input");
      Object.assign(jsonSchema, {
        items,
        ...(facts.least && { minItems: facts.least }),
        ...(facts.most !== undefined && { maxItems: facts.most }),
      });
    },
  }) as JsonObject;
}

/** Collects the schemas that have an id, and refers to them. */
class Components {
  readonly all: JsonObject = {};

  use(schema: z.core.$ZodType, io: "input" | "output"): JsonObject {
    const id = z.globalRegistry.get(schema)?.id;
    if (id !== undefined && Object.hasOwn(this.all, id)) return { $ref: `#/components/schemas/${id}` };
    const { $schema: _, $defs = {}, id: __, ...own } = referring(jsonSchemaOf(schema, io));
    for (const [name, part] of Object.entries($defs as JsonObject)) this.all[name] ??= withoutId(part as JsonObject);
    if (id === undefined) return own;
    // zod puts a schema with an id among the definitions and refers to it, or writes it in place.
    this.all[id] ??= own;
    return { $ref: `#/components/schemas/${id}` };
  }

  inline(schema: z.core.$ZodType): JsonObject {
    return jsonSchemaOf(schema, "input");
  }
}

/** The ids are names of components, not of JSON Schema resources. */
function withoutId({ id: _, ...schema }: JsonObject): JsonObject {
  return schema;
}

/** The same schema with its references pointing to the components. */
const referring = (schema: object): JsonObject =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'));

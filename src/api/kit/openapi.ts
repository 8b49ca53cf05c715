/**
 * OpenAPI 3.1 from the routes of a surface: the schemas that validate, as zod writes them in JSON Schema. A schema with
 * an id of its own becomes a component.
 */
import * as z from "zod";
import { ErrorBody } from "./problem.ts";
import type { Route } from "./route.ts";

export interface DocumentInfo {
  readonly title: string;
  readonly description: string;
  /** What the bearer token is. */
  readonly bearer: string;
}

/** The document as it is sent: made at the first request, the same text from then on. */
export function documentOnce(routes: () => readonly Route[], info: DocumentInfo): () => Response {
  let text: string | undefined;
  return () => {
    text ??= JSON.stringify(openApi(routes(), info));
    return new Response(text, { headers: { "content-type": "application/json", "cache-control": "no-store" } });
  };
}

type JsonObject = { [name: string]: unknown };

const REFUSALS = {
  400: "A field is missing, unknown or out of range; `param` names it",
  401: "The bearer token is missing or wrong",
  404: "Nothing has this id",
  503: "The Worker is not configured, or something it needs is unavailable",
};
const CHANGE_REFUSALS = { 409: "It contradicts what stands", 413: "The body is larger than 1 MB" };

/** The document of these routes. */
function openApi(routes: readonly Route[], info: DocumentInfo): JsonObject {
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
  const refusals = { ...REFUSALS, ...(route.method !== "get" && CHANGE_REFUSALS) };
  const responses: JsonObject = {};
  for (const [status, answer] of Object.entries(route.answers)) {
    const content: JsonObject = { "application/json": { schema: schemas.use(answer.schema, "output") } };
    if (route.alsoAs) content[route.alsoAs] = { schema: { type: "string" } };
    responses[status] = { description: answer.description, content };
  }
  for (const [status, description] of Object.entries(refusals)) {
    responses[status] = { description, content: { "application/json": { schema: schemas.use(ErrorBody, "output") } } };
  }
  return {
    summary: route.summary,
    parameters: [...pathParameters(route.path), ...queryParameters(route, schemas)],
    ...(route.body && {
      requestBody: {
        required: !route.bodyOptional,
        content: { [route.bodyAs ?? "application/json"]: { schema: schemas.use(route.body, "input") } },
      },
    }),
    responses,
  };
}

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

/** Gathers the schemas that have an id, and refers to them. */
class Components {
  readonly all: JsonObject = {};

  use(schema: z.ZodType, io: "input" | "output"): JsonObject {
    const id = schema.meta()?.id;
    if (id !== undefined && Object.hasOwn(this.all, id)) return { $ref: `#/components/schemas/${id}` };
    const {
      $schema: _,
      $defs = {},
      id: __,
      ...own
    } = referring(z.toJSONSchema(schema, { io, unrepresentable: "any" }));
    for (const [name, part] of Object.entries($defs as JsonObject)) this.all[name] ??= withoutId(part as JsonObject);
    if (id === undefined) return own;
    // zod writes a schema that has an id among the parts and refers to it, or in place.
    this.all[id] ??= own;
    return { $ref: `#/components/schemas/${id}` };
  }

  inline(schema: z.ZodType): JsonObject {
    return z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as JsonObject;
  }
}

/** The ids are names of components, not of JSON Schema resources. */
function withoutId({ id: _, ...schema }: JsonObject): JsonObject {
  return schema;
}

/** The same schema with its references pointing at components. */
const referring = (schema: object): JsonObject =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'));

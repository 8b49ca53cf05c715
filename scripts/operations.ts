/**
 * `npm run tables`: writes `client/operations.ts`, the operator's API as types, from its OpenAPI document.
 *
 * One line for each schema and each operation, so that a change of the API is a change of its line.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { documentFiles } from "./assets.ts";

export const OPERATIONS_FILE = join(import.meta.dirname, "../client/operations.ts");

/** What this reads of JSON Schema. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: { readonly [name: string]: Schema };
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
}
interface Content {
  readonly content?: { readonly [type: string]: { readonly schema: Schema } };
}
interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { name: string; in: string; required: boolean; schema: Schema }[];
  readonly requestBody?: Content & { readonly required?: boolean };
  readonly responses: { readonly [status: string]: Content };
}
interface OpenApiDocument {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly components: { readonly schemas: { readonly [name: string]: Schema } };
}

const JSON_TYPE = "application/json";

export function operationsModule({ paths, components }: OpenApiDocument): string {
  const schemas = Object.entries(components.schemas).map(([name, schema]) => `  ${name}: ${typeOf(schema)};\n`);
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const types = operations.map(({ operation }) => `  ${operation.operationId}: ${operationType(operation)};\n`);
  const places = operations.map(
    ({ path, method, operation }) => `  ${operation.operationId}: ["${method.toUpperCase()}", "${path}"],\n`,
  );
  return (
    `${HEAD}export interface Schemas {\n${schemas.join("")}}\n\n${TYPES_HEAD}export interface Operations {\n` +
    `${types.join("")}}\n\n${PLACES_HEAD}export const OPERATIONS = {\n${places.join("")}} as const;\n`
  );
}

const HEAD = `/** The operator's API, made from its OpenAPI document by \`npm run tables\`. Not edited by hand. */

/** The document's components. */
`;
const TYPES_HEAD = "/** By operation id: what a call takes, and what it answers. */\n";
const PLACES_HEAD = "/** By operation id: method and path. */\n";

function operationType({ parameters = [], requestBody, responses }: Operation): string {
  const taken = (where: string) => parameters.filter((parameter) => parameter.in === where);
  const params = taken("path").map(({ name }) => `${key(name)}: string`);
  const query = taken("query").map(({ name, required }) => `${key(name)}${required ? "" : "?"}: QueryValue`);
  const body = requestBody?.content?.[JSON_TYPE]?.schema;
  const answers = Object.entries(responses)
    .filter(([status]) => status.startsWith("2"))
    .map(([, { content }]) => content?.[JSON_TYPE]?.schema)
    .filter((schema) => schema !== undefined)
    .map(typeOf);
  return (
    `{ params: ${object(params)}; query: ${object(query)}; ` +
    `body: ${body ? `${typeOf(body)}${requestBody?.required ? "" : " | undefined"}` : "undefined"}; ` +
    `answer: ${[...new Set(answers)].join(" | ") || "unknown"} }`
  ).replaceAll("QueryValue", "string | number | undefined");
}

function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return `Schemas["${schema.$ref.split("/").at(-1)}"]`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((value) => JSON.stringify(value)));
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return union(either.map(typeOf));
  if (schema.allOf) return schema.allOf.map(typeOf).join(" & ");
  if (typeof schema.type === "object") return union(schema.type.map((type) => typeOf({ ...schema, type })));
  switch (schema.type) {
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "array":
      return `readonly ${inBrackets(typeOf(schema.items ?? {}))}[]`;
    case "object":
      return objectType(schema);
    default:
      return "unknown";
  }
}

function objectType({ properties = {}, required = [], additionalProperties }: Schema): string {
  const fields = Object.entries(properties).map(
    ([name, schema]) => `${key(name)}${required.includes(name) ? "" : "?"}: ${typeOf(schema)}`,
  );
  if (fields.length > 0) return object(fields);
  if (typeof additionalProperties !== "object") return "{ readonly [name: string]: unknown }";
  return `{ readonly [name: string]: ${typeOf(additionalProperties)} }`;
}

const union = (types: readonly string[]): string => [...new Set(types)].join(" | ");
const object = (fields: readonly string[]): string => (fields.length === 0 ? "object" : `{ ${fields.join("; ")} }`);
const key = (name: string): string => (/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name));
const inBrackets = (type: string): string => (/[|&]/.test(type) && !/^\{.*\}$/.test(type) ? `(${type})` : type);

/** The document as `/admin/openapi.json` has it. */
export async function operatorDocument(): Promise<OpenApiDocument> {
  const files = await documentFiles();
  return JSON.parse(String(files["/documents/operator.json"])) as OpenApiDocument;
}

if (import.meta.main) writeFileSync(OPERATIONS_FILE, operationsModule(await operatorDocument()));

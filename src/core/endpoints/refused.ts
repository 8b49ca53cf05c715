/**
 * The one list of fields that are refused wherever they stand in a body (design section 4): they would multiply usage
 * beyond the hold, send the call elsewhere, defer its answer, or name objects stored at the upstream, where the
 * operator's account is shared by all tenants.
 */
const REFUSED: Readonly<Record<string, string>> = {
  best_of: "it multiplies usage",
  web_search_options: "tools that the service would run are not available",
  models: "the model is chosen by `model` alone",
  api_base: "the upstream is the operator's choice",
  base_url: "the upstream is the operator's choice",
  api_key: "the upstream's credential is the operator's",
  extra_headers: "headers are not passed on",
  background: "answers are not deferred",
  conversation: "stored conversations are not available; send previous_response_id or the messages themselves",
  file_id: "stored files are not available; send the content itself",
  ["__proto__"]: "it is no field of any endpoint",
};

/** Tools that the caller runs; every other type is run by the service, at a price that no hold covers. */
const CALLERS_TOOLS: ReadonlySet<unknown> = new Set(["function", "custom"]);

/** In a JSON schema these hold names that the caller chose, not fields. */
const NAME_MAPS: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "definitions"]);
/** Where a caller's JSON schema may stand. */
const SCHEMA_ROOTS: ReadonlySet<string> = new Set(["tools", "functions", "response_format", "text"]);
const SCHEMA_FIELDS: ReadonlySet<string> = new Set(["parameters", "schema"]);

export interface RefusedField {
  /** As OpenAI writes them: `messages[0].content`. */
  readonly path: string;
  readonly why: string;
}

/** The first refused field of a parsed JSON body, at any depth; undefined where there is none. */
export function findRefused(body: unknown): RefusedField | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined;
  const prompt = (body as Record<string, unknown>).prompt;
  if (typeof prompt === "object" && prompt !== null && Object.hasOwn(prompt, "id")) {
    return { path: "prompt.id", why: "stored prompts are not available" };
  }
  for (const [key, value] of Object.entries(body)) {
    const found = refuse(key, value, key) ?? walk(value, key, { inSchemaRoot: SCHEMA_ROOTS.has(key), inSchema: false });
    if (found) return found;
  }
  return undefined;
}

/** Why a form's field is refused, by its name or a part of it (`extra[api_key]`); undefined where it is not. */
export function isRefusedName(name: string): string | undefined {
  const refused = name.split(/[[\].]+/).find((part) => Object.hasOwn(REFUSED, part));
  return refused === undefined ? undefined : REFUSED[refused];
}

interface Place {
  readonly inSchemaRoot: boolean;
  readonly inSchema: boolean;
}

function walk(value: unknown, path: string, place: Place): RefusedField | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const found = walk(item, `${path}[${index}]`, place);
      if (found) return found;
    }
    return undefined;
  }
  for (const [key, item] of Object.entries(value)) {
    const inSchema = place.inSchema || (place.inSchemaRoot && SCHEMA_FIELDS.has(key));
    const at = `${path}.${key}`;
    const found =
      refuse(key, item, at) ??
      (inSchema && NAME_MAPS.has(key) ? walkNames(item, at, place) : walk(item, at, { ...place, inSchema }));
    if (found) return found;
  }
  return undefined;
}

/** The keys here are a caller's own names; what stands under them is schema again. */
function walkNames(names: unknown, path: string, place: Place): RefusedField | undefined {
  if (typeof names !== "object" || names === null) return undefined;
  for (const [name, schema] of Object.entries(names)) {
    const found =
      name === "__proto__"
        ? refuse(name, schema, `${path}.${name}`)
        : walk(schema, `${path}.${name}`, { ...place, inSchema: true });
    if (found) return found;
  }
  return undefined;
}

function refuse(key: string, value: unknown, path: string): RefusedField | undefined {
  if (key === "tools" && Array.isArray(value)) return hostedTool(value, path);
  if (!Object.hasOwn(REFUSED, key)) return undefined;
  // Asking for nothing is no reason for a refusal: SDKs send such fields as null, or false.
  if (value === null || value === false) return undefined;
  return { path, why: REFUSED[key] ?? "" };
}

function hostedTool(tools: readonly unknown[], path: string): RefusedField | undefined {
  const index = tools.findIndex((tool) => {
    const type = typeof tool === "object" && tool !== null ? (tool as { type?: unknown }).type : undefined;
    return typeof type === "string" && !CALLERS_TOOLS.has(type);
  });
  if (index === -1) return undefined;
  return { path: `${path}[${index}].type`, why: "tools that the service would run are not available; use `function`" };
}

/**
 * Describes what a schema accepts: "a whole number from 1 to 128", "one of mp3, wav, opus". Used in error messages
 * (issue-words.ts).
 */
import type * as z from "zod/mini";

/** Facts about a list whose items zod does not see (endpoints/list.ts). */
interface ListFacts {
  readonly item: z.core.$ZodType;
  /** Minimum and maximum number of items (0, no limit). */
  readonly least?: number | undefined;
  readonly most?: number | undefined;
  /** Plural name of the items. */
  readonly what?: string | undefined;
}

const LISTS = new WeakMap<z.core.$ZodType, ListFacts>();
export const registerList = (schema: z.core.$ZodType, facts: ListFacts): void => void LISTS.set(schema, facts);
export const listFacts = (schema: z.core.$ZodType): ListFacts | undefined => LISTS.get(schema);

const BRIEF = new WeakSet<z.core.$ZodType>();
/** Marks a text field whose values are short and not private, such as a language: an error may quote a wrong one. */
export function brief<Schema extends z.core.$ZodType>(schema: Schema): Schema {
  BRIEF.add(schema);
  return schema;
}

// Every zod schema is a member of this union; its class type does not say so.
const defOf = (schema: z.core.$ZodType) => (schema as unknown as z.core.$ZodTypes)._zod.def;
const asZod = (schema: z.core.$ZodType): z.core.$ZodType => schema as z.core.$ZodType;

/** Strips wrappers: optional, nullable, default and conversion. */
function unwrapped(schema: z.core.$ZodType): z.core.$ZodType {
  const def = defOf(schema);
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
      return unwrapped(asZod(def.innerType));
    case "pipe":
      return unwrapped(asZod(def.in));
    default:
      return schema;
  }
}

/** Bounds of a number, or of the length of a text or list. */
interface Bounds {
  readonly whole?: boolean;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
}

function boundsOf(schema: z.core.$ZodType): Bounds {
  const def = defOf(schema);
  const whole = def.type === "number" && "format" in def;
  return Object.assign({ whole }, ...(def.checks ?? []).map(boundOf));
}

function boundOf(check: z.core.$ZodCheck): Bounds {
  // As with schemas: every zod check is a member of this union.
  const { def } = (check as z.core.$ZodChecks)._zod;
  switch (def.check) {
    case "min_length":
      return { minimum: def.minimum };
    case "max_length":
      return { maximum: def.maximum };
    case "greater_than":
      return def.inclusive ? { minimum: Number(def.value) } : { exclusiveMinimum: Number(def.value) };
    case "less_than":
      return { maximum: Number(def.value) };
    case "number_format":
      return { whole: true };
    default:
      return {};
  }
}

/** Completes "must be ...". */
export function typeWords(schema: z.core.$ZodType): string {
  const bare = unwrapped(schema);
  const def = defOf(bare);
  switch (def.type) {
    case "string":
      return stringWords(boundsOf(bare));
    case "number":
      return numberWords(boundsOf(bare));
    case "boolean":
      return "true or false";
    case "enum":
      return oneOf(Object.values(def.entries));
    case "literal":
      return oneOf(def.values);
    case "array":
      return arrayWords(listFacts(bare) ?? { item: asZod(def.element), ...leastAndMost(boundsOf(bare)) });
    case "object":
    case "record":
      return "an object";
    case "union":
      return [...new Set(def.options.map((option) => typeWords(asZod(option))))].join(" or ");
    default:
      return "a value of the right form";
  }
}

const leastAndMost = ({ minimum, maximum }: Bounds) => ({ least: minimum, most: maximum });

const oneOf = (values: readonly unknown[]): string =>
  values.length === 1 ? JSON.stringify(values[0]) : `one of ${values.map(String).join(", ")}`;

function stringWords({ minimum = 0, maximum }: Bounds): string {
  if (maximum === undefined) return minimum === 0 ? "a string" : minimum === 1 ? "a non-empty string" : least(minimum);
  return minimum === 0
    ? `a string of at most ${maximum} characters`
    : `a string of ${minimum} to ${maximum} characters`;
}
const least = (characters: number): string => `a string of at least ${characters} characters`;

function numberWords({ whole, minimum, exclusiveMinimum, maximum }: Bounds): string {
  const noun = whole ? "a whole number" : "a number";
  if (exclusiveMinimum !== undefined) {
    return `${noun} above ${exclusiveMinimum}${maximum !== undefined ? ` and at most ${maximum}` : ""}`;
  }
  if (minimum !== undefined)
    return `${noun} ${maximum !== undefined ? `from ${minimum} to ${maximum}` : `of at least ${minimum}`}`;
  return maximum !== undefined ? `${noun} of at most ${maximum}` : noun;
}

/** `a non-empty array of strings`, `an array of 1 to 1000 strings`. */
export function arrayWords({ item, least = 0, most, what = plural(item) }: ListFacts): string {
  if (most !== undefined) return `an array of ${least === 0 ? "at most" : `${least} to`} ${most} ${what}`;
  if (least > 1) return `an array of at least ${least} ${what}`;
  return `${least === 1 ? "a non-empty array" : "an array"} of ${what}`;
}

function plural(item: z.core.$ZodType): string {
  const { type } = defOf(unwrapped(item));
  return type === "string" || type === "number" || type === "object" ? `${type}s` : "items";
}

/** The schema at a path; undefined if the schema leaves it open. */
export function schemaAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): z.core.$ZodType | undefined {
  const [step, ...rest] = path;
  const bare = unwrapped(schema);
  if (step === undefined) return bare;
  const def = defOf(bare);
  switch (def.type) {
    case "object": {
      const field = Object.hasOwn(def.shape, step) ? def.shape[step as string] : undefined;
      return field && schemaAt(asZod(field), rest);
    }
    case "array":
      return schemaAt(listFacts(bare)?.item ?? asZod(def.element), rest);
    case "record":
      return schemaAt(asZod(def.valueType), rest);
    case "union":
      for (const option of def.options) {
        const found = schemaAt(asZod(option), path);
        if (found) return found;
      }
      return undefined;
    default:
      return undefined;
  }
}

/** The names of an object's fields; none for other schemas. */
export function fieldNames(schema: z.core.$ZodType | undefined): readonly string[] {
  const def = schema && defOf(unwrapped(schema));
  return def?.type === "object" ? Object.keys(def.shape) : [];
}

/** Whether an error may quote a short wrong value: where an enum, numbers or flags are expected, never text. */
export function showsValues(schema: z.core.$ZodType): boolean {
  const bare = unwrapped(schema);
  const def = defOf(bare);
  if (def.type === "union") return def.options.some((option) => showsValues(asZod(option)));
  return BRIEF.has(bare) || ["enum", "literal", "number", "boolean"].includes(def.type);
}

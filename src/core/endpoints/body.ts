/**
 * The kinds of request bodies: how each is checked, and what of it goes upstream.
 */
import type * as z from "zod/mini";
import { encodeInSteps } from "../formats/encode-json.ts";
import {
  type FormBoundary,
  isPlainName,
  type PlainPart,
  plainFileName,
  plainType,
} from "../formats/multipart/form-writer.ts";
import { type FormPart, textOf } from "../formats/multipart.ts";
import { bracketed, formOf, validate } from "../issue-words.ts";
import { type Outcome, type Refused, refused } from "../outcome.ts";
import { atOnce, type Steps, WORK_PER_NAME } from "../steps.ts";
import { OTHER_DATA } from "./inspection/callers-data.ts";
import { type FieldRules, Inspector } from "./inspection/inspect.ts";
import { formPayload, jsonPayload, NO_PAYLOAD, type Payload, verbatimPayload } from "./payload.ts";

/** A body that was read within its limit. */
export type RawBody =
  | { readonly kind: "json"; readonly value: unknown }
  /** `boundary`: the new one, for sending the form upstream. */
  | { readonly kind: "form"; readonly boundary: FormBoundary; readonly parts: readonly FormPart[] }
  | { readonly kind: "any"; readonly contentType: string | null; readonly bytes: Uint8Array }
  | { readonly kind: "none" };
export type BodyKind = RawBody["kind"];

const encoder = new TextEncoder();

/**
 * The bytes that identify a body, in pieces. A form's boundary is left out, because it differs each time the same form
 * is sent. None if the body was not kept.
 */
export function* identityOf(raw: RawBody | null): Steps<readonly Uint8Array<ArrayBuffer>[]> {
  switch (raw?.kind) {
    case "json":
      return yield* encodeInSteps(raw.value);
    case "form":
      return raw.parts.flatMap((part) => [identityOfHead(part), part.content as Uint8Array<ArrayBuffer>]);
    case "any":
      return [encoder.encode(raw.contentType ?? ""), raw.bytes as Uint8Array<ArrayBuffer>];
    case "none":
    case undefined:
      return [];
  }
}

function identityOfHead({ name, fileName, contentType }: FormPart): Uint8Array<ArrayBuffer> {
  const file = fileName === undefined ? [] : [plainFileName(fileName), plainType(contentType)];
  return encoder.encode(JSON.stringify([name, ...file]));
}

type ParsedBody<Body> = Outcome<{ body: Body; payload: Payload }>;

/** A row's rule for its body. */
export interface BodyRule<Body> {
  readonly kind: BodyKind;
  readonly maxBytes: number;
  /** For the OpenAPI document; null if any bytes are accepted. */
  readonly schema: z.core.$ZodType | null;
  /** `taken`: fields that are set for each try; `forced`: fields that override the caller's. */
  parse(raw: RawBody, rules: BodyRules<Body>): Steps<ParsedBody<Body>>;
}
interface BodyRules<Body> {
  readonly taken: readonly string[];
  readonly forced: (body: Body) => Record<string, unknown>;
  /** UTF-8 bytes of data URLs, which are charged per part and not as text. */
  readonly dataUrlBytes: (body: Body) => Steps<number>;
}

/** OpenAI's way to write errors. */
const SPELLING = { whole: "The request body", pathOf: bracketed };

const OTHER_FIELDS: FieldRules = { data: OTHER_DATA };

/**
 * Creates the inspector with the first body, since `taken` is only known then; it is the same for each call of a row.
 */
function inspectors(schema: z.core.$ZodType, rules: FieldRules): (taken: readonly string[]) => Inspector {
  let made: Inspector | undefined;
  return (taken) => {
    made ??= new Inspector(schema, rules, taken);
    return made;
  };
}

/** The largest JSON body (docs/design.md, section 7). */
export const MAX_JSON_BYTES = 20 * 1024 * 1024;
const MAX_FORM_BYTES = 26 * 1024 * 1024;

/**
 * A JSON object. The schema only checks; the caller's own values are what is sent. `isPlain`: true for bodies that the
 * schema certainly accepts as they are.
 */
export function json<Body extends object>(
  schema: z.core.$ZodType<Body>,
  fields: FieldRules = OTHER_FIELDS,
  isPlain: (value: object) => boolean = () => false,
): BodyRule<Body> {
  const inspectorOf = inspectors(schema, fields);
  return {
    kind: "json",
    maxBytes: MAX_JSON_BYTES,
    schema,
    *parse(raw, { taken, forced, dataUrlBytes }) {
      const value = raw.kind === "json" ? raw.value : undefined;
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        return refuse(`The request body must be a JSON object; it was ${formOf(value)}.`, null);
      }
      const fault = yield* inspectorOf(taken).faultOf(value);
      if (fault) return refuse(fault.message, fault.path);
      const checked = isPlain(value) ? { ok: true as const, data: value as Body } : validate(schema, value, SPELLING);
      if (!checked.ok) return refuse(checked.complaint.message, checked.complaint.param);
      const set = forced(checked.data);
      const rest: Record<string, unknown> = { ...value, ...set };
      for (const field of taken) delete rest[field];
      for (const [field, neutral] of Object.entries(fields.neutral ?? {}))
        if (rest[field] === neutral) delete rest[field];
      const payload = yield* jsonPayload(rest, set, yield* dataUrlBytes(checked.data));
      return { ok: true, body: checked.data, payload };
    },
  };
}

/** A file in a form. */
export interface FormFile {
  readonly fileName: string;
  readonly contentType: string | undefined;
  readonly bytes: Uint8Array;
}

export const isFormFile = (value: unknown): value is FormFile =>
  typeof value === "object" && value !== null && "bytes" in value && "fileName" in value;

/**
 * multipart/form-data: text fields as strings, files as `FormFile`. Names must be unique, except for lists (`name[]`).
 */
export function form<Body extends object>(
  schema: z.core.$ZodType<Body>,
  rules: FieldRules = OTHER_FIELDS,
): BodyRule<Body> {
  const inspectorOf = inspectors(schema, rules);
  return {
    kind: "form",
    maxBytes: MAX_FORM_BYTES,
    schema,
    *parse(raw, { taken }) {
      if (raw.kind !== "form") return refuse("The request body must be multipart/form-data.", null);
      const fields: Record<string, string | FormFile> = {};
      const kept: PlainPart[] = [];
      for (const part of raw.parts) {
        const added = addField(fields, part, inspectorOf(taken));
        if (!added.ok) return added;
        if (!taken.includes(part.name)) {
          if (!isNeutral(part, rules)) kept.push(added.part);
        } else if (part.fileName !== undefined) {
          return refuse(`The field \`${part.name}\` is text; send it without a file name.`, part.name);
        }
        yield WORK_PER_NAME;
      }
      const checked = validate(schema, fields, SPELLING);
      if (!checked.ok) return refuse(checked.complaint.message, checked.complaint.param);
      return { ok: true, body: checked.data, payload: formPayload(raw.boundary, kept) };
    },
  };
}

const isNeutral = (part: FormPart, { neutral = {} }: FieldRules): boolean =>
  part.fileName === undefined && Object.hasOwn(neutral, part.name) && textOf(part) === neutral[part.name];

type AddedField = Outcome<{ part: PlainPart }>;

function addField(fields: Record<string, string | FormFile>, part: FormPart, inspector: Inspector): AddedField {
  const { name, fileName, contentType, content } = part;
  const fault = inspector.faultOfField(name, fileName === undefined ? (textOf(part) ?? "") : undefined);
  if (fault) return refuse(fault.message, fault.path);
  if (!isPlainName(name)) {
    return refuse(
      "A field's name has 1 to 100 letters, digits and `_-.:[]`, and is not `_charset_`.",
      name.slice(0, 100),
    );
  }
  if (Object.hasOwn(fields, name) && !name.endsWith("[]"))
    return refuse(`The field \`${name}\` was sent twice; send it once.`, name);
  const value = fileName === undefined ? textOf(part) : { fileName, contentType, bytes: content };
  if (value === undefined) return refuse(`The field \`${name}\` is not valid UTF-8.`, name);
  if (typeof value === "string" && value.startsWith(BYTE_ORDER_MARK)) {
    return refuse(`The field \`${name}\` begins with a byte order mark; send it without.`, name);
  }
  fields[name] = value;
  return { ok: true, part: { ...part, name } };
}

/** Refused, because some readers drop it and others do not. */
const BYTE_ORDER_MARK = "\uFEFF";

/** Any bytes, forwarded unchanged. */
export const anything: BodyRule<Uint8Array> = {
  kind: "any",
  maxBytes: MAX_FORM_BYTES,
  schema: null,
  parse(raw) {
    if (raw.kind !== "any") return atOnce(refuse("The request body could not be read.", null));
    return atOnce({ ok: true, body: raw.bytes, payload: verbatimPayload(raw.contentType, raw.bytes) });
  },
};

/** No body. If one is sent, it is not read. */
export const nothing: BodyRule<null> = {
  kind: "none",
  maxBytes: 0,
  schema: null,
  parse: () => atOnce({ ok: true, body: null, payload: NO_PAYLOAD }),
};

function refuse(message: string, param: string | null): Refused {
  return refused({ kind: "invalid_request", message, param });
}

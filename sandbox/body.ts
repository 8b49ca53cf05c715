/** Reads request bodies: JSON against a schema, forms into fields and files. A refusal names the field. */
import type { z } from "zod";
import { check } from "./check.ts";
import type { Received } from "./endpoint.ts";
import { done, invalid, type Outcome } from "./refusal.ts";

/** `read` transforms the parsed body before it is checked, as the endpoint needs. */
export function readJson<S extends z.ZodType>(
  received: Received,
  schema: S,
  read: (body: unknown) => unknown = (body) => body,
): Outcome<z.output<S>> {
  if (!/^application\/json\b/i.test(received.contentType)) {
    return invalid("Send the body as JSON with `Content-Type: application/json`.");
  }
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(received.bytes));
  } catch {
    return invalid("The body is not valid JSON.");
  }
  return check(read(value), schema);
}

/** A form's text fields and files by name. A repeated name is refused. */
export interface Form {
  readonly fields: Readonly<Record<string, string>>;
  readonly files: Readonly<Record<string, File>>;
}

export async function readForm(received: Received): Promise<Outcome<Form>> {
  if (!/^multipart\/form-data\b/i.test(received.contentType)) {
    return invalid("Send the body as multipart/form-data.");
  }
  let data: FormData;
  try {
    data = await new Response(received.bytes, { headers: { "content-type": received.contentType } }).formData();
  } catch {
    return invalid("The body is not valid multipart/form-data.");
  }
  const fields: Record<string, string> = {};
  const files: Record<string, File> = {};
  for (const [name, value] of data) {
    if (name in fields || name in files) return invalid(`\`${name}\` was given twice.`, name);
    if (typeof value === "string") fields[name] = value;
    else files[name] = value;
  }
  return done({ fields, files });
}

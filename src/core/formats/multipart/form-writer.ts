/**
 * Writes forms for the upstream: from the parsed parts, never with the client's own headers, so that every reader finds
 * the fields that were checked and charged.
 *
 * A field has only `name` and no type. A file has `name`, `filename` and a type that is not text. So readers that tell
 * them apart by either get the same result. Names, file names and types contain no character that some reader decodes,
 * escapes or cuts.
 */
import { toHex } from "../bytes.ts";
import type { FormPart } from "../multipart.ts";

declare const made: unique symbol;
/** A boundary that the sender of the form cannot predict. */
export type FormBoundary = string & { readonly [made]: "boundary" };
/** A name that every reader reads alike. */
export type PlainName = string & { readonly [made]: "name" };

/** A part that can be written. */
export interface PlainPart extends FormPart {
  readonly name: PlainName;
}

const encoder = new TextEncoder();

/**
 * `random`: 16 bytes, generated after the whole form was read. The content cannot contain the boundary except by
 * guessing them, so it is not searched. Readers accept 27 to 70 characters.
 */
export function freshBoundary(random: Uint8Array): FormBoundary {
  return `form-${toHex(random)}` as FormBoundary;
}

export const formType = (boundary: FormBoundary): string => `multipart/form-data; boundary=${boundary}`;

/** Some readers cut longer names. `_charset_` changes how some read the other fields. */
export const isPlainName = (name: string): name is PlainName =>
  /^[A-Za-z0-9_.:[\]-]{1,100}$/.test(name) && name.toLowerCase() !== "_charset_";

/** The form in pieces. Contents are not copied. */
export function writeForm(boundary: FormBoundary, parts: readonly PlainPart[]): readonly Uint8Array<ArrayBuffer>[] {
  const pieces = parts.flatMap((part, index) => [
    encoder.encode(`${index === 0 ? "" : "\r\n"}--${boundary}\r\n${headersOf(part)}\r\n\r\n`),
    // Request bodies are never in shared memory, so the cast is safe.
    part.content as Uint8Array<ArrayBuffer>,
  ]);
  return [...pieces, encoder.encode(`${parts.length === 0 ? "" : "\r\n"}--${boundary}--\r\n`)];
}

export function headersOf({ name, fileName, contentType }: PlainPart): string {
  const disposition = `Content-Disposition: form-data; name="${name}"`;
  if (fileName === undefined) return disposition;
  return `${disposition}; filename="${plainFileName(fileName)}"\r\nContent-Type: ${plainType(contentType)}`;
}

const MAX_FILE_NAME = 100;

/** The last segment of a path, with its extension, by which services recognize formats. */
export function plainFileName(fileName: string): string {
  const segment = fileName.split(/[/\\]/).at(-1) ?? "";
  const plain = segment.replace(/[^A-Za-z0-9._-]/gu, "_").slice(-MAX_FILE_NAME);
  return plain === "" || plain.startsWith(".") ? `file${plain}` : plain;
}

/**
 * The type to send for a file. Files are recordings and images; typed as text, some readers would take them for fields.
 */
export const plainType = (contentType: string | undefined): string =>
  contentType !== undefined && /^(audio|image|video)\/[a-z0-9][a-z0-9.+-]{0,63}$/.test(contentType)
    ? contentType
    : "application/octet-stream";

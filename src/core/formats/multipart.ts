/**
 * Parses multipart/form-data in place: each part is a view of the body's bytes, so that an upload is in memory only
 * once.
 *
 * The grammar is followed strictly. Where readers are known to differ (a delimiter after a bare line feed, two names,
 * text around the form), the form is refused with a message that says why. The form that goes upstream is rewritten
 * (multipart/form-writer.ts), so every reader downstream finds the same fields.
 */
import { otherThan, parseHeaderValue } from "./multipart/header-grammar.ts";
import { indexOfBytes, lineFinder, startsWith } from "./multipart/line-search.ts";
import { parsePartHeaders } from "./multipart/part-headers.ts";

const MAX_PARTS = 64;
const MAX_PART_HEADER_BYTES = 8 * 1024;

/** One part. */
export interface FormPart {
  readonly name: string;
  /** As the client wrote it; undefined for a text field. */
  readonly fileName: string | undefined;
  /** `type/subtype`, without parameters. */
  readonly contentType: string | undefined;
  readonly content: Uint8Array;
}

export type ParsedForm = { ok: true; parts: readonly FormPart[] } | { ok: false; message: string };

const encoder = new TextEncoder();
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const DASHES = encoder.encode("--");
const CRLF = encoder.encode("\r\n");
const BLANK_LINE = encoder.encode("\r\n\r\n");

const refused = (message: string): ParsedForm => ({ ok: false, message });

/** RFC 2046, section 5.1.1, without the space, which some readers remove. */
const BOUNDARY = /^[0-9A-Za-z'()+_,./:=?-]{1,70}$/;
const NO_BOUNDARY =
  "The Content-Type needs a boundary of 1 to 70 letters, digits or other characters that RFC 2046 allows.";

export type FoundBoundary = { ok: true; boundary: string } | { ok: false; message: string };

/** The boundary in a form's content type. */
export function boundaryOf(contentType: string): FoundBoundary {
  const value = parseHeaderValue(contentType, "The Content-Type");
  if (typeof value === "string") return { ok: false, message: value };
  const unknown = otherThan(value, ["boundary", "charset"]);
  if (unknown !== undefined) return { ok: false, message: `The Content-Type has the parameter \`${unknown}\`.` };
  const charset = value.parameters.get("charset") ?? "utf-8";
  if (!/^(utf-?8|us-ascii)$/i.test(charset)) return { ok: false, message: "The form must be in UTF-8." };
  const boundary = value.parameters.get("boundary") ?? "";
  return BOUNDARY.test(boundary) ? { ok: true, boundary } : { ok: false, message: NO_BOUNDARY };
}

/** Splits a body into its parts. */
export function parseForm(body: Uint8Array, boundary: string): ParsedForm {
  const delimiter = encoder.encode(`--${boundary}`);
  const find = lineFinder(delimiter);
  const first = startsWith(body, 0, CRLF) ? CRLF.length : 0;
  if (!startsWith(body, first, delimiter)) return refused("The multipart body does not begin with its boundary.");
  const parts: FormPart[] = [];
  for (let at = first + delimiter.length; ; ) {
    if (startsWith(body, at, DASHES)) return ended(body, at + DASHES.length, parts);
    if (!startsWith(body, at, CRLF)) return refused("The multipart body has a malformed boundary line.");
    const start = at + CRLF.length;
    const next = find(body, start + CRLF.length);
    if (next === -1) return refused("The multipart body is cut off: its last boundary is missing.");
    const end = next - CRLF.length;
    if (!startsWith(body, end, CRLF)) return refused("The multipart body has a boundary after a bare line end.");
    if (parts.length === MAX_PARTS) return refused(`The multipart body has more than ${MAX_PARTS} parts.`);
    const part = parsePart(body.subarray(start, end));
    if (typeof part === "string") return refused(part);
    parts.push(part);
    at = next + delimiter.length;
  }
}

function ended(body: Uint8Array, at: number, parts: readonly FormPart[]): ParsedForm {
  const isEnd = at === body.length || (startsWith(body, at, CRLF) && at + CRLF.length === body.length);
  return isEnd ? { ok: true, parts } : refused("The multipart body goes on after its last boundary.");
}

function parsePart(raw: Uint8Array): FormPart | string {
  const headerEnd = indexOfBytes(raw.subarray(0, MAX_PART_HEADER_BYTES), BLANK_LINE, 0);
  if (headerEnd === -1) return "A part of the multipart body has no end of its headers.";
  const text = decode(raw.subarray(0, headerEnd));
  if (text === undefined) return "A part of the multipart body has headers that are not UTF-8.";
  const headers = parsePartHeaders(text);
  if (typeof headers === "string") return headers;
  const content = raw.subarray(headerEnd + BLANK_LINE.length);
  const { name, fileName, contentType, mustBeAscii, length = content.length } = headers;
  if (length !== content.length) return "A part of the multipart body is not as long as it says.";
  if (mustBeAscii && content.some((byte) => byte > 0x7f)) return `The field \`${name}\` is not in UTF-8.`;
  return { name, fileName, contentType, content };
}

/** A text field's value; undefined if it is not UTF-8. A byte order mark is part of it. */
export const textOf = (part: FormPart): string | undefined => decode(part.content);

function decode(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

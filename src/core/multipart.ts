/**
 * multipart/form-data, taken apart in place: each part is a view of the body's bytes, so that an upload stands in memory
 * once. Limits stand on everything; what does not fit them is refused with words that say why.
 */
const MAX_PARTS = 64;
const MAX_PART_HEADER_BYTES = 8 * 1024;

/** One part. `raw` is all of it between the delimiters: headers, blank line, content. */
export interface FormPart {
  readonly name: string;
  /** Undefined for a text field. */
  readonly fileName: string | undefined;
  readonly contentType: string | undefined;
  readonly content: Uint8Array;
  readonly raw: Uint8Array;
}

export type ParsedForm = { ok: true; boundary: string; parts: readonly FormPart[] } | { ok: false; message: string };

const encoder = new TextEncoder();
const utf8 = new TextDecoder("utf-8", { fatal: true });

const refused = (message: string): ParsedForm => ({ ok: false, message });

/** The boundary that a content type names, as RFC 2046 allows it; undefined where there is none. */
export function boundaryOf(contentType: string | null): string | undefined {
  const match = /;\s*boundary=(?:"([^"]{1,70})"|([\w'()+,./:=?-]{1,70}))\s*(?:;|$)/i.exec(contentType ?? "");
  return match?.[1] ?? match?.[2];
}

/** Takes a body apart at its boundary. */
export function parseForm(body: Uint8Array, boundary: string): ParsedForm {
  const delimiter = encoder.encode(`\r\n--${boundary}`);
  const first = delimiter.subarray(2);
  const search = finder(delimiter);
  let at = startsWith(body, 0, first) ? first.length : afterPreamble(search(body, 0), delimiter);
  if (at === -1) return refused("The multipart body does not begin with its boundary.");
  const parts: FormPart[] = [];
  for (;;) {
    if (startsWith(body, at, DASHES)) return { ok: true, boundary, parts };
    if (!startsWith(body, at, CRLF)) return refused("The multipart body has a malformed boundary line.");
    const end = search(body, at + 2);
    if (end === -1) return refused("The multipart body is cut off: its last boundary is missing.");
    if (parts.length === MAX_PARTS) return refused(`The multipart body has more than ${MAX_PARTS} parts.`);
    const part = parsePart(body.subarray(at + 2, end));
    if (typeof part === "string") return refused(part);
    parts.push(part);
    at = end + delimiter.length;
  }
}

const DASHES = encoder.encode("--");
const CRLF = encoder.encode("\r\n");
const BLANK_LINE = encoder.encode("\r\n\r\n");
const findBlankLine = finder(BLANK_LINE);

const afterPreamble = (found: number, delimiter: Uint8Array): number => (found === -1 ? -1 : found + delimiter.length);

function parsePart(raw: Uint8Array): FormPart | string {
  const headerEnd = findBlankLine(raw.subarray(0, MAX_PART_HEADER_BYTES), 0);
  if (headerEnd === -1) return "A part of the multipart body has no end of its headers.";
  let headers: string;
  try {
    headers = utf8.decode(raw.subarray(0, headerEnd));
  } catch {
    return "A part of the multipart body has headers that are not UTF-8.";
  }
  const lines = headers.split("\r\n");
  const disposition = headerOf(lines, "content-disposition");
  const name = disposition && parameterOf(disposition, "name");
  if (!disposition || !/^form-data\s*(;|$)/i.test(disposition) || name === undefined) {
    return "Each part of the multipart body needs a `Content-Disposition: form-data` with a name.";
  }
  return {
    name,
    fileName: parameterOf(disposition, "filename"),
    contentType: headerOf(lines, "content-type"),
    content: raw.subarray(headerEnd + BLANK_LINE.length),
    raw,
  };
}

function headerOf(lines: readonly string[], name: string): string | undefined {
  const line = lines.find((candidate) => candidate.toLowerCase().startsWith(`${name}:`));
  return line?.slice(name.length + 1).trim();
}

function parameterOf(header: string, name: string): string | undefined {
  const match = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s]+))`, "i").exec(header);
  return match?.[1]?.replace(/\\(.)/g, "$1") ?? match?.[2];
}

function startsWith(bytes: Uint8Array, at: number, prefix: Uint8Array): boolean {
  return prefix.every((byte, index) => bytes[at + index] === byte);
}

/** Boyer-Moore-Horspool: an upload is megabytes long, and this looks at a fraction of its bytes. */
function finder(needle: Uint8Array): (haystack: Uint8Array, from: number) => number {
  const last = needle.length - 1;
  const skip = new Uint32Array(256).fill(needle.length);
  for (let index = 0; index < last; index++) skip[needle[index] as number] = last - index;
  return (haystack, from) => {
    for (let at = from; at + last < haystack.length; at += skip[haystack[at + last] as number] as number) {
      let index = last;
      while (index >= 0 && haystack[at + index] === needle[index]) index--;
      if (index < 0) return at;
    }
    return -1;
  };
}

/** A text field's value; undefined where it is not UTF-8. */
export function textOf(part: FormPart): string | undefined {
  try {
    return utf8.decode(part.content);
  } catch {
    return undefined;
  }
}

/**
 * Parses the headers of one part. Each may occur once and must be known: readers differ in which of two they take, in
 * what a folded line continues, and in what unknown headers change.
 */
import { isToken, otherThan, parseHeaderValue } from "./header-grammar.ts";

export interface PartHeaders {
  readonly name: string;
  /** As the client wrote it; undefined for a text field. */
  readonly fileName: string | undefined;
  /** `type/subtype` in lower case, without parameters. */
  readonly contentType: string | undefined;
  /** The content must be ASCII, because only then is it the same text in every charset. */
  readonly mustBeAscii: boolean;
  /** The length that the part claims for its content. */
  readonly length: number | undefined;
}

const KNOWN = ["content-disposition", "content-type", "content-transfer-encoding", "content-length"];
const PLAIN_ENCODINGS = ["7bit", "8bit", "binary"];
/** Types under which clients send text fields. */
const TEXT_TYPES = ["text/plain", "application/json"];
const UTF8_CHARSETS = ["utf-8", "utf8", "us-ascii", "ascii"];
/** Charsets that agree with UTF-8 on ASCII; some clients name them for every text. */
const ASCII_CHARSETS = ["iso-8859-1", "windows-1252"];
/** RFC 8187, as .NET sends it beside `filename`. */
const EXTENDED_VALUE = /^utf-8'[A-Za-z-]*'[!#$&+.^_`|~0-9A-Za-z%-]*$/i;
/** A line end, a tab or any other control character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f]/;

/** Parses the text before the blank line. Returns a string with the error if it is invalid. */
export function parsePartHeaders(text: string): PartHeaders | string {
  const headers = new Map<string, string>();
  for (const line of text.split("\r\n")) {
    const problem = addHeader(headers, line);
    if (problem) return problem;
  }
  const named = parseDisposition(headers.get("content-disposition"));
  if (typeof named === "string") return named;
  const typed = parseType(headers.get("content-type"), named.fileName !== undefined);
  if (typeof typed === "string") return typed;
  const encoding = headers.get("content-transfer-encoding")?.toLowerCase();
  if (encoding !== undefined && !PLAIN_ENCODINGS.includes(encoding)) {
    return `A part of the multipart body has a Content-Transfer-Encoding; send its bytes as they are.`;
  }
  const length = headers.get("content-length");
  if (length !== undefined && !/^\d{1,9}$/.test(length)) return "A part of the multipart body has a malformed length.";
  return { ...named, ...typed, length: length === undefined ? undefined : Number(length) };
}

function addHeader(headers: Map<string, string>, line: string): string | undefined {
  if (CONTROL.test(line)) return "A part of the multipart body has a control character or a bare line end in a header.";
  if (line.startsWith(" ")) return "A part of the multipart body has a header that is folded over two lines.";
  const colon = line.indexOf(":");
  const name = line.slice(0, colon).toLowerCase();
  if (colon === -1 || !isToken(name)) return "A part of the multipart body has a malformed header.";
  if (!KNOWN.includes(name)) return `A part of the multipart body has the header \`${name}\`; it is not understood.`;
  if (headers.has(name)) return `A part of the multipart body has the header \`${name}\` twice.`;
  headers.set(name, line.slice(colon + 1).replace(/^ +| +$/g, ""));
  return undefined;
}

function parseDisposition(header: string | undefined): Pick<PartHeaders, "name" | "fileName"> | string {
  const what = "A Content-Disposition of the multipart body";
  const value = parseHeaderValue(header ?? "", what);
  if (typeof value === "string") return header === undefined ? MISSING : value;
  const { parameters } = value;
  const name = parameters.get("name");
  if (value.head !== "form-data" || !name) return MISSING;
  const unknown = otherThan(value, ["name", "filename", "filename*"]);
  if (unknown !== undefined) return `${what} has the parameter \`${unknown}\`; it is not understood.`;
  if (name.includes("\\")) return `${what} has a name with a backslash.`;
  const fileName = parameters.get("filename");
  const extended = parameters.get("filename*");
  // .NET sends both: a file for every reader. The extended one alone is a file only for some.
  if (extended !== undefined && (fileName === undefined || !EXTENDED_VALUE.test(extended))) {
    return `${what} has a \`filename*\`; send \`filename\`.`;
  }
  return { name, fileName: fileName?.replace(/\\(["\\])/g, "$1") };
}

const MISSING = "Each part of the multipart body needs a `Content-Disposition: form-data` with a name.";

function parseType(
  header: string | undefined,
  isFile: boolean,
): Pick<PartHeaders, "contentType" | "mustBeAscii"> | string {
  if (header === undefined) return { contentType: undefined, mustBeAscii: false };
  const what = "A Content-Type of a part of the multipart body";
  const value = parseHeaderValue(header, what);
  if (typeof value === "string") return value;
  const { head: contentType } = value;
  if (!contentType.includes("/")) return `${what} is no media type.`;
  if (/^(multipart|message)\//.test(contentType))
    return `${what} is \`${contentType}\`; forms inside a form are not read.`;
  if (isFile) return { contentType, mustBeAscii: false };
  const charset = (value.parameters.get("charset") ?? "utf-8").toLowerCase();
  if (!TEXT_TYPES.includes(contentType) || otherThan(value, ["charset"]) !== undefined) {
    return `A text field of the multipart body has the type \`${contentType}\`; send a \`filename\` with a file.`;
  }
  const mustBeAscii = ASCII_CHARSETS.includes(charset);
  if (!mustBeAscii && !UTF8_CHARSETS.includes(charset)) return "A text field of the multipart body is not in UTF-8.";
  return { contentType, mustBeAscii };
}

/**
 * Forms made by hand, byte by byte, and what a reader finds in them. For Node and workerd alike.
 *
 * Texts here are bytes: one character of U+0000 to U+00FF each.
 */
import fc from "fast-check";
import * as z from "zod";
import { form } from "../../src/core/endpoints/body.ts";
import { joinBytes } from "../../src/core/formats/bytes.ts";
import { freshBoundary } from "../../src/core/formats/multipart/form-writer.ts";
import { parseForm } from "../../src/core/formats/multipart.ts";
import { atOnce, toEnd } from "../../src/core/steps.ts";

export const B = "----WebKitFormBoundary7MA4YWxkTrZu0gW";

export const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(text, (character) => character.charCodeAt(0));
export const textOf = (bytes: Uint8Array): string => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

/** A part whose headers are these lines. */
export const rawPart = (headers: string, content: string): string => `--${B}\r\n${headers}\r\n\r\n${content}\r\n`;
/** A part whose disposition has these parameters. */
export const part = (parameters: string, content: string): string =>
  rawPart(`Content-Disposition: form-data; ${parameters}`, content);
export const END = `--${B}--\r\n`;
export const wire = (...parts: readonly string[]): string => `${parts.join("")}${END}`;

/** What a reader found: a name, whether it is a file, its file name, and its bytes. */
export type Found = readonly [name: string, fileName: string | null, content: string];

/** The runtime's own reader: undici in Node, the C++ one in workerd. */
export async function readAsFormData(body: Uint8Array<ArrayBuffer>, contentType: string): Promise<Found[]> {
  const data = await new Response(body, { headers: { "content-type": contentType } }).formData();
  const found: Promise<Found>[] = [];
  data.forEach((value, name) => {
    found.push(foundIn(name, value as string | File));
  });
  return Promise.all(found);
}

async function foundIn(name: string, value: string | File): Promise<Found> {
  if (typeof value === "string") return [name, null, textOf(new TextEncoder().encode(value))];
  return [name, value.name, textOf(new Uint8Array(await value.arrayBuffer()))];
}

export interface Rewritten {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly contentType: string;
  /** What every reader has to find in it. */
  readonly expected: readonly Found[];
}

const ANY_FORM = form(z.looseObject({}));
const random = (): Uint8Array => crypto.getRandomValues(new Uint8Array(16));

/**
 * The form as it would go upstream for `model: "target"`; undefined where it is refused. `expected` comes from the
 * values that the rules and the price are applied to, not from what was written.
 */
export function rewritten(text: string, boundary = B): Rewritten | undefined {
  const read = parseForm(bytesOf(text), boundary);
  if (!read.ok) return undefined;
  const raw = { kind: "form", boundary: freshBoundary(random()), parts: read.parts } as const;
  const rules = { taken: ["model"], forced: () => ({}), dataUrlBytes: () => atOnce(0) };
  const parsed = toEnd(ANY_FORM.parse(raw, rules));
  if (!parsed.ok) return undefined;
  const kept = read.parts.filter(({ name }) => name !== "model");
  const expected = kept.map(({ name, fileName, content }): Found => [name, fileName ?? null, textOf(content)]);
  const body = joinBytes(parsed.payload.encode({ model: "target" }) ?? []);
  return { body, contentType: parsed.payload.contentType ?? "", expected: [["model", null, "target"], ...expected] };
}

/** File names are written in a safe alphabet: that a part is a file is what has to be the same. */
export const comparable = (found: readonly Found[]): Found[] =>
  found.map(([name, fileName, content]) => [name, fileName === null ? null : "file", content]);

const TWO_MODELS = part('name="model"', "cheap");
/** Forms that readers take for different ones. Each has to be refused. */
export const SMUGGLED: readonly (readonly [what: string, body: string])[] = [
  ["two name parameters", wire(TWO_MODELS, part('name="x"; name="model"', "dear"))],
  ["two name parameters in another case", wire(TWO_MODELS, part('name="x"; NAME="model"', "dear"))],
  [
    "two dispositions",
    wire(
      TWO_MODELS,
      rawPart('Content-Disposition: form-data; name="x"\r\ncontent-disposition: form-data; name="model"', "dear"),
    ),
  ],
  ["name inside a quoted file name", wire(part('filename="a; name=model"; name="x"; size=1', "dear"))],
  ["name behind an escaped quote", wire(part('filename="a\\"; name="model"; x="', "dear"))],
  ["name behind an unescaped quote", wire(part('filename="a"; name="model"; x=""; name="x"', "dear"))],
  ["name*", wire(TWO_MODELS, part("name=\"x\"; name*=utf-8''model", "dear"))],
  ["name* alone", wire(part("name*=utf-8''model", "dear"))],
  ["filename* alone", wire(part("name=\"model\"; filename*=utf-8''a.txt", "dear"))],
  ["name in continuations", wire(part('name*0="mo"; name*1="del"', "dear"))],
  ["spaces around =", wire(TWO_MODELS, part('name = "model"; name="x"', "dear"))],
  ["a space before =", wire(part('name ="model"', "dear"))],
  ["a space after =", wire(part('name= "model"', "dear"))],
  ["an unknown parameter", wire(part('name="model"; size=4', "dear"))],
  ["a parameter without a value", wire(part('name="model"; filename', "dear"))],
  ["a semicolon at the end", wire(part('name="model";', "dear"))],
  ["text behind a quoted string", wire(part('name="model"x', "dear"))],
  ["a quoted string without an end", wire(part('name="model', "dear"))],
  ["a single-quoted name with spaces", wire(part("name='mo del'", "dear"))],
  ["a comma for a semicolon", wire(part('name="x", name="model"', "dear"))],
  ["a backslash in a name", wire(part('name="mo\\del"', "dear"))],
  ["a quote in a name", wire(part('name="mo\\"del"', "dear"))],
  ["an encoded quote in a name", wire(part('name="model%22"', "dear"))],
  ["an encoded line end in a name", wire(part('name="model%0D%0A"', "dear"))],
  ["a space in a name", wire(part('name=" model"', "dear"))],
  ["an empty name", wire(part('name=""', "dear"))],
  ["a NUL in a name", wire(part('name="model\0"', "dear"))],
  ["a tab in a name", wire(part('name="\tmodel"', "dear"))],
  ["a name that is not UTF-8", wire(part('name="mod\xe9l"', "dear"))],
  ["a name beyond ASCII", wire(part('name="\xef\xbd\x8dodel"', "dear"))],
  ["a name that is cut by some", wire(part(`name="${"x".repeat(101)}"`, "dear"))],
  ["_charset_", wire(part('name="_charset_"', "utf-16"), TWO_MODELS)],
  ["_CHARSET_", wire(part('name="_CHARSET_"', "utf-16"), TWO_MODELS)],
  ["attachment", wire(rawPart('Content-Disposition: attachment; name="model"', "dear"))],
  ["no disposition", wire(rawPart("Content-Type: text/plain", "dear"))],
  ["an unknown header", wire(rawPart('Content-Disposition: form-data; name="x"\r\nContent-ID: model', "dear"))],
  ["a folded header", wire(rawPart('Content-Disposition: form-data;\r\n name="model"', "dear"))],
  ["a folded header by a tab", wire(rawPart('Content-Disposition: form-data;\r\n\tname="model"', "dear"))],
  ["a bare LF in headers", wire(rawPart('Content-Disposition: form-data; name="x"\nContent-Type: a/b', "dear"))],
  ["a bare CR in headers", wire(rawPart('Content-Disposition: form-data; name="x"\rContent-Type: a/b', "dear"))],
  ["headers that end with bare LFs", wire(rawPart('Content-Disposition: form-data; name="x"\n\ndear', "more"))],
  ["a space before the colon", wire(rawPart('Content-Disposition : form-data; name="model"', "dear"))],
  ["a header without a colon", wire(rawPart('Content-Disposition: form-data; name="x"\r\nx', "dear"))],
  ["no headers", wire(`--${B}\r\n\r\ndear\r\n`)],
  ["a first line that is empty", wire(rawPart('\r\nContent-Disposition: form-data; name="model"', "dear"))],
  ["headers that are too long", wire(rawPart(`Content-Disposition: form-data; name="${"x".repeat(9000)}"`, "dear"))],
  ...["base64", "quoted-printable", "x-gzip", "BASE64", "", "8bit; x=y"].map((encoding): readonly [string, string] => [
    `a transfer encoding: ${encoding}`,
    wire(rawPart(`Content-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: ${encoding}`, "ZGVhcg==")),
  ]),
  ...[
    "text/plain; charset=utf-16",
    "text/plain; charset=utf-8; charset=utf-16",
    "text/plain; charset=utf-7",
    "text/plain; format=flowed",
    "application/octet-stream",
    "multipart/mixed; boundary=x",
    "text",
    "",
  ].map((type): readonly [string, string] => [
    `a text field of type ${type}`,
    wire(rawPart(`Content-Disposition: form-data; name="model"\r\nContent-Type: ${type}`, "dear")),
  ]),
  ...["multipart/mixed; boundary=x", "message/rfc822", "audio", "audio/wav; a=b; a=c", "audio/wav, audio/mpeg"].map(
    (type): readonly [string, string] => [
      `a file of type ${type}`,
      wire(rawPart(`Content-Disposition: form-data; name="file"; filename="a"\r\nContent-Type: ${type}`, "dear")),
    ],
  ),
  [
    "latin-1 that is not ASCII",
    wire(
      rawPart('Content-Disposition: form-data; name="x"\r\nContent-Type: text/plain; charset=iso-8859-1', "\xc3\xa9"),
    ),
  ],
  ["a length that is a lie", wire(rawPart('Content-Disposition: form-data; name="x"\r\nContent-Length: 2', "dear"))],
  [
    "a delimiter after a bare LF",
    wire(part('name="x"', `a\n--${B}\r\nContent-Disposition: form-data; name="model"\r\n\r\ndear`)),
  ],
  [
    "a delimiter after a bare CR",
    wire(part('name="x"', `a\r--${B}\r\nContent-Disposition: form-data; name="model"\r\n\r\ndear`)),
  ],
  ["an end after a bare LF", wire(part('name="x"', `a\n--${B}--\n`))],
  ["a delimiter that goes on", wire(part('name="x"', `a\r\n--${B}x`))],
  ["a delimiter with spaces", wire(part('name="x"', "a")).replace(`--${B}\r\n`, `--${B}  \r\n`)],
  ["a delimiter with a bare LF behind", wire(part('name="x"', "a")).replace(`--${B}\r\n`, `--${B}\n`)],
  ["two delimiters in a row", wire(`--${B}\r\n`, part('name="model"', "dear"))],
  ["text before the form", `before\r\n${wire(TWO_MODELS)}`],
  ["a form of another kind before the form", `${part('name="model"', "dear").replaceAll("\r", "")}${wire(TWO_MODELS)}`],
  ["text behind the form", `${wire(TWO_MODELS)}behind`],
  ["a part behind the form", `${wire(TWO_MODELS)}${part('name="model"', "dear")}${END}`],
  ["no end", part('name="model"', "dear")],
  ["half an end", `${part('name="model"', "dear")}--${B}-`],
  ["two fields of a name", wire(part('name="x"', "a"), part('name="x"', "b"))],
  ["a field and a file of a name", wire(part('name="x"', "a"), part('name="x"; filename="a"', "b"))],
  ["a byte order mark", wire(part('name="x"', "\xef\xbb\xbfa"))],
  ["65 parts", wire(...Array.from({ length: 65 }, (_, index) => part(`name="x${index}"`, "a")))],
  ["10,000 parts", wire(...Array.from({ length: 10_000 }, (_, index) => part(`name="x${index}"`, "a")))],
];

const NAMES = ["file", "prompt", "language", "x[]", "x[a]", "a.b", "temperature"];
const CONTENT = fc.oneof(
  fc.stringMatching(/^[a-z0-9 ]{0,20}$/),
  fc.uint8Array({ maxLength: 40 }).map(textOf),
  fc.constantFrom("\r\n", "\n", "\r", "--", `x--${B}--`, `\r\n--${B.slice(0, -1)}`, "\r\n\r\n", "\0", `"; name="`),
);
const FILE_NAME = fc.constantFrom(
  "a.wav",
  "",
  "a b.mp3",
  "../../etc/passwd",
  "C:\\a.wav",
  'a\\".wav',
  "%22%0d%0a",
  "\xc3\xa9.wav",
);
const A_PART = fc.oneof(
  fc
    .record({ name: fc.constantFrom(...NAMES), content: fc.stringMatching(/^[ -~\r\n]{0,30}$/) })
    .map(({ name, content }) => part(`name="${name}"`, content)),
  fc
    .record({ name: fc.constantFrom(...NAMES), content: CONTENT, fileName: FILE_NAME })
    .map(({ name, content, fileName }) =>
      rawPart(
        `Content-Disposition: form-data; name="${name}"; filename="${fileName}"\r\nContent-Type: audio/wav`,
        content,
      ),
    ),
);
/** Pieces that change how some reader reads what stands around them. */
const FRAGMENTS = [
  ..."\n\r\"\\;= \t\0:,'*%",
  ...[
    "\r\n",
    "\r\n\r\n",
    "\n\n",
    "\r\n ",
    `--${B}`,
    `--${B}--`,
    `\n--${B}\r\n`,
    `\r\n--${B}\r\n`,
    `--${B}--\r\n`,
    "--",
  ],
  ...[
    '; name="model"',
    "; name*=utf-8''model",
    "; filename=a",
    "; filename*=utf-8''a",
    ' name = "model"',
    "; x=y",
    '\\"',
  ],
  ...[
    '\r\nContent-Disposition: form-data; name="model"',
    "\r\nContent-Transfer-Encoding: base64",
    "\r\nContent-Length: 4",
  ],
  ...["\r\nContent-Type: text/plain; charset=utf-16", "\r\nContent-Type: text/plain", "\r\ncontent-type: audio/wav"],
  ...["%22", "%0A", "[]", "\xef\xbb\xbf", "\xc3\xa9", "\xff", 'filename="', "model"],
];
const EDIT = fc.record({
  /** In thousandths of the form. */
  at: fc.nat(1000),
  cut: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(12)),
  put: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...FRAGMENTS) }, fc.constant("")),
});

/** Sound forms, and such in which up to three pieces were put or cut out. */
export const HOSTILE_FORM: fc.Arbitrary<string> = fc
  .tuple(fc.array(A_PART, { minLength: 1, maxLength: 4 }), fc.array(EDIT, { maxLength: 3 }))
  .map(([parts, edits]) =>
    edits.reduce(
      (text, { at, cut, put }) => {
        const from = Math.floor((text.length * at) / 1000);
        return text.slice(0, from) + put + text.slice(from + cut);
      },
      wire(...parts),
    ),
  );

/** Sound forms, each name once. */
export const SOUND_FORM: fc.Arbitrary<string> = fc
  .uniqueArray(fc.tuple(fc.constantFrom(...NAMES), CONTENT, FILE_NAME), { selector: ([name]) => name, maxLength: 6 })
  .map((fields) =>
    wire(...fields.map(([name, content, fileName]) => part(`name="${name}"; filename="${fileName}"`, content))),
  );

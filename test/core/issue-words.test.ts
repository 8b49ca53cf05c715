/**
 * Errors that callers read: the field, what it must be, what it was; never the validator's words, never what was said.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import type { Endpoint } from "../../src/core/endpoints/endpoint.ts";
import { ENDPOINTS } from "../../src/core/endpoints/table.ts";
import { parseJson } from "../../src/core/formats/json.ts";
import { parseForm } from "../../src/core/formats/multipart.ts";
import { bracketed, dotted, validate } from "../../src/core/issue-words.ts";
import { fieldNames } from "../../src/core/schema-words.ts";
import { BOUNDARY, FIXTURES, formBytes } from "../support/fixtures.ts";
import { allowedMs } from "../support/slowness.ts";

const MARKER = "m".repeat(64);
const VALIDATORS_WORDS = /Invalid|expected .* received|Too (small|big)|Unrecognized|undefined|NaN|\[object/;
const entry = (id: string) => ENDPOINTS.find((one) => one.id === id) as Endpoint;

/** What is said of the row's fixture with this field set; undefined leaves it out, null is null. */
function said(
  endpoint: Endpoint,
  field: string,
  value: unknown,
): { message: string; param: string | null } | undefined {
  const fixture = FIXTURES[endpoint.id];
  if (!fixture) throw new Error(`no fixture for ${endpoint.id}`);
  const { body } = fixture;
  const parsed = endpoint.parse({
    ...fixture,
    body:
      body.kind === "json"
        ? { kind: "json", value: { ...(body.value as object), [field]: value } }
        : body.kind === "form"
          ? { ...body, parts: [...body.parts.filter(({ name }) => name !== field), ...partOf(field, value)] }
          : body,
  });
  if (parsed.ok) return undefined;
  expect(parsed.refusal.kind).toBe("invalid_request");
  return parsed.refusal as { message: string; param: string | null };
}

function partOf(name: string, value: unknown) {
  if (value === undefined) return [];
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const form = parseForm(formBytes([[name, text]]), BOUNDARY);
  if (!form.ok) throw new Error(form.message);
  return form.parts;
}

const fields = ENDPOINTS.flatMap((endpoint) =>
  fieldNames(endpoint.body.schema ?? undefined).map((field) => [endpoint.id, field] as const),
);
const WRONG = [
  undefined,
  null,
  "",
  MARKER,
  `two words ${MARKER}`,
  5,
  1.5,
  -1e9,
  1e9,
  1e300,
  true,
  {},
  [],
  [5],
  [MARKER],
];
/** Free text; a form's text may be anything, and these two are looked at in company only. */
const ANYTHING_GOES = /^(audio\.\w+|images\.edits) (language|prompt|size)$|^video\.\w+ (num_frames|fps)$/;

describe("every documented field of every row", () => {
  it("are many", () => expect(fields.length).toBeGreaterThan(80));

  it.each(fields)("%s: `%s` wrong or missing is a plain sentence", (id, field) => {
    const found = WRONG.map((value) => said(entry(id), field, value)).filter((one) => one !== undefined);
    if (!ANYTHING_GOES.test(`${id} ${field}`)) expect(found).not.toEqual([]);
    for (const { message, param } of found) {
      expect(param).toMatch(new RegExp(`^${field}\\b`));
      expect(message).toContain(`\`${param}\``);
      expect(message).toMatch(/must|is required|is not/);
      expect(message).toMatch(/^`[^`]+` [a-z].*[.?]$/);
      expect(message).not.toMatch(VALIDATORS_WORDS);
      expect(message).not.toContain(MARKER);
      expect(message.length).toBeLessThan(400);
    }
  });

  it("no text of 33 characters or more comes back, whatever stands where", () => {
    const text = fc.string({ minLength: 33, maxLength: 80 });
    const value = fc.oneof(
      text,
      fc.array(text, { maxLength: 3 }),
      fc.dictionary(fc.constant("type"), text),
      fc.double(),
    );
    fc.assert(
      fc.property(fc.constantFrom(...fields), value, text, ([id, field], wrong, item) => {
        if (FIXTURES[id]?.body.kind !== "json") return;
        for (const set of [wrong, [wrong], { url: wrong, role: item, content: wrong }, [{ role: wrong, url: item }]]) {
          const message = said(entry(id), field, set)?.message ?? "";
          for (const one of texts([wrong, item])) expect(message).not.toContain(one);
        }
      }),
    );
  });
  const texts = (value: unknown): string[] =>
    typeof value === "string" ? [value] : typeof value === "object" && value ? Object.values(value).flatMap(texts) : [];
});

const user = (content: unknown) => [{ role: "user", content }];
const part = (one: unknown) => user([one]);

describe("what is said", () => {
  it.each<[string, string, unknown, string]>([
    ["chat.completions", "temperature", 3, "`temperature` must be a number from 0 to 2; it was 3."],
    ["chat.completions", "temperature", "hot", '`temperature` must be a number from 0 to 2; it was "hot".'],
    [
      "chat.completions",
      "temperature",
      "so hot!",
      "`temperature` must be a number from 0 to 2; it was a string of 7 characters.",
    ],
    ["chat.completions", "n", 1.5, "`n` must be a whole number from 1 to 128; it was 1.5."],
    ["chat.completions", "max_tokens", 0, "`max_tokens` must be a whole number of at least 1; it was 0."],
    [
      "chat.completions",
      "seed",
      1e300,
      "`seed` must be a whole number from -9007199254740991 to 9007199254740991; it was 1e+300.",
    ],
    ["chat.completions", "stream", "yes", '`stream` must be true or false; it was "yes".'],
    ["chat.completions", "model", undefined, "`model` is required: a string of 1 to 256 characters."],
    ["chat.completions", "model", null, "`model` must be a string of 1 to 256 characters; it was null."],
    [
      "chat.completions",
      "model",
      MARKER.repeat(5),
      "`model` must be a string of 1 to 256 characters; it was a string of 320 characters.",
    ],
    ["chat.completions", "messages", undefined, "`messages` is required: a non-empty array of messages."],
    [
      "chat.completions",
      "messages",
      "Hi",
      "`messages` must be a non-empty array of messages; it was a string of 2 characters.",
    ],
    ["chat.completions", "messages", ["Hi"], "`messages[0]` must be an object; it was a string of 2 characters."],
    [
      "chat.completions",
      "messages",
      [{ role: "robot", content: "Hi" }],
      '`messages[0].role` must be one of system, developer, user, assistant, tool, function; it was "robot".',
    ],
    [
      "chat.completions",
      "messages",
      user(5),
      "`messages[0].content` must be a string or an array of content parts; it was 5.",
    ],
    ["chat.completions", "messages", user(null), "`messages[0].content` is required for role `user`; it was null."],
    ["chat.completions", "messages", user(undefined), "`messages[0].content` is required for role `user`."],
    ["chat.completions", "messages", part({ type: "text" }), "`messages[0].content[0].text` is required: a string."],
    ["chat.completions", "messages", part({}), '`messages[0].content[0].type` is required: a string such as "text".'],
    ["chat.completions", "stop", ["a", 5], "`stop` must be a string or an array of strings; `stop[1]` was 5."],
    ["responses.create", "input", [5], "`input` must be a text or an array of content items; `input[0]` was 5."],
    ["responses.create", "input", {}, "`input` must be a text or an array of content items; it was an object."],
    ["rerank", "documents", [], "`documents` must be an array of 1 to 1000 strings; it was an empty array."],
    ["images.generations", "n", 2, "`n` must be 1: one image is made per call; it was 2."],
    ["images.edits", "image", undefined, "`image` is required: an image file."],
    ["images.edits", "image", "text", "`image` must be an image file; it was a string of 4 characters."],
    ["audio.transcriptions", "temperature", "hot", '`temperature` must be a number; it was "hot".'],
    [
      "audio.speech",
      "input",
      "a".repeat(4001),
      "`input` must have at most 4000 characters; it was a string of 4001 characters.",
    ],
    ["video.generations", "duration", 4.5, "`duration` must be a whole number; it was 4.5."],
    [
      "video.generations",
      "reference_image_urls",
      Array(10).fill("https://a.example/"),
      "`reference_image_urls` must be an array of at most 9 images; it was an array of 10 items.",
    ],
    [
      "video.generations",
      "reference_images",
      [{ url: "https://a.example/", role: "last_frame" }],
      "`reference_images` breaks rule 2: `last_frame` needs a `first_frame`.",
    ],
  ])("%s: %s = %j", (id, field, value, message) => {
    expect(said(entry(id), field, value)?.message).toBe(message);
  });

  it.each<[unknown, string]>([
    [[], "The request body must be a JSON object; it was an empty array."],
    ["Hi", "The request body must be a JSON object; it was a string of 2 characters."],
    [null, "The request body must be a JSON object; it was null."],
  ])("of the body %j", (value, message) => {
    const call = { askedPath: "/", params: {}, body: { kind: "json" as const, value } };
    expect(entry("embeddings").parse(call)).toMatchObject({ refusal: { message, param: null } });
  });

  it.each<[string, string]>([
    ['{"a":1,}', "The request body is not valid JSON: look at character 8."],
    ['{"a":', "The request body is not valid JSON: it ends too early."],
    [`{"a":"${MARKER}" "b"}`, `The request body is not valid JSON: look at character ${9 + MARKER.length}.`],
    [MARKER, "The request body is not valid JSON."],
  ])("of what is no JSON: %s", (text, message) => {
    expect(parseJson(new TextEncoder().encode(text))).toMatchObject({ ok: false, message });
  });
});

describe("where unknown fields are refused", () => {
  const schema = z.strictObject({
    rpm_limit: z.int().min(0).optional(),
    tpm_limit: z.int().optional(),
    price: z.strictObject({ cost_usd: z.number().gt(0).max(5) }).optional(),
    by_name: z.record(z.string().regex(/^[a-z]+$/, "must be letters"), z.int()).optional(),
  });
  const told = (value: unknown, pathOf = dotted) => {
    const outcome = validate(schema, value, { whole: "The body", pathOf });
    return outcome.ok ? undefined : outcome.complaint;
  };

  it.each<[unknown, string | null, string]>([
    [{ rpm_limt: 5 }, "rpm_limt", "`rpm_limt` is not a field of this call. Did you mean `rpm_limit`?"],
    [{ RPM: 5 }, "RPM", "`RPM` is not a field of this call. Did you mean `rpm_limit`?"],
    [
      { colour: 1, size: 2, [MARKER.repeat(2)]: 3 },
      "colour",
      `\`colour\` is not a field of this call, nor are \`size\`, \`${MARKER}...\`. Known are \`rpm_limit\`, \`tpm_limit\`, \`price\`, \`by_name\`.`,
    ],
    [
      { price: { cost: 1, cost_usd: 1 } },
      "price.cost",
      "`price.cost` is not a field of this call. Did you mean `cost_usd`?",
    ],
    [{ price: {} }, "price.cost_usd", "`price.cost_usd` is required: a number above 0 and at most 5."],
    [{ by_name: { "a b": 1 } }, "by_name.a b", "`by_name.a b` is not a name that can stand here: it must be letters."],
    [{ by_name: { a: "1" } }, "by_name.a", '`by_name.a` must be a whole number; it was "1".'],
    [[], null, "The body must be an object; it was an empty array."],
    [undefined, null, "The body is required: an object."],
  ])("%j", (value, param, message) => {
    expect(told(value)).toEqual({ param, message });
  });

  it("an endless name is cut, and costs no time", () => {
    const started = performance.now();
    const complaint = told({ ["x".repeat(1_000_000)]: 1 }, bracketed);
    expect(complaint?.message.length).toBeLessThan(300);
    expect(performance.now() - started).toBeLessThan(allowedMs(500));
  });
});

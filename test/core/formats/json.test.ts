import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_DEPTH, MAX_FIELDS, MAX_VALUES, parseJson, parseText, readText } from "../../../src/core/formats/json.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const parse = (text: string) => parseJson(bytes(text));

describe("reading JSON", () => {
  it("gives what JSON.parse gives for every document whose numbers survive", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 10 }), (value) => {
        const text = JSON.stringify(value);
        const integers = text.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d+(?![\d.eE])/g) ?? [];
        fc.pre(integers.every((digits) => Number.isSafeInteger(Number(digits))));
        expect(parse(text)).toEqual({ ok: true, value: JSON.parse(text) });
      }),
    );
  });

  it("lets the last of two equal keys win", () => {
    expect(parse('{"a":1,"a":2}')).toEqual({ ok: true, value: { a: 2 } });
  });

  it("keeps a lone surrogate as an escape when it is written again", () => {
    const read = parse('{"a":"\\ud800"}');
    expect(read.ok && JSON.stringify(read.value)).toBe('{"a":"\\ud800"}');
  });

  it.each(["9007199254740993", "9007199254740992", "-9007199254740992", "1e400", "-1e400", "1E999"])(
    "refuses %s, which would reach the upstream as another number",
    (number) => {
      expect(parse(`{"seed":${number}}`)).toMatchObject({ ok: false, message: expect.stringContaining("position") });
    },
  );

  it.each(["9007199254740991", "-0", "1.5e300", "0.1", "123e45"])("takes %s", (number) => {
    expect(parse(`[${number}]`).ok).toBe(true);
  });

  it("does not mistake digits or brackets inside strings for numbers or depth", () => {
    const text = JSON.stringify({ a: `99999999999999999999 ${"[".repeat(200)} \\" 1e999 \\\\` });
    expect(parse(text).ok).toBe(true);
  });

  it(`takes ${MAX_DEPTH} levels and refuses one more`, () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(parse(nested(MAX_DEPTH)).ok).toBe(true);
    expect(parse(nested(MAX_DEPTH + 1))).toMatchObject({ ok: false, message: expect.stringContaining("nested") });
    expect(parse("[".repeat(1_000_000)).ok).toBe(false);
  });

  it.each(["", "{", '{"a"}', "[1,]", "{a:1}", "nul", "'a'", '"\t"', "[1]x", "[01]", "[.5]", "[+1]", "\ufeff{}", "NaN"])(
    "refuses %j as no JSON",
    (text) => {
      expect(parse(text).ok).toBe(false);
    },
  );

  it("reads a long text as it reads a short one, whatever its characters are and wherever they stand", () => {
    const MB = 1024 * 1024;
    for (const shift of [0, 1, 2, 3]) {
      const value = ["x".repeat(MB - 5 + shift), "\u{1f600}\u4e16\ufeff", "\u4e16".repeat(MB)];
      expect(parse(JSON.stringify(value))).toEqual({ ok: true, value });
    }
    const cut = bytes(`"${"x".repeat(2 * MB)}\u4e16"`);
    cut[cut.length - 2] = 0x22;
    expect(parseJson(cut)).toMatchObject({ ok: false, message: expect.stringContaining("UTF-8") });
  });

  it("refuses bytes that are not UTF-8", () => {
    expect(parseJson(new Uint8Array([0x22, 0xff, 0x22]))).toMatchObject({ ok: false });
  });
});

/** Values of a document, itself and all that stands in it. */
const valuesIn = (value: unknown): number =>
  typeof value === "object" && value !== null
    ? Object.values(value).reduce<number>((sum, item) => sum + valuesIn(item), 1)
    : 1;

describe("the values of a document", () => {
  it("are counted as a walk over the parsed document counts them, whatever stands in its names and texts", () => {
    const spaced = fc.constantFrom(undefined, 1, "\t");
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8 }), spaced, (value, space) => {
        const text = JSON.stringify(value, null, space);
        const counted = readText(bytes(text));
        fc.pre(counted.ok || !counted.message.includes("exactly"));
        expect(counted).toMatchObject({ ok: true, text, values: valuesIn(value) });
      }),
    );
  });

  it("are limited to the very last one", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const document = bytes(JSON.stringify(value).replaceAll(/-?\d[\d.e+-]*/g, "1"));
        const values = valuesIn(value);
        expect(readText(document, values).ok).toBe(true);
        expect(readText(document, values - 1)).toMatchObject({ ok: false, message: expect.stringContaining("values") });
      }),
    );
  });

  it(`may be ${MAX_VALUES}, and the refusal of more names the limit`, () => {
    const list = (items: number) => `[${Array<string>(items).fill("1").join(",")}]`;
    expect(parse(list(MAX_VALUES - 1)).ok).toBe(true);
    expect(parse(list(MAX_VALUES))).toEqual({
      ok: false,
      message: "The request body holds more than 250,000 JSON values; send fewer in one request.",
    });
  });

  it(`of the document itself may be ${MAX_FIELDS} by name, and more below it`, () => {
    const object = (fields: number) => `{${Array.from({ length: fields }, (_, at) => `"k${at}":[1]`).join(",")}}`;
    expect(parse(object(MAX_FIELDS)).ok).toBe(true);
    expect(parse(object(MAX_FIELDS + 1))).toMatchObject({ message: "The request body has more than 1000 fields." });
    expect(parse(`{"logit_bias":${object(10_000)}}`).ok).toBe(true);
  });

  const BYTES = 20 * 1024 * 1024;
  const fill = (piece: string) => piece.repeat(Math.floor(BYTES / piece.length));
  it.each([
    ["objects without an end", fill("{},")],
    ["numbers of a message list", `{"messages":[${fill("1,")}1]}`],
    ["empty texts", fill('"",')],
    ["names and nothing else", fill('"a":')],
    ["colons", fill(":")],
    ["closing brackets", fill("]")],
    ["open lists", fill("[")],
    ["literals", `[${fill("null,")}null]`],
    ["one number", fill("9")],
    ["one number with an exponent", `1e${fill("9")}`],
    ["a text of quotes", `["${fill('\\"')}`],
    ["a text of backslashes", `["${fill("\\")}`],
    ["escapes that end early", `["${fill("\\u0041")}`],
    ["spaces", fill(" ")],
    ["fields of names", `{${fill('"k":1,')}`],
  ])("refuses 20 MB of %s quickly", (_, text) => {
    const body = bytes(text);
    const started = performance.now();
    expect(parseJson(body).ok).toBe(false);
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

describe("long strings that are read apart", () => {
  const MARKER = "b7d0c1";
  const apart = (document: Uint8Array, longBytes: number) => {
    const read = readText(document, MAX_VALUES, { marker: MARKER, longBytes, partBytes: longBytes });
    return read.ok ? parseText(read) : read;
  };
  /** Escapes, pairs, halves, what breaks grammar and what breaks UTF-8, close together. */
  const token = fc.constantFrom(
    "x",
    "\\n",
    "\\\\",
    '\\"',
    "\\u4e16",
    "\\ud83d",
    "\\ude00",
    "\u{1f600}",
    "\u4e16",
    "é",
    "\ufeff",
  );
  const broken = fc.constantFrom("\\", "\\x", "\\u12", "\u0000", "\n", '"');
  const content = (tokens: fc.Arbitrary<string>) => fc.array(tokens, { maxLength: 40 }).map((parts) => parts.join(""));

  it("make the value that JSON.parse makes, wherever a part ends", () => {
    const text = fc.tuple(content(token), content(token), fc.integer({ min: 1, max: 9 }));
    fc.assert(
      fc.property(text, ([a, b, longBytes]) => {
        const document = `{"${a}":["${b}",{"k":"${a}","l":"${b}"}],"k":1,"k":"${b}", "z" : "" }`;
        expect(apart(bytes(document), longBytes)).toEqual({ ok: true, value: JSON.parse(document) });
      }),
      { numRuns: 500 },
    );
  });

  it("are refused where JSON.parse refuses them", () => {
    const text = fc.tuple(content(fc.oneof({ weight: 8, arbitrary: token }, broken)), fc.integer({ min: 1, max: 9 }));
    fc.assert(
      fc.property(text, ([a, longBytes]) => {
        const document = bytes(`{"a":"${a}","b":["${a}"]}`);
        const whole = parseJson(document);
        const read = apart(document, longBytes);
        expect(read.ok).toBe(whole.ok);
        if (whole.ok) expect(read).toEqual(whole);
      }),
      { numRuns: 500 },
    );
  });

  it("stay where they are as names, and are no placeholders by chance", () => {
    const document = `{"${"n".repeat(50)}":"${MARKER}","b":"${"x".repeat(50)}"}`;
    const read = readText(bytes(document), MAX_VALUES, { marker: "another", longBytes: 20 });
    expect(read).toMatchObject({ ok: true, apart: ["x".repeat(50)], values: 3 });
    expect(read.ok && parseText(read)).toEqual({ ok: true, value: JSON.parse(document) });
  });

  it("are the whole document where it is nothing else; bytes that are not UTF-8 are refused inside them too", () => {
    expect(apart(bytes(`"${"x".repeat(100)}"`), 10)).toEqual({ ok: true, value: "x".repeat(100) });
    const cut = bytes(`["${"x".repeat(100)}"]`);
    cut[50] = 0xff;
    expect(apart(cut, 10)).toMatchObject({ ok: false, message: expect.stringContaining("UTF-8") });
    expect(apart(bytes(`["${"x".repeat(100)}`), 10)).toMatchObject({ ok: false });
  });
});

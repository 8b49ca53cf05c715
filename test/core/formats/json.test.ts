import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_VALUES, parseInSteps, parseJson } from "../../../src/core/formats/json.ts";
import { MAX_DEPTH, MAX_FIELDS } from "../../../src/core/formats/json-scanner.ts";
import { allowedMs } from "../../support/slowness.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const parse = (text: string) => parseJson(bytes(text));

describe("reading JSON", () => {
  it("gives what JSON.parse gives for every document whose numbers survive", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 10 }), (value) => {
        const text = JSON.stringify(value);
        const integers = text.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d+(?![\d.eE])/g) ?? [];
        fc.pre(integers.every((digits) => Number.isSafeInteger(Number(digits))));
        expect(parse(text)).toMatchObject({ ok: true, value: JSON.parse(text) });
      }),
    );
  });

  it("lets the last of two equal keys win", () => {
    expect(parse('{"a":1,"a":2}')).toEqual({ ok: true, value: { a: 2 }, values: 3 });
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
      expect(parse(JSON.stringify(value))).toEqual({ ok: true, value, values: 4 });
    }
    const cut = bytes(`"${"x".repeat(2 * MB)}\u4e16"`);
    cut[cut.length - 2] = 0x78;
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
        const counted = parse(text);
        fc.pre(counted.ok || !counted.message.includes("exactly"));
        expect(counted).toEqual({ ok: true, value: JSON.parse(text), values: valuesIn(value) });
      }),
    );
  });

  it("are limited to the very last one", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const document = bytes(JSON.stringify(value).replaceAll(/-?\d[\d.e+-]*/g, "1"));
        const values = valuesIn(value);
        expect(parseJson(document, values).ok).toBe(true);
        expect(parseJson(document, values - 1)).toMatchObject({
          ok: false,
          message: expect.stringContaining("values"),
        });
      }),
    );
  });

  it(`may be ${MAX_VALUES}, and the refusal of more names the limit`, () => {
    const list = (items: number) => `[${Array<string>(items).fill("1").join(",")}]`;
    expect(parse(list(MAX_VALUES - 1)).ok).toBe(true);
    expect(parse(list(MAX_VALUES))).toEqual({
      ok: false,
      message: "The request body holds more than 250,000 JSON values; send fewer in one request.",
      values: MAX_VALUES + 1,
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
    expect(performance.now() - started).toBeLessThan(allowedMs(2_000));
  });
});

describe("a document that is read in pieces", () => {
  /** What stands in strings: escapes, pairs, halves, and what is wide, close together. */
  const letter = fc.constantFrom(
    ...[
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
      "0",
      "__proto__",
    ],
  );
  /**
   * Once V8 has met the name `\`, it takes any name of one escaped character for it, in the same place of an object.
   */
  const inName = letter.filter((one) => one !== "\\\\");
  const broken = fc.constantFrom("\\", "\\x", "\\u12", "\\€", "\u0000", "\n", '"');
  const quoted = (letters: fc.Arbitrary<string>) =>
    fc.array(letters, { maxLength: 30 }).map((parts) => `"${parts.join("")}"`);
  const space = fc.constantFrom("", "", "", " ", "\n\t ");
  /** JSON as somebody might write it: spaces, names again, numbers as names. */
  const { document } = fc.letrec<{ document: string; list: string; object: string }>((tie) => ({
    document: fc.oneof(
      { maxDepth: 4, depthSize: "small" },
      fc.constantFrom("0", "-1.5e3", "null", "true", '""', "[]", "{}", "[ ]"),
      quoted(letter),
      tie("list"),
      tie("object"),
    ),
    list: fc
      .array(fc.tuple(space, tie("document"), space), { maxLength: 6 })
      .map((items) => `[${items.map((item) => item.join("")).join(",")}]`),
    object: fc
      .array(
        fc.tuple(
          space,
          fc.oneof(fc.constantFrom('"a"', '"b"', '"7"', '"3"', '"__proto__"', '""'), quoted(inName)),
          space,
          fc.constant(":"),
          space,
          tie("document"),
          space,
        ),
        { maxLength: 6 },
      )
      .map((fields) => `{${fields.map((field) => field.join("")).join(",")}}`),
  }));
  const sizes = fc.record({
    wholeBytes: fc.constantFrom(0, 0, 100),
    batchBytes: fc.integer({ min: 1, max: 40 }),
    batchValues: fc.integer({ min: 1, max: 10 }),
    longBytes: fc.integer({ min: 1, max: 40 }),
  });
  const RUNS = { numRuns: 1_000 };
  /** How `JSON.parse` reads it; undefined where it refuses. */
  const native = (document: Uint8Array): unknown => {
    try {
      return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(document));
    } catch {
      return undefined;
    }
  };
  const hasLongName = (text: string, longBytes: number) =>
    [...text.matchAll(/"((?:[^"\\]|\\.)*)"\s*:/g)].some(([, name = ""]) => bytes(name).length + 1 > longBytes);

  it("is the value that JSON.parse makes, names in the same order, wherever it is cut", () => {
    fc.assert(
      fc.property(document, sizes, (text, { longBytes, ...cuts }) => {
        const most = hasLongName(text, longBytes) ? 1_000 : longBytes;
        const read = parseJson(bytes(text), MAX_VALUES, { ...cuts, longBytes: most });
        expect(read).toMatchObject({ ok: true });
        const value = read.ok ? read.value : undefined;
        expect(value).toEqual(JSON.parse(text));
        expect(JSON.stringify(value)).toBe(JSON.stringify(JSON.parse(text)));
      }),
      RUNS,
    );
  });

  it.each(['"long","x"', '{"a":"long"},{"a":1}', '1,"long"', '["long"],'])("is one document: not %s", (text) => {
    const cuts = { wholeBytes: 0, batchBytes: 1, batchValues: 1, longBytes: 2 };
    expect(parseJson(bytes(text), MAX_VALUES, cuts)).toMatchObject({ ok: false });
  });

  it("is refused where JSON.parse or UTF-8 refuses it, whatever is broken", () => {
    const token = fc.constantFrom(..."[]{},:".split(""), "1", "-", ".5", '"k"', '"k":', "null", "x", " ", "€");
    const spoilt = fc.oneof(
      // A part left out, put in or doubled.
      fc.tuple(document, fc.nat(), fc.nat({ max: 3 }), fc.oneof(token, broken, letter)).map(([text, at, gone, put]) => {
        const place = at % (text.length + 1);
        return bytes(text.slice(0, place) + put + text.slice(place + gone));
      }),
      fc
        .array(fc.oneof(token, quoted(fc.oneof({ weight: 8, arbitrary: letter }, broken))), { maxLength: 12 })
        .map((parts) => bytes(parts.join(""))),
      // A byte changed: UTF-8 cut short, or begun twice.
      fc.tuple(document, fc.nat(), fc.integer({ min: 0, max: 255 })).map(([text, at, byte]) => {
        const changed = bytes(text);
        changed[at % changed.length] = byte;
        return changed;
      }),
    );
    fc.assert(
      fc.property(spoilt, sizes, (document, cuts) => {
        const expected = native(document);
        const read = parseJson(document, MAX_VALUES, cuts);
        if (expected === undefined) expect(read.ok).toBe(false);
        else if (read.ok) expect(read.value).toEqual(expected);
        else expect(read.message).toMatch(/exactly|name in the request body/);
      }),
      { numRuns: 3_000 },
    );
  });

  it("may have no name longer than a long string", () => {
    const named = (length: number) => `{"a":[{"${"n".repeat(length)}":1}]}`;
    expect(parse(named(16 * 1024 - 1)).ok).toBe(true);
    expect(parse(named(16 * 1024))).toMatchObject({ message: expect.stringContaining("longer than 16,384 bytes") });
  });

  it("is read in steps of bounded work, whatever it is made of", () => {
    const texts = [
      JSON.stringify(Array.from({ length: 60_000 }, (_, at) => ({ [`k${at}`]: at }))),
      `[${'"x",'.repeat(100_000)}{"a":"${"\\u4e16".repeat(500_000)}"}]`,
      `{"a":{"b":[${"[".repeat(40)}${"1,".repeat(100_000)}1${"]".repeat(40)}]}}`,
    ];
    for (const text of texts) {
      const steps = parseInSteps(bytes(text));
      const work: number[] = [];
      let step = steps.next();
      for (; !step.done; step = steps.next()) work.push(step.value);
      expect(step.value).toMatchObject({ ok: true, value: JSON.parse(text) });
      expect(Math.max(...work)).toBeLessThan(400_000);
      expect(work.length).toBeGreaterThan(5);
    }
  });
});

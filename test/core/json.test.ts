import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_DEPTH, parseJson } from "../../src/core/json.ts";

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

  it("refuses bytes that are not UTF-8", () => {
    expect(parseJson(new Uint8Array([0x22, 0xff, 0x22]))).toMatchObject({ ok: false });
  });
});

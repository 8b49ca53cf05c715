import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeInSteps } from "../../../src/core/formats/encode-json.ts";
import { toEnd } from "../../../src/core/steps.ts";

const encodeJson = (...asked: Parameters<typeof encodeInSteps>) => toEnd(encodeInSteps(...asked));

const joined = (pieces: readonly Uint8Array[]) => Buffer.concat(pieces).toString("utf8");

describe("JSON in pieces", () => {
  it("is what JSON.stringify says, however small the pieces are", () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 6 }),
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 4, max: 60 }),
        (value, most, bytes) => {
          const pieces = encodeJson(JSON.parse(JSON.stringify(value)), most, bytes);
          expect(pieces.every(({ length }) => length <= bytes || pieces.length === 1)).toBe(true);
          expect(joined(pieces)).toBe(JSON.stringify(value));
        },
      ),
    );
  });

  it("keeps pairs of surrogates together and lone ones as escapes, wherever a piece ends", () => {
    const text = fc
      .array(fc.constantFrom("\u{1f600}", "\ud83d", "\ude00", "\u4e16", "\n", '"', "\\", "x"))
      .map((s) => s.join(""));
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 9 }), (value, most) => {
        expect(joined(encodeJson({ [value]: [value, value] }, most, 8))).toBe(
          JSON.stringify({ [value]: [value, value] }),
        );
      }),
    );
  });

  it("leaves fields out that are undefined, as JSON.stringify does", () => {
    const long = "x".repeat(100);
    for (const value of [{ a: undefined, b: long }, { a: undefined, b: undefined, long: { c: undefined } }, {}]) {
      expect(joined(encodeJson(value, 10))).toBe(JSON.stringify(value));
    }
  });

  it("has no piece much larger than asked for, and one piece where all of it is small", () => {
    const pieces = encodeJson({ text: "\u4e16".repeat(100_000), list: Array<number>(50_000).fill(1) }, 1_000, 4_000);
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(4_000);
    expect(pieces).toHaveLength(101);
    expect(encodeJson({ a: [1, 2, { b: "c" }] })).toHaveLength(1);
  });
});

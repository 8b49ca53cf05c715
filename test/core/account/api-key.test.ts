import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { equalInConstantTime, shapeKey, signedPart, tagOf } from "../../../src/core/account/api-key.ts";
import { type AccountNumber, asId } from "../../../src/core/ids.ts";

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });

describe("virtual keys", () => {
  it("carry their account's number, and are 44 characters that shapeKey takes apart again", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 47 }), bytes(64), bytes(32), (number, random, hmac) => {
        const signed = signedPart(
          asId<AccountNumber>(number),
          random.map((byte) => byte % 248),
        );
        const key = signed + tagOf(hmac);
        expect(key).toHaveLength(44);
        expect(shapeKey(key)).toEqual({ text: key, number, signed, tag: tagOf(hmac) });
      }),
    );
  });

  it("pass over random bytes that would favour some digits", () => {
    const biased = new Uint8Array(64).fill(255, 0, 30);
    expect(signedPart(asId<AccountNumber>(1), biased)).toBe(`sk-tg-00000001${"0".repeat(24)}`);
    expect(() => signedPart(asId<AccountNumber>(1), new Uint8Array(64).fill(255))).toThrow(RangeError);
  });

  it.each([
    "",
    "sk-tg-",
    "sk-abc",
    `sk-tg-${"a".repeat(37)}`,
    `sk-tg-${"a".repeat(39)}`,
    `sk-tg-${"ä".repeat(38)}`,
    ` sk-tg-${"a".repeat(38)}`,
  ])("are not of the shape of %j", (text) => {
    expect(shapeKey(text)).toBeUndefined();
  });

  it("are compared whole: equal only where every character is", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        expect(equalInConstantTime(a, b)).toBe(a === b);
      }),
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromBase62, randomBase62, toBase62 } from "../../../src/core/formats/base62.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";

describe("base62", () => {
  it("gives back the number that was written", () => {
    fc.assert(fc.property(fc.nat(), (number) => fromBase62(toBase62(BigInt(number), 8)) === number));
    expect(toBase62(61n, 2)).toBe("0z");
  });

  it("every byte gives at most one digit, and every digit is as likely as another", () => {
    const all = randomBase62(Uint8Array.from({ length: 256 }, (_, byte) => byte));
    const counts = new Map<string, number>();
    for (const digit of all) counts.set(digit, (counts.get(digit) ?? 0) + 1);
    expect([counts.size, new Set(counts.values())]).toEqual([62, new Set([4])]);
  });
});

it("joined bytes are the pieces in their order", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array()), (pieces) => {
      expect([...joinBytes(pieces)]).toEqual(pieces.flatMap((piece) => [...piece]));
    }),
  );
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { difference } from "../../../src/core/account/change-record.ts";

const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length;

describe("what the log of changes keeps", () => {
  it("is the fields that differ, as they were and as they are", () => {
    expect(difference({ a: 1, b: [1], c: 3 }, { a: 1, b: [2], d: 4 })).toEqual({
      before: { b: [1], c: 3, d: null },
      after: { b: [2], c: null, d: 4 },
    });
    expect(difference(null, { a: 1 })).toEqual({ before: null, after: { a: 1 } });
    expect(difference({ a: 1 }, undefined)).toEqual({ before: { a: 1 }, after: null });
  });

  it("names a long field by its length and keeps the others", () => {
    const { after } = difference(null, { name: "n", models: ["x".repeat(20_000)] }, "key");
    expect(after).toEqual({ name: "n", models: { too_long: 20_004 } });
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`f${at}`, "x".repeat(900)]));
    expect(difference(many, {}, "key").before).toEqual({ too_long: bytes(many) });
  });

  it("is never more than its most bytes a side, and never a secret", () => {
    const text = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.constant("sk-tg-secret"),
      fc.constant("\u{1F600}".repeat(2_000)),
    );
    const side = fc.dictionary(fc.string(), fc.oneof(text, fc.array(text), fc.integer()), { maxKeys: 30 });
    fc.assert(
      fc.property(side, side, (before, after) => {
        for (const [by, most] of [
          ["key", 4_000],
          ["operator", 16_000],
        ] as const) {
          const kept = difference(before, after, by);
          expect(bytes(kept.before)).toBeLessThanOrEqual(most);
          expect(bytes(kept.after)).toBeLessThanOrEqual(most);
          expect(JSON.stringify(Object.values(kept.after ?? {}))).not.toContain("sk-tg-secret");
        }
      }),
    );
  });
});

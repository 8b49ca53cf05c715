/** Usages inside the members of an answer, found while it passes. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AnswerFilter, type MemberRules } from "../../../src/core/formats/answer-filter.ts";
import { joinBytes } from "../../../src/core/formats/bytes.ts";
import { allowedMs } from "../../support/slowness.ts";

const encoder = new TextEncoder();
const SEEN = encoder.encode('"seen"');
const rules: MemberRules = () => ({ inside: { maxBytes: 4_000, rewrite: () => SEEN } });

function pass(text: string, pieceBytes = 1 << 16): string | null {
  const bytes = encoder.encode(text);
  const filter = new AnswerFilter(rules);
  const out: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    const passed = filter.push(bytes.slice(at, at + pieceBytes));
    if (passed === null) return null;
    out.push(...passed);
  }
  return new TextDecoder().decode(joinBytes(out));
}

describe("a usage inside a member", () => {
  /** What the filter has to find, found by JSON.parse. */
  const seen = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(seen);
    if (typeof value !== "object" || value === null) return value;
    const isFound = (name: string, inner: unknown) => name === "usage" && typeof inner === "object" && inner !== null;
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [name, isFound(name, inner) ? "seen" : seen(inner)]),
    );
  };
  /** The document with each character of its names written as an escape, or as it is. */
  const written = (value: unknown, escaped: boolean): string =>
    JSON.stringify(value).replace(/"(us|usag|usage|usages|e)":/g, (name) =>
      escaped ? name.replace(/[a-z]/g, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`) : name,
    );

  it("is found wherever it stands, however its name is written and the answer arrives split, and nothing else is", () => {
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 5 },
        fc.constantFrom(1, null, true, "usage", 'us"ag\\e'),
        fc.array(tie("tree"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom("us", "usag", "usage", "usages", "e", "a\nb"), tie("tree"), { maxKeys: 4 }),
      ),
    }));
    fc.assert(
      fc.property(tree, fc.boolean(), fc.integer({ min: 1, max: 20 }), (value, escaped, pieceBytes) => {
        const passed = pass(`{"x":${written(value, escaped)}}`, pieceBytes);
        expect(JSON.parse(passed ?? "")).toEqual({ x: seen(value) });
      }),
      { numRuns: 300 },
    );
  });

  it("that is longer than any is null", () => {
    expect(pass(`{"x":[{"usage":{"a":"${"b".repeat(4_000)}"}},{"usage":{}}]}`)).toBe(
      '{"x":[{"usage":null},{"usage":"seen"}]}',
    );
  });

  it("is one of 10,000 at most: an answer with more is broken", () => {
    const of = (usages: number) => `{"x":[${Array(usages).fill('{"usage":{}}').join(",")}]}`;
    expect(pass(of(10_000))).toContain("seen");
    expect(pass(of(10_001))).toBeNull();
  });

  it.each([["{},"], ['{"\\u0075":1},'], ['{"usage":1},'], ['{"usagf":{}},']])(
    "is looked for in time that grows with the bytes, here of %s",
    (piece) => {
      const text = `{"x":[${piece.repeat(Math.floor(3_000_000 / piece.length))}{}]}`;
      const cpu = process.cpuUsage();
      expect(pass(text)).toBe(text);
      expect(process.cpuUsage(cpu).user / 1000).toBeLessThan(allowedMs(1_000));
    },
  );
});

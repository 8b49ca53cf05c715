/** Globs, amounts, suggestions, CSV as it is read. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { matches, matchesAny } from "../../cli/glob.ts";
import { readCsv } from "../../cli/local/csv-reader.ts";
import { meant } from "../../cli/suggest.ts";
import { exactly, nanoOf, raised, rounded, usdText } from "../../cli/usd.ts";
import { csvLine } from "../../src/api/kit/csv.ts";
import { formatUsd, toUsd } from "../../src/core/pricing/money.ts";

describe("a glob", () => {
  it.each([
    ["llama-*", "llama-7b", true],
    ["llama-*", "my-llama-7b", false],
    ["*", "", true],
    ["*70b*", "llama-70b-instruct", true],
    ["l?ama", "llama", true],
    ["l?ama", "lama", false],
    ["a.c", "abc", false],
    ["org/*", "org/model:1", true],
    ["**a", "bba", true],
    ["", "a", false],
  ])("%s on %s: %s", (pattern, name, fits) => expect(matches(pattern, name)).toBe(fits));

  it("takes several between commas, and takes no time on a hostile pattern", () => {
    expect(matchesAny("gpt-*, llama-*", "llama-1")).toBe(true);
    expect(matchesAny(" , ", "llama-1")).toBe(false);
    expect(matches(`${"*a".repeat(50)}b`, "a".repeat(5_000))).toBe(false);
  });
});

describe("an amount", () => {
  it("in an answer is the nano-USD that it was made of", () => {
    fc.assert(
      fc.property(fc.integer({ min: -8_000_000_000_000_000, max: 8_000_000_000_000_000 }), (nano) => {
        expect(nanoOf(toUsd(nano))).toBe(BigInt(nano));
        expect(nanoOf(formatUsd(nano))).toBe(BigInt(nano));
      }),
    );
    expect(nanoOf(1e-9)).toBe(1n);
  });

  it("shows all of its decimals, and at least two", () => {
    expect([0n, 1n, -1n, 12_500_000_000n, 1_000_000_000_000_000_001n].map(usdText)).toEqual([
      "0.00",
      "0.000000001",
      "-0.000000001",
      "12.50",
      "1000000000.000000001",
    ]);
  });

  it("is raised by exact percents, up to a whole nano-USD", () => {
    const by = (nano: bigint, percent: string) => raised(nano, exactly(percent) ?? { digits: 0n, scale: 0 });
    expect(by(250_000_000n, "10")).toBe(275_000_000n);
    expect(by(1n, "10")).toBe(2n);
    expect(by(100n, "2.5")).toBe(103n);
    expect(by(3n, "0.1")).toBe(4n);
    expect(by(1_000n, "-10")).toBe(900n);
    // 0.1 + 0.2 of a float would come out one higher.
    expect(by(100_000_000n, "30")).toBe(130_000_000n);
  });

  it.each(["", "abc", "1,5", "0x10", "Infinity", "1e99", "--1", "1.2.3"])("%j is none", (text) => {
    expect(exactly(text)).toBeUndefined();
  });

  it("is rounded to the nearest, halves away from zero", () => {
    const at = (text: string) => rounded(exactly(text) ?? { digits: 0n, scale: 0 }, 1n);
    expect(["0.4", "0.5", "-0.5", "-0.4", "2.5"].map(at)).toEqual([0n, 1n, -1n, 0n, 3n]);
  });
});

it.each([
  ["stauts", "status"],
  ["upstraem", "upstream"],
  ["pric", "price"],
  ["zzz", undefined],
  ["x".repeat(100_000), undefined],
])("a mistyped word: %.10s means %s", (written, name) => {
  expect(meant(written, ["status", "upstream", "price", "key"])).toBe(name);
});

describe("CSV", () => {
  const cells = (text: string) => readCsv(text).map((row) => row.cells);

  it("is read with quotes, CRLF, a byte order mark and line breaks in cells", () => {
    expect(cells('\ufeffid,name\r\nacme,"Acme, ""the"" one"\r\n\r\nb,"two\r\nlines"')).toEqual([
      ["id", "name"],
      ["acme", 'Acme, "the" one'],
      ["b", "two\r\nlines"],
    ]);
    expect(readCsv("a\n\nb,\n").map(({ line }) => line)).toEqual([1, 3]);
    expect(cells("a,\n")).toEqual([["a", ""]]);
    expect(cells("")).toEqual([]);
  });

  it("reads what the gateway writes", () => {
    const text = fc.string({ unit: "grapheme", minLength: 1 }).filter((cell) => !/^[=+\-@\t\r\n]/.test(cell));
    fc.assert(
      fc.property(fc.array(fc.array(text, { minLength: 2, maxLength: 4 }), { maxLength: 6 }), (rows) => {
        expect(cells(rows.map(csvLine).join(""))).toEqual(rows.map((row) => row.map((cell) => cell)));
      }),
    );
  });

  it.each([
    ['a,"b', "Line 1: a quote is opened and never closed"],
    ['a\nb,"c"d', "Line 2: text after the closing quote"],
    ['a"b', "a quote within a cell"],
    [`a,${"x".repeat(10_001)}`, "more than 10000 characters"],
    ["a\n".repeat(100_001), "more than 100000 rows"],
  ])("%.12j is refused", (text, said) => {
    expect(() => readCsv(text)).toThrow(said);
  });
});

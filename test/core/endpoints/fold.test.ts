import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FoldFilter, fold } from "../../../src/core/endpoints/inspection/fold.ts";

describe("a folded name", () => {
  it.each([
    ["MAX_TOKENS", "maxtokens"],
    ["maxTokens", "maxtokens"],
    ["max-tokens", "maxtokens"],
    ["max.tokens ", "maxtokens"],
    ["ma\u{ff58}_to\u212aens", "maxtokens"],
    ["be\u017ft_of", "bestof"],
    ["P\u0130D", "pid"],
    ["p\u0131d", "pid"],
    ["pi\u0307d", "pid"],
    ["\u{1d427}", "n"],
    ["\u24c3", "n"],
    ["\u207f", "n"],
    ["\ufb01le", "file"],
    ["\u200bmod\u00adel\ufeff", "model"],
    ["model[]", "model"],
    ["\u00fcrl", "\u00fcrl"],
    ["", ""],
  ])("%j is %j", (name, folded) => {
    expect(fold(name)).toBe(folded);
  });

  it("knows every character of Unicode that NFKC and case make a letter or digit of ASCII", () => {
    const missed: string[] = [];
    for (let code = 0x80; code <= 0x10ffff; code++) {
      if (code >= 0xd800 && code <= 0xdfff) continue;
      const char = String.fromCodePoint(code);
      const compatible = char.normalize("NFKC");
      const isFolded = [compatible.toLowerCase(), compatible.toUpperCase().toLowerCase().normalize("NFKC")].some(
        (cased) => /^[^\p{L}\p{N}]*[a-z0-9][a-z0-9\p{M}\p{P}\p{S}\p{Z}]*$/u.test(cased),
      );
      if (isFolded && !/^[a-z0-9]+$/.test(fold(char))) missed.push(code.toString(16));
    }
    expect(missed).toEqual([]);
  });

  it("folds to itself", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 128 }), (name) => {
        expect(fold(fold(name))).toBe(fold(name));
      }),
    );
  });

  it("is never missed by the filter, whatever the name", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), fc.string({ unit: "binary" }), (name, other) => {
        expect(new FoldFilter([fold(name)]).passes(name)).toBe(true);
        for (const ending of ["url", "URLs", "_uri", "Href_2"]) {
          expect(new FoldFilter([]).passes(`${other}${ending}`)).toBe(true);
        }
      }),
    );
    expect(new FoldFilter(["model"]).passes("messages")).toBe(false);
  });
});

/** What is printed: tables, CSV and JSON of whatever names others chose. */
import { describe, expect, it } from "vitest";
import { safe, safeJson, withoutKeys } from "../../cli/show/safe.ts";
import { type Column, csv, facts, table, widthOf } from "../../cli/show/table.ts";

const HOSTILE = "\u001b]0;owned\u0007\u009b31m\u202egnp.exe\u200b\r\n\t\ud800";

describe("text of others", () => {
  it("acts on no terminal, and can still be read", () => {
    expect(safe(HOSTILE)).toBe("\\u{1b}]0;owned\\u{7}\\u{9b}31m\\u{202e}gnp.exe\\u{200b}\\u{d}\\n\\t\\u{d800}");
    expect(safe("Grüße, 東京 \u{1f600}")).toBe("Grüße, 東京 \u{1f600}");
  });

  it("stands in JSON so that it parses to the same and acts on nothing", () => {
    const text = safeJson({ name: HOSTILE, tag: "\u{e0041}" });
    expect(JSON.parse(text)).toEqual({ name: HOSTILE, tag: "\u{e0041}" });
    expect(text).toMatch(/^[\x20-\x7e\n]*$/);
  });

  it("shows no key and no token", () => {
    const text = withoutKeys("sk-tg-0123456789abcdef and tg-op-ABCDEFGH0123, whsec_c2VjcmV0c2VjcmV0");
    expect(text).toBe("sk-tg-... and tg-op-..., whsec_...");
  });
});

interface Row {
  readonly name: string | null;
  readonly count: number | null;
  readonly usd: string;
}
const COLUMNS: readonly Column<Row>[] = [
  ["name", (row) => row.name],
  ["count", (row) => row.count],
  ["usd", (row) => ({ decimal: row.usd })],
];

describe("a table", () => {
  it("sets numbers to the right and knows how wide text is", () => {
    expect(
      table(COLUMNS, [
        { name: "東京", count: 1, usd: "10.00" },
        { name: "e\u0301", count: 100, usd: "-0.5" },
        { name: null, count: null, usd: "0" },
      ]),
    ).toBe("NAME  COUNT    USD\n東京      1  10.00\ne\u0301       100   -0.5\n-         -      0\n");
    expect(widthOf("a\u{1f600}b")).toBe(4);
  });

  it("escapes names in cells", () => {
    expect(table(COLUMNS, [{ name: "a\nb\u001b[2J", count: 1, usd: "1" }])).toContain("a\\nb\\u{1b}[2J");
    expect(facts([["name", "a\nb"]])).toBe("name  a\\nb\n");
  });

  it("as CSV runs no formula, quotes what has to be, and keeps amounts as they are", () => {
    const rows = ["=1+1", "+1", "-1", "@x", 'a "b", c', "plain"].map((name) => ({
      name,
      count: 1,
      usd: "-0.000000001",
    }));
    expect(csv(COLUMNS, rows)).toBe(
      "name,count,usd\r\n'=1+1,1,-0.000000001\r\n'+1,1,-0.000000001\r\n'-1,1,-0.000000001\r\n'@x,1,-0.000000001\r\n" +
        '"a ""b"", c",1,-0.000000001\r\nplain,1,-0.000000001\r\n',
    );
    expect(csv(COLUMNS, [{ name: "a\r\n=cmd", count: 1, usd: "1" }])).toBe("name,count,usd\r\na\\u{d}\\n=cmd,1,1\r\n");
  });
});

/** Rows as a table for people, as CSV or as JSON for programs. */
import { type Cell, csvLine } from "../../src/api/kit/csv.ts";
import { safe } from "./safe.ts";

/** Its head, and what stands in it. Amounts are `{decimal}`, so that CSV has them as numbers. */
export type Column<Row> = readonly [head: string, cell: (row: Row) => Cell | undefined];

const textOf = (cell: Cell | undefined): string => {
  if (cell === null || cell === undefined) return "-";
  return safe(typeof cell === "object" ? cell.decimal : String(cell));
};

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
/** Columns of a terminal that the text takes. */
export const widthOf = (text: string): number =>
  [...text].reduce((sum, character) => sum + (/\p{M}/u.test(character) ? 0 : WIDE.test(character) ? 2 : 1), 0);

const GAP = "  ";

export function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const cells = rows.map((row) => columns.map(([, cell]) => cell(row)));
  const lines = [columns.map(([head]) => head.toUpperCase()), ...cells.map((line) => line.map(textOf))];
  const widths = columns.map((_, at) => lines.reduce((most, line) => Math.max(most, widthOf(line[at] ?? "")), 0));
  // Numbers are set to the right.
  const right = columns.map((_, at) => {
    const there = cells.map((line) => line[at] ?? null).filter((cell) => cell !== null);
    return there.length > 0 && there.every((cell) => typeof cell !== "string");
  });
  const lineOf = (line: readonly string[]) =>
    line
      .map((text, at) => {
        const room = " ".repeat(Math.max(0, (widths[at] ?? 0) - widthOf(text)));
        return right[at] ? room + text : text + room;
      })
      .join(GAP)
      .trimEnd();
  return `${lines.map(lineOf).join("\n")}\n`;
}

/** By RFC 4180; no cell is run by a spreadsheet, and none acts on a terminal. */
export function csv<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const lines = rows.map((row) => csvLine(columns.map(([, cell]) => plain(cell(row) ?? null))));
  return csvLine(columns.map(([head]) => head)) + lines.join("");
}

const plain = (cell: Cell): Cell => (typeof cell === "string" ? safe(cell) : cell);

/** Names with their values, one a line. */
export function facts(lines: readonly (readonly [name: string, value: Cell | undefined])[]): string {
  const width = lines.reduce((most, [name]) => Math.max(most, widthOf(name)), 0);
  return lines.map(([name, value]) => `${name.padEnd(width)}${GAP}${textOf(value)}\n`).join("");
}

/**
 * CSV by RFC 4180, safe to open in a spreadsheet: text that a spreadsheet would run gets an apostrophe in front.
 * Numbers are written unchanged, negative ones too.
 */
export type Cell = string | number | Decimal | null;
/** A number as exact text. */
export interface Decimal {
  readonly decimal: string;
}

/** What a spreadsheet takes for a formula, also behind a tab or a line break. */
const FORMULA = /^[=+\-@\t\r\n]/;

function cellText(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  if (typeof cell === "object") return cell.decimal;
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** One line with its line end. */
export const csvLine = (cells: readonly Cell[]): string => `${cells.map(cellText).join(",")}\r\n`;

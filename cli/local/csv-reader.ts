/**
 * Reads CSV by RFC 4180: quotes, line breaks within them, CRLF or LF, a byte order mark. A file has a bound, so has its
 * number of rows; a quote that is not closed is an error, not a cell of a gigabyte.
 */
import { usage } from "../failure.ts";

export const MOST_CSV_BYTES = 16 * 1024 * 1024;
const MOST_ROWS = 100_000;
const MOST_CELL = 10_000;

export interface CsvRow {
  /** Of the file, from 1. */
  readonly line: number;
  readonly cells: readonly string[];
}

/** Empty lines are left out. */
export function readCsv(text: string): CsvRow[] {
  const reader = new Reader(text.startsWith("\ufeff") ? text.slice(1) : text);
  const rows: CsvRow[] = [];
  for (let row = reader.row(); row !== undefined; row = reader.row()) {
    if (row.cells.length === 1 && row.cells[0] === "") continue;
    if (rows.length === MOST_ROWS) throw usage(`The file has more than ${MOST_ROWS} rows. Split it.`);
    rows.push(row);
  }
  return rows;
}

class Reader {
  readonly #text: string;
  #at = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text;
  }

  row(): CsvRow | undefined {
    if (this.#at >= this.#text.length) return undefined;
    const line = this.#line;
    const cells: string[] = [];
    for (;;) {
      cells.push(this.#cell());
      const next = this.#text[this.#at];
      if (next === ",") {
        this.#at++;
        continue;
      }
      if (next === "\r") this.#at++;
      if (this.#text[this.#at] === "\n") this.#at++;
      this.#line++;
      return { line, cells };
    }
  }

  #cell(): string {
    const cell = this.#text[this.#at] === '"' ? this.#quoted() : this.#bare();
    if (cell.length > MOST_CELL) throw usage(`Line ${this.#line}: a cell has more than ${MOST_CELL} characters.`);
    return cell;
  }

  #bare(): string {
    const from = this.#at;
    while (this.#at < this.#text.length && !",\r\n".includes(this.#text[this.#at] ?? "")) this.#at++;
    const cell = this.#text.slice(from, this.#at);
    if (cell.includes('"')) {
      throw usage(`Line ${this.#line}: a quote within a cell. Put the whole cell in quotes and double those within.`);
    }
    return cell;
  }

  #quoted(): string {
    const from = this.#line;
    let cell = "";
    this.#at++;
    for (;;) {
      const end = this.#text.indexOf('"', this.#at);
      if (end < 0) throw usage(`Line ${from}: a quote is opened and never closed.`);
      const part = this.#text.slice(this.#at, end);
      cell += part;
      this.#line += part.split("\n").length - 1;
      this.#at = end + 1;
      if (this.#text[this.#at] !== '"') break;
      cell += '"';
      this.#at++;
    }
    if (this.#at < this.#text.length && !",\r\n".includes(this.#text[this.#at] ?? "")) {
      throw usage(`Line ${this.#line}: text after the closing quote of a cell.`);
    }
    return cell;
  }
}

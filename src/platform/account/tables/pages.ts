/**
 * Lists by page. The cursor is the sequence number of the last row returned. A page ends after a number of rows or an
 * amount of text: an answer of the object may have 32 MiB at most, and other calls of the account wait while it is
 * built.
 */
import type { Page, PageRequest } from "../../../core/account/tenant.ts";
import type { Sql } from "../schema.ts";

const LONGEST_PAGE = 1_000;
/** Characters of text in a page's rows; the first row is returned however long it is. */
const PAGE_CHARS = 1_048_576;

/**
 * Reads one row more than it returns, to know whether there is a next page. `read` gets the number to continue after.
 */
export function pageOf<Row extends { seq: number }, T>(
  page: PageRequest,
  order: "ascending" | "descending",
  convert: (row: Row) => T,
  read: (after: number, limit: number) => Iterable<Row>,
): Page<T> {
  const limit = Math.min(Math.max(Math.trunc(page.limit) || 1, 1), LONGEST_PAGE);
  const start = order === "ascending" ? 0 : Number.MAX_SAFE_INTEGER;
  const after = page.cursor === null ? start : Number(page.cursor);
  if (!Number.isSafeInteger(after)) return { data: [], nextCursor: null };
  const data: T[] = [];
  let last = after;
  let chars = 0;
  for (const row of read(after, limit + 1)) {
    chars += charsOf(row);
    if (data.length === limit || (data.length > 0 && chars > PAGE_CHARS)) return { data, nextCursor: String(last) };
    data.push(convert(row));
    last = row.seq;
  }
  return { data, nextCursor: null };
}

const charsOf = (row: object): number =>
  Object.values(row).reduce((sum: number, value) => sum + (typeof value === "string" ? value.length : 8), 0);

/** Whether a table has at least `most` rows. `rows` is what follows FROM; never pass user input. */
export function atLeast(sql: Sql, rows: string, most: number): boolean {
  return sql.exec<{ n: number }>(`SELECT count(*) AS n FROM (SELECT 1 FROM ${rows} LIMIT ?)`, most).one().n >= most;
}

/**
 * Lists by page: the cursor is the sequence number of the last row given.
 */
import type { Page, PageRequest } from "../../core/tenant.ts";

const LONGEST_PAGE = 1_000;

/** Reads one row more than asked for, to know whether there is a next page. `read` gets the number to go on after. */
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
  const rows = [...read(after, limit + 1)];
  const given = rows.slice(0, limit);
  const last = given.at(-1);
  return { data: given.map(convert), nextCursor: rows.length > limit && last ? String(last.seq) : null };
}

import type { Page, PageRequest } from "../../core/account/tenant.ts";

/** Makes a page of rows that were read with one too many, and adds the cursor of the next page. */
export function cutPage<T>(rows: readonly T[], page: PageRequest, cursorOf: (row: T) => string): Page<T> {
  const data = rows.slice(0, page.limit);
  const last = data.at(-1);
  return { data, nextCursor: rows.length > page.limit && last !== undefined ? cursorOf(last) : null };
}

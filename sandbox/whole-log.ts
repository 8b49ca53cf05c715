/** Logs of any length, though what one call to an object gives may have 32 MiB at most. */

/** Rows of a log in one call to its object: each has some kB at most. */
export const PAGE_ROWS = 1_000;

/** All rows after this one, in order; `read` gives the next `PAGE_ROWS`. */
export async function wholeLog<Row extends { readonly id: number }>(
  afterId: number,
  read: (afterId: number) => Promise<readonly Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  while (true) {
    const page = await read(rows.at(-1)?.id ?? afterId);
    rows.push(...page);
    if (page.length < PAGE_ROWS) return rows;
  }
}

/**
 * How long raw usage events stay: so many days, and no longer than the database is below a size. Hourly and daily sums
 * stay for good, so no report of whole hours changes.
 */

import { archivedUntil } from "./call-parts.ts";
import { HOUR_MS } from "./usage-events.ts";
import { deleteOldUsage, floorHour } from "./usage-hours.ts";

/** Rows of one statement, which has some seconds. */
const ROWS_AT_ONCE = 20_000;
/** Statements of one run: more rows than come in between two runs at 1,000 calls/s. */
const STATEMENTS = 20;

export interface Retention {
  /** Events that ended before this go. */
  readonly beforeMs: number;
  /** Above this size of the database the oldest events go too. */
  readonly mostBytes: number;
  /** Whether there is an archive: then nothing goes that is not in it, whatever the size. */
  readonly archives?: boolean;
}

export interface Retained {
  /** Of the database, afterwards. */
  readonly bytes: number;
  /** Raw events before this had to go for the size; null: none had to. */
  readonly shortenedToMs: number | null;
}

/** Events of hours that are not summed yet stay in any case. */
export async function retainUsage(
  books: D1Database,
  { beforeMs, mostBytes, archives = false }: Retention,
): Promise<Retained> {
  let left = STATEMENTS;
  const untilMs = archives ? Math.min(beforeMs, await archivedUntil(books)) : beforeMs;
  while (left-- > 0 && (await deleteOldUsage(books, untilMs, ROWS_AT_ONCE, archives)) === ROWS_AT_ONCE);
  let shortenedToMs: number | null = null;
  let bytes = await sizeOf(books);
  while (bytes > mostBytes && left-- > 0) {
    const untilMs = await oldestPart(books, archives);
    if (untilMs === null || (await deleteOldUsage(books, untilMs, ROWS_AT_ONCE, archives)) === 0) break;
    shortenedToMs = untilMs;
    bytes = await sizeOf(books);
  }
  return { bytes, shortenedToMs };
}

/**
 * The end of the hour that the oldest rows of one statement reach into, or of the last hour that is summed (and
 * archived).
 */
async function oldestPart(books: D1Database, archives: boolean): Promise<number | null> {
  const oldest = await books
    .prepare(
      `select max(ended_ms) as last_ms, (select summed_until_ms from usage_progress) as summed_ms
       from (select ended_ms from usage_events order by ended_ms limit ?1)`,
    )
    .bind(ROWS_AT_ONCE)
    .first<{ last_ms: number | null; summed_ms: number }>();
  if (!oldest || oldest.last_ms === null) return null;
  const readyMs = archives ? Math.min(oldest.summed_ms, await archivedUntil(books)) : oldest.summed_ms;
  return Math.min(floorHour(oldest.last_ms) + HOUR_MS, readyMs);
}

/** Bytes of the database. */
async function sizeOf(books: D1Database): Promise<number> {
  const { meta } = await books.prepare("select 1").run();
  return meta.size_after;
}

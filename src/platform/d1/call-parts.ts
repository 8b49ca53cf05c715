/**
 * The archive's parts of calls, as the books know them: what is in which, and up to which hour all raw events are
 * there.
 *
 * An hour's rows of an account are written in the order of their ends. Rows that come later, because a queue was down
 * or a clock was set back, have higher row ids and make a further part of that hour.
 */
import type { StoredRow } from "../../core/archive/call-line.ts";
import { BLOCK_LINES, HOUR_MS, type PartRecord } from "../../core/archive/part.ts";
import { type PartRow, recordOf } from "../archive/part-row.ts";

/** A place in the order of an hour's rows. */
interface Place {
  readonly atMs: number;
  readonly row: number;
}

/** Which rows a part has: of the hour, between two row ids, after one place and up to another. */
export interface RowSpan {
  readonly fromRow: number;
  readonly throughRow: number;
  readonly after: Place;
}

export interface CallPart extends PartRecord, RowSpan {
  readonly last: Place;
  readonly late: number;
}

type Stored = PartRow & {
  account: number;
  state: string;
  from_row: number;
  through_row: number;
  after_ms: number;
  after_row: number;
  last_ms: number;
  last_row: number;
  late: number;
};

const BEGINNING: Place = { atMs: 0, row: 0 };

/** The earliest hour of which raw events may be missing in the archive. */
export async function archivedUntil(books: D1Database): Promise<number> {
  const mark = "select max(archived_until_ms, kept_from_ms) as until_ms from usage_progress";
  return (await books.prepare(mark).first<number>("until_ms")) ?? 0;
}

/** Raw events before this time have left the books. */
export const keptFrom = async (books: D1Database): Promise<number> =>
  (await books.prepare("select kept_from_ms from usage_progress").first<number>("kept_from_ms")) ?? 0;

/** Hours with raw events from one on, at most `most`, that are summed and get no more. */
export async function closedHours(books: D1Database, fromMs: number, most: number): Promise<readonly number[]> {
  const { results } = await books
    .prepare(
      `select distinct hour_ms from usage_hours where hour_ms >= ?1
         and hour_ms < (select summed_until_ms from usage_progress)
         and hour_ms not in (select hour_ms from usage_late_hours) order by hour_ms limit ?2`,
    )
    .bind(fromMs, most)
    .all<{ hour_ms: number }>();
  return results.map(({ hour_ms }) => hour_ms);
}

export interface Unarchived {
  readonly id: string;
  readonly number: number;
}

/** Accounts with raw events of this hour that no part has. */
export async function unarchivedIn(books: D1Database, hourMs: number): Promise<readonly Unarchived[]> {
  const { results } = await books
    .prepare(
      `select id, number from (select account, count(*) as events from usage_events
         where ended_ms >= ?1 and ended_ms < ?1 + ${HOUR_MS} group by account) as found
       join accounts on accounts.id = found.account
       where events > (select coalesce(sum(lines), 0) from call_parts
         where hour_ms = ?1 and call_parts.account = number and state = 'kept') order by number`,
    )
    .bind(hourMs)
    .all<Unarchived & Record<string, unknown>>();
  return results;
}

/**
 * Moves the mark to the end of an hour, if every raw event up to there is in a part that is kept. An hour whose raw
 * events left before has parts and no events.
 */
export async function advance(books: D1Database, hourMs: number): Promise<boolean> {
  const since = "max(archived_until_ms, kept_from_ms)";
  const { meta } = await books
    .prepare(
      `update usage_progress set archived_until_ms = ?1 where ${since} < ?1 and not exists (
         select 1 from (select ended_ms - ended_ms % ${HOUR_MS} as hour, count(*) as events from usage_events
           where ended_ms >= ${since} and ended_ms < ?1 group by 1)
         where events <> (select coalesce(sum(lines), 0) from call_parts where hour_ms = hour and state = 'kept'))`,
    )
    .bind(hourMs + HOUR_MS)
    .run();
  return meta.changes > 0;
}

/** The last part of an account's hour, and of the account. */
export async function lastParts(books: D1Database, number: number, hourMs: number) {
  const [ofHour, ofAll] = await books.batch<Stored>([
    books
      .prepare("select * from call_parts where hour_ms = ?2 and account = ?1 order by n desc limit 1")
      .bind(number, hourMs),
    books.prepare("select * from call_parts where account = ?1 order by n desc limit 1").bind(number),
  ]);
  const [inHour, last] = [ofHour?.results[0], ofAll?.results[0]];
  const planned = last?.state === "planned" ? partOf(last) : undefined;
  return { inHour: inHour && partOf(inHour), n: last?.n ?? 0, planned };
}

/** Rows of a span, in their order. `to`: no further than there. */
export async function rowsOf(
  books: D1Database,
  account: string,
  hourMs: number,
  span: RowSpan,
  to: Place = { atMs: Number.MAX_SAFE_INTEGER, row: Number.MAX_SAFE_INTEGER },
): Promise<readonly StoredRow[]> {
  const { after, fromRow, throughRow } = span;
  const { results } = await books
    .prepare(
      `select rowid as row, * from usage_events where account = ?1
         and ended_ms >= max(?2, ?3) and ended_ms < ?2 + ${HOUR_MS} and (ended_ms > ?3 or rowid > ?4)
         and rowid > ?5 and rowid <= ?6 and (ended_ms < ?7 or (ended_ms = ?7 and rowid <= ?8))
       order by ended_ms, rowid limit ${BLOCK_LINES}`,
    )
    .bind(account, hourMs, after.atMs, after.row, fromRow, throughRow, to.atMs, to.row)
    .all<Record<string, string | number | null>>();
  return results;
}

/** The rows that come next in an hour: what is left of those that were there, else those that came since. */
export async function nextSpan(
  books: D1Database,
  account: string,
  hourMs: number,
  last: CallPart | undefined,
): Promise<RowSpan | undefined> {
  if (last) {
    const rest = { fromRow: last.fromRow, throughRow: last.throughRow, after: last.last };
    if ((await rowsOf(books, account, hourMs, rest)).length > 0) return rest;
  }
  const newest = await books.prepare("select max(rowid) as newest from usage_events").first<number | null>("newest");
  const fromRow = last?.throughRow ?? 0;
  return newest === null || newest <= fromRow ? undefined : { fromRow, throughRow: newest, after: BEGINNING };
}

export async function planPart(books: D1Database, part: CallPart): Promise<void> {
  await books
    .prepare(
      `insert into call_parts values (?1, ?2, 'planned', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, '')
       on conflict (account, n) do update set bytes = excluded.bytes, footer_bytes = excluded.footer_bytes,
         blocks = excluded.blocks, sha256 = excluded.sha256 where state = 'planned'`,
    )
    .bind(
      part.account,
      part.n,
      part.hourMs,
      part.fromRow,
      part.throughRow,
      part.after.atMs,
      part.after.row,
      part.last.atMs,
      part.last.row,
      part.lines,
      part.late,
      part.nanoUsd,
      part.bytes,
      part.footerBytes,
      JSON.stringify(part.blocks),
      part.sha256,
    )
    .run();
}

export async function partIsKept(books: D1Database, { account, n }: CallPart, etag: string): Promise<void> {
  await books
    .prepare("update call_parts set state = 'kept', etag = ?3 where account = ?1 and n = ?2 and state = 'planned'")
    .bind(account, n, etag)
    .run();
}

/** Kept parts of an account after number `n`, of hours between two times, in order. */
export async function listCallParts(
  books: D1Database,
  number: number,
  { n = 0, fromMs = 0, toMs = Number.MAX_SAFE_INTEGER, newest = false, limit = 500 },
): Promise<readonly CallPart[]> {
  const { results } = await books
    .prepare(
      `select * from call_parts where account = ?1 and n > ?2 and hour_ms >= ?3 and hour_ms < ?4 and state = 'kept'
       order by ${newest ? "hour_ms desc, n desc" : "n"} limit ?5`,
    )
    .bind(number, n, fromMs, toMs, limit)
    .all<Stored>();
  return results.map(partOf);
}

const partOf = (stored: Stored): CallPart => ({
  ...recordOf(stored, "calls", stored.account),
  fromRow: stored.from_row,
  throughRow: stored.through_row,
  after: { atMs: stored.after_ms, row: stored.after_row },
  last: { atMs: stored.last_ms, row: stored.last_row },
  late: stored.late,
});

/**
 * Single calls in the books, newest first. A page goes on from a position in time, so it stays where it is while new
 * calls come. One page reads a bounded number of rows: a filter that few calls pass gives short pages, and a cursor.
 */
import {
  type CallFilter,
  type CallRow,
  callOf,
  type EventRow,
  eventRowOf,
  newerFirst,
  type Position,
  type StoredEvent,
} from "./call-rows.ts";
import { findRefused, type RefusedRow } from "./refused-calls.ts";
import { UNIT_COLUMNS } from "./usage-events.ts";

export interface CallPage {
  readonly data: readonly (CallRow | RefusedRow)[];
  /** Null: nothing older passes the filter. */
  readonly next: Position | null;
}

/** Rows that one page looks at, at most. */
const ROWS_LOOKED_AT = 20_000;

/** With their table's name: `json_each` has a `key` and a `rowid` too. */
const COLUMNS = [
  "rowid as row",
  ...["event_id", "late", "account", "team", "key", "endpoint", "model", "alias", "upstream", "target_model", "region"],
  ...["country", "outcome", "reason", "status", "source", ...Object.values(UNIT_COLUMNS), "price_nano_usd"],
  ...["cost_nano_usd", "overrun_nano_usd", "loss_nano_usd", "price_rule", "started_ms", "ended_ms", "latency_ms"],
  ...["first_byte_ms", "detail"],
]
  .map((column) => `usage_events.${column}`)
  .join(", ");

/** Columns that a filter compares. `account` is in the index; the others are looked at row by row. */
const COMPARED = ["team", "key", "model", "upstream", "outcome", "status", "reason"] as const;

/** Rows of a time, newest first, and how far was looked; `end` null: to the end of the time asked for. */
interface Found<Row> {
  readonly rows: readonly Row[];
  readonly end: Position | null;
}

/** The rows that a page looks at. ?1 from, ?2 to, ?3 and ?4 the position to go on from, ?5 the account.
 * One upper bound, of both: an index is entered by one alone, and a page far back would pass over all that is newer. */
export const lookedAt = ({ account }: Pick<CallFilter, "account">): string =>
  `from usage_events where ended_ms >= ?1 and ended_ms < min(?2, ?3 + 1) and (ended_ms < ?3 or rowid < ?4)
     ${account === undefined ? "and ?5 is null" : "and account = ?5"} order by ended_ms desc, rowid desc`;

async function findEvents(
  books: D1Database,
  filter: CallFilter,
  after: Position | null,
  limit: number,
): Promise<Found<EventRow>> {
  const fromRow = after?.table === 0 ? after.row : Number.MAX_SAFE_INTEGER;
  const range = [filter.fromMs, filter.toMs, after?.atMs ?? Number.MAX_SAFE_INTEGER, fromRow, filter.account ?? null];
  if (filter.outcome === "refused") return { rows: [], end: null };
  const conditions = COMPARED.flatMap((column, index) =>
    filter[column] === undefined ? [] : [`${column} = ?${index + 7}`],
  );
  const [found, last] = await books.batch<StoredEvent>([
    books
      .prepare(
        `select * from (select ${COLUMNS} ${lookedAt(filter)} limit ${ROWS_LOOKED_AT})
         where ${["late = 0", ...conditions].join(" and ")} limit ?6`,
      )
      .bind(...range, limit, ...bound(COMPARED.map((column) => filter[column]))),
    books
      .prepare(`select ended_ms, rowid as row ${lookedAt(filter)} limit 1 offset ${ROWS_LOOKED_AT - 1}`)
      .bind(...range),
  ]);
  const rows = (found?.results ?? []).map(eventRowOf);
  const stopped = last?.results[0];
  if (rows.length >= limit) return { rows, end: rows.at(-1)?.position ?? null };
  if (!stopped) return { rows, end: null };
  return { rows, end: { atMs: Number(stopped.ended_ms), table: 0, row: Number(stopped.row) } };
}

/** D1 wants each numbered parameter up to the last one that the text names. */
function bound(values: readonly (string | number | undefined)[]): (string | number | null)[] {
  const last = values.findLastIndex((value) => value !== undefined);
  return values.slice(0, last + 1).map((value) => value ?? null);
}

/** `after`: the position of the last row of the page before. */
export async function listCalls(
  books: D1Database,
  filter: CallFilter,
  after: Position | null,
  limit: number,
): Promise<CallPage> {
  const [events, refused] = await Promise.all([
    findEvents(books, filter, after, limit),
    findRefused(books, filter, after, limit, ROWS_LOOKED_AT),
  ]);
  // Of the two tables one may have been read less far: what stands beyond comes with a later page.
  const horizon = [events.end, refused.end].filter((end) => end !== null).sort(newerFirst)[0];
  const seen = [...events.rows, ...refused.rows]
    .filter(({ position }) => !horizon || newerFirst(position, horizon) <= 0)
    .sort((a, b) => newerFirst(a.position, b.position));
  const page = seen.slice(0, limit);
  const next = seen.length > limit ? page.at(-1)?.position : horizon;
  const calls = await withLater(
    books,
    page.filter((row): row is EventRow => "eventId" in row),
  );
  const callAt = new Map(calls.map((call) => [call.eventId, call]));
  const data = page.flatMap((row) => ("eventId" in row ? (callAt.get(row.eventId) ?? []) : row));
  return { data, next: next ?? null };
}

/** A call's later events have its id and a point in front of their own names. */
const LATER = "event_id > value || '.' and event_id < value || '/'";

async function withLater(books: D1Database, firsts: readonly EventRow[]): Promise<readonly CallRow[]> {
  if (firsts.length === 0) return [];
  const { results } = await books
    .prepare(
      `select ${COLUMNS}, value as call from json_each(?1) cross join usage_events where ${LATER}
       order by ended_ms, event_id`,
    )
    .bind(JSON.stringify(firsts.map(({ eventId }) => eventId)))
    .all<StoredEvent>();
  const later = Map.groupBy(results, ({ call }) => call);
  return firsts.map((first) => callOf(first, (later.get(first.eventId) ?? []).map(eventRowOf)));
}

/** A call by its id; undefined while its event has not come, and once it was deleted. */
export async function findCall(books: D1Database, id: string): Promise<CallRow | undefined> {
  const [call = ""] = id.split(".");
  const { results } = await books
    .prepare(
      `select ${COLUMNS} from usage_events where event_id = ?1
       union all select ${COLUMNS} from json_each(json_array(?1)) cross join usage_events where ${LATER}`,
    )
    .bind(call)
    .all<StoredEvent>();
  const rows = results
    .map(eventRowOf)
    .sort((a, b) => Number(a.late) - Number(b.late) || newerFirst(b.position, a.position));
  const [first, ...later] = rows;
  return first && callOf(first, later);
}

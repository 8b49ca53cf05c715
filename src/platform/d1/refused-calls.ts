/**
 * Refused calls in the books: those that were recorded one by one, and how many there were by minute, key, level and
 * limit. Batches come at least once: a call counts by its id, a sum by its batch.
 */

import type { Met, RefusedBatch } from "../../core/account/refused-call.ts";
import type { CallFilter, Position } from "./call-rows.ts";
import { countRefusals } from "./metrics.ts";

export interface RefusedRow {
  readonly position: Position;
  readonly callId: string;
  readonly account: string;
  readonly key: string;
  readonly team: string | null;
  readonly endpoint: string;
  readonly model: string | null;
  readonly status: number;
  readonly reason: string;
  readonly param: string | null;
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly met: Met | null;
}

const FIELDS = [
  "callId",
  "atMs",
  "startedAtMs",
  "key",
  "team",
  "endpoint",
  "model",
  "status",
  "reason",
  "param",
  "met",
];
const VALUES = FIELDS.map((field) => `json_extract(value, '$.${field}')`).join(", ");

/** Writes all of these or none. */
export async function writeRefused(books: D1Database, batches: readonly RefusedBatch[], nowMs: number): Promise<void> {
  const calls = books.prepare(
    `insert or ignore into refused_calls
       (account, call_id, at_ms, started_ms, key, team, endpoint, model, status, reason, param, met)
     select ?1, ${VALUES} from json_each(?2)`,
  );
  const counts = books.prepare(
    `insert into refusal_minutes (account, minute_ms, key, level, limit_name, reason, refusals)
     select ?1, json_extract(value, '$.minuteMs'), json_extract(value, '$.key'), json_extract(value, '$.level'),
       json_extract(value, '$.limit'), json_extract(value, '$.reason'), json_extract(value, '$.refusals')
     from json_each(?3) where not exists (select 1 from refusal_batches where id = ?2)
     on conflict (account, minute_ms, key, level, limit_name, reason)
       do update set refusals = refusals + excluded.refusals`,
  );
  const counted = books.prepare("insert or ignore into refusal_batches values (?1, ?2)");
  await books.batch(
    batches.flatMap((batch) => [
      countRefusals(books, batch.id, JSON.stringify(batch.counts)),
      calls.bind(batch.account, JSON.stringify(batch.calls)),
      counts.bind(batch.account, batch.id, JSON.stringify(batch.counts)),
      counted.bind(batch.id, nowMs),
    ]),
  );
}

type Stored = Record<string, string | number | null>;

const rowOf = (stored: Stored): RefusedRow => ({
  position: { atMs: Number(stored.at_ms), table: 1, row: Number(stored.row) },
  callId: String(stored.call_id),
  account: String(stored.account),
  key: String(stored.key),
  team: stored.team === null ? null : String(stored.team),
  endpoint: String(stored.endpoint),
  model: stored.model === null ? null : String(stored.model),
  status: Number(stored.status),
  reason: String(stored.reason),
  param: stored.param === null ? null : String(stored.param),
  atMs: Number(stored.at_ms),
  startedAtMs: Number(stored.started_ms),
  met: typeof stored.met === "string" ? (JSON.parse(stored.met) as Met) : null,
});

const COMPARED = ["team", "key", "model", "status", "reason"] as const;

/** Newest first, `limit` of those after a position; of a bounded number of rows, as of calls. */
export async function findRefused(
  books: D1Database,
  filter: CallFilter,
  after: Position | null,
  limit: number,
  rowsLookedAt: number,
): Promise<{ rows: readonly RefusedRow[]; end: Position | null }> {
  if (filter.upstream !== undefined || (filter.outcome !== undefined && filter.outcome !== "refused")) {
    return { rows: [], end: null };
  }
  // At the time of an admitted call, refused ones came before it.
  const fromRow = after === null ? Number.MAX_SAFE_INTEGER : after.table === 1 ? after.row : 0;
  const range = [filter.fromMs, filter.toMs, after?.atMs ?? Number.MAX_SAFE_INTEGER, fromRow, filter.account ?? null];
  const values = COMPARED.map((column) => filter[column] ?? null);
  const looked = `from refused_calls where at_ms >= ?1 and at_ms < min(?2, ?3 + 1) and (at_ms < ?3 or rowid < ?4)
    ${filter.account === undefined ? "and ?5 is null" : "and account = ?5"} order by at_ms desc, rowid desc`;
  const compared = COMPARED.map((column, index) => `(?${index + 7} is null or ${column} = ?${index + 7})`).join(
    " and ",
  );
  const [found, last] = await books.batch<Stored>([
    books
      .prepare(`select * from (select rowid as row, * ${looked} limit ${rowsLookedAt}) where ${compared} limit ?6`)
      .bind(...range, limit, ...values),
    books.prepare(`select at_ms, rowid as row ${looked} limit 1 offset ${rowsLookedAt - 1}`).bind(...range),
  ]);
  const rows = (found?.results ?? []).map(rowOf);
  const stopped = last?.results[0];
  if (rows.length >= limit) return { rows, end: rows.at(-1)?.position ?? null };
  return { rows, end: stopped ? { atMs: Number(stopped.at_ms), table: 1, row: Number(stopped.row) } : null };
}

export async function findRefusedCall(books: D1Database, callId: string): Promise<RefusedRow | undefined> {
  const stored = await books
    .prepare("select rowid as row, * from refused_calls where call_id = ?1")
    .bind(callId)
    .first<Stored>();
  return stored ? rowOf(stored) : undefined;
}

export interface RefusalSum {
  readonly minute_ms: number;
  readonly key: string;
  readonly level: string;
  readonly limit_name: string;
  readonly reason: string;
  readonly refusals: number;
}

/** An account's refusals by minute, key, level, limit and reason, newest first. */
export async function sumRefusals(
  books: D1Database,
  asked: { account: string; key: string | undefined; fromMs: number; toMs: number; limit: number; offset: number },
): Promise<RefusalSum[]> {
  const { results } = await books
    .prepare(
      `select minute_ms, key, level, limit_name, reason, sum(refusals) as refusals from refusal_minutes
       where account = ?1 and minute_ms >= ?2 and minute_ms < ?3 and (?4 is null or key = ?4)
       group by minute_ms, key, level, limit_name, reason
       order by minute_ms desc, key, level, limit_name, reason limit ?5 offset ?6`,
    )
    .bind(asked.account, asked.fromMs, asked.toMs, asked.key ?? null, asked.limit, asked.offset)
    .all<RefusalSum>();
  return results;
}

/** Rows that one account may have, and all together, in each table: a flood of refusals fills no database. */
const MOST_ROWS = { ofAccount: 100_000, inAll: 1_000_000 } as const;
/** A batch that comes later than this would count twice, ms; the queue gives up long before. */
const BATCHES_KEPT_MS = 4 * 86_400_000;

/** Deletes what is older than `beforeMs`, and the oldest of what is too much: at most `atOnce` rows of each. */
export async function pruneRefused(
  books: D1Database,
  {
    beforeMs,
    nowMs,
    atOnce,
    most = MOST_ROWS,
  }: { beforeMs: number; nowMs: number; atOnce: number; most?: { readonly ofAccount: number; readonly inAll: number } },
): Promise<void> {
  await remove(books, "refusal_batches", "at_ms", "at_ms < ?1", [nowMs - BATCHES_KEPT_MS], atOnce);
  for (const [table, time] of [
    ["refused_calls", "at_ms"],
    ["refusal_minutes", "minute_ms"],
  ] as const) {
    await remove(books, table, time, `${time} < ?1`, [beforeMs], atOnce);
    const { results } = await books
      .prepare(`select account, count(*) as rows from ${table} group by account order by rows desc`)
      .all<{ account: string; rows: number }>();
    for (const { account, rows } of results.filter((one) => one.rows > most.ofAccount)) {
      await remove(books, table, time, "account = ?1", [account], Math.min(atOnce, rows - most.ofAccount));
    }
    const all = results.reduce((sum, { rows }) => sum + Math.min(rows, most.ofAccount), 0);
    if (all > most.inAll) await remove(books, table, time, "true", [], Math.min(atOnce, all - most.inAll));
  }
}

/** The oldest `count` rows of a condition. */
async function remove(
  books: D1Database,
  table: string,
  time: string,
  where: string,
  values: readonly (string | number)[],
  count: number,
): Promise<void> {
  await books
    .prepare(
      `delete from ${table} where rowid in (select rowid from ${table} where ${where} order by ${time}
       limit ?${values.length + 1})`,
    )
    .bind(...values, count)
    .run();
}

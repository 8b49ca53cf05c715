/**
 * Alerts in the books, each written once, with a delivery for each webhook that wants it. An alert that comes again
 * makes no second delivery, and none for a webhook that was made meanwhile.
 */
import { type Alert, TENANT_ALERTS } from "../../core/alerts/alert.ts";
import { DELIVERIES_KEPT_MS, MOST_WAITING } from "../../core/alerts/retries.ts";
import { cutPage } from "./cut-page.ts";

const DELIVER = `
  insert into webhook_deliveries (webhook, alert, state, problem, next_ms, created_ms)
  select webhooks.id, json_extract(alert.value, '$.id'), iif(full, 'failed', 'pending'), iif(full, 'too_many', null),
    ?2, ?2
  from json_each(?1) as alert join (select *, failing_since_ms is not null and ${MOST_WAITING} <= (select count(*)
      from webhook_deliveries where webhook = webhooks.id and state = 'pending') as full from webhooks) as webhooks
    on webhooks.disabled_ms is null
    and (webhooks.account is null or (webhooks.account = json_extract(alert.value, '$.account')
      and json_extract(alert.value, '$.type') in (select value from json_each(?3))))
  where exists (select 1 from json_each(webhooks.events) where value = json_extract(alert.value, '$.type'))
    and not exists (select 1 from alerts where id = json_extract(alert.value, '$.id'))
  on conflict do nothing`;
const WRITE = `
  insert into alerts (id, type, account, at_ms, data)
  select json_extract(value, '$.id'), json_extract(value, '$.type'), json_extract(value, '$.account'),
    json_extract(value, '$.atMs'), json_extract(value, '$.data') from json_each(?1)
  where true on conflict (id) do nothing`;

/** Writes all of these or none, and `also`. Returns how many deliveries they made. */
export async function writeAlerts(
  books: D1Database,
  alerts: readonly Alert[],
  nowMs: number,
  also: readonly D1PreparedStatement[] = [],
): Promise<number> {
  const text = JSON.stringify(alerts);
  const [made] = await books.batch([
    books.prepare(DELIVER).bind(text, nowMs, JSON.stringify(TENANT_ALERTS)),
    books.prepare(WRITE).bind(text),
    ...also,
  ]);
  return made?.meta.changes ?? 0;
}

export interface AlertRow {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
  readonly account: string | null;
  readonly atMs: number;
  readonly data: Record<string, unknown>;
}

interface Asked {
  readonly account: string | undefined;
  readonly type: string | undefined;
  readonly cursor: string | null;
  readonly limit: number;
}

/** Newest first. */
export async function listAlerts(books: D1Database, { account, type, cursor, limit }: Asked) {
  const { results } = await books
    .prepare(
      `select seq, id, type, account, at_ms as atMs, data from alerts
       where seq < ?1 and (?2 is null or account = ?2) and (?3 is null or type = ?3) order by seq desc limit ?4`,
    )
    .bind(cursor === null ? Number.MAX_SAFE_INTEGER : Number(cursor), account ?? null, type ?? null, limit + 1)
    .all<Omit<AlertRow, "data"> & { data: string }>();
  const rows = results.map((row): AlertRow => ({ ...row, data: JSON.parse(row.data) }));
  return cutPage(rows, { cursor, limit }, ({ seq }) => String(seq));
}

/** Deletes what is older than it is kept. */
export async function pruneAlerts(books: D1Database, nowMs: number, most: number): Promise<void> {
  const old = (table: string, time: string) =>
    books
      .prepare(`delete from ${table} where rowid in (select rowid from ${table} where ${time} < ?1 limit ?2)`)
      .bind(nowMs - DELIVERIES_KEPT_MS, most);
  await books.batch([old("alerts", "at_ms"), old("webhook_deliveries", "created_ms")]);
}

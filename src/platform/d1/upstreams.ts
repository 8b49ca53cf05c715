/** Upstreams in the operator's books: where calls can go, with the sealed credential. */

import type { Page, PageRequest } from "../../core/account/tenant.ts";
import type { UpstreamRow } from "../../core/routing/routes.ts";
import { cutPage } from "./cut-page.ts";
import { TAKEN } from "./seats.ts";

export interface StoredUpstream {
  id: string;
  base_url: string;
  region: string | null;
  sealed_api_key: string;
  connect_ms: number;
  first_byte_ms: number;
  answer_ms: number;
  idle_ms: number;
  total_ms: number;
  shared: number;
  sealed_service_key: string | null;
  service_checked_ms: number | null;
}

const WRITTEN_COLUMNS =
  "id, base_url, region, sealed_api_key, connect_ms, first_byte_ms, answer_ms, idle_ms, total_ms, shared, sealed_service_key";
export const UPSTREAM_COLUMNS = `${WRITTEN_COLUMNS}, service_checked_ms`;

export const upstreamOf = (stored: StoredUpstream): UpstreamRow => ({
  id: stored.id,
  baseUrl: stored.base_url,
  region: stored.region,
  shared: stored.shared === 1,
  sealedApiKey: stored.sealed_api_key,
  ...(stored.sealed_service_key !== null && {
    service: { sealedKey: stored.sealed_service_key, checkedMs: stored.service_checked_ms },
  }),
  timeouts: {
    connectMs: stored.connect_ms,
    firstByteMs: stored.first_byte_ms,
    answerMs: stored.answer_ms,
    idleMs: stored.idle_ms,
    totalMs: stored.total_ms,
  },
});

/**
 * Writes the row. A changed address or key ends what a check had shown: a trigger sees to that. `expected`: writes only
 * over the row that was read with this version, or where there is none. Returns false if it is not so any more, or if
 * more accounts have taken a seat than the upstream may seat then.
 */
export async function putUpstream(
  books: D1Database,
  row: UpstreamRow,
  nowMs: number,
  expected: number | "none" | "any" = "any",
): Promise<boolean> {
  const { meta } = await books
    .prepare(
      `insert into upstreams (${WRITTEN_COLUMNS}, created_ms, changed_ms)
       select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12
         where (?13 = 'any' or (select changed_ms from upstreams where id = ?1) is nullif(?13, 'none'))
           and (?10 = 1 or (select count(*) from ${TAKEN} where upstream = ?1) <= 1)
       on conflict (id) do update set base_url = excluded.base_url, region = excluded.region,
         sealed_api_key = excluded.sealed_api_key, connect_ms = excluded.connect_ms,
         first_byte_ms = excluded.first_byte_ms, answer_ms = excluded.answer_ms, idle_ms = excluded.idle_ms, total_ms = excluded.total_ms,
         shared = excluded.shared, sealed_service_key = excluded.sealed_service_key,
         -- Never the same twice: it is the version too.
         changed_ms = max(excluded.changed_ms, upstreams.changed_ms + 1)`,
    )
    .bind(
      row.id,
      row.baseUrl,
      row.region,
      row.sealedApiKey,
      row.timeouts.connectMs,
      row.timeouts.firstByteMs,
      row.timeouts.answerMs,
      row.timeouts.idleMs,
      row.timeouts.totalMs,
      row.shared ? 1 : 0,
      row.service?.sealedKey ?? null,
      nowMs,
      expected,
    )
    .run();
  return meta.changes > 0;
}

export async function findUpstream(books: D1Database, id: string): Promise<UpstreamRow | undefined> {
  return (await readUpstream(books, id))?.row;
}

/** With the version that `putUpstream` takes. */
export async function readUpstream(
  books: D1Database,
  id: string,
): Promise<{ row: UpstreamRow; version: number } | undefined> {
  const stored = await books
    .prepare(`select ${UPSTREAM_COLUMNS}, changed_ms from upstreams where id = ?1`)
    .bind(id)
    .first<StoredUpstream & { changed_ms: number }>();
  return stored ? { row: upstreamOf(stored), version: stored.changed_ms } : undefined;
}

export async function listUpstreams(books: D1Database, page: PageRequest): Promise<Page<UpstreamRow>> {
  const { results } = await books
    .prepare(`select ${UPSTREAM_COLUMNS} from upstreams where id > ?1 order by id limit ?2`)
    .bind(page.cursor ?? "", page.limit + 1)
    .all<StoredUpstream>();
  return cutPage(results.map(upstreamOf), page, (row) => row.id);
}

/**
 * Records what a check of service paths showed of this address and these keys; `checkedMs` null: a pod was sent a key.
 */
export async function recordServiceCheck(
  books: D1Database,
  row: UpstreamRow,
  checkedMs: number | null,
): Promise<boolean> {
  const { meta } = await books
    .prepare(
      `update upstreams set service_checked_ms = ?5
       where id = ?1 and base_url = ?2 and sealed_api_key = ?3 and sealed_service_key = ?4`,
    )
    .bind(row.id, row.baseUrl, row.sealedApiKey, row.service?.sealedKey ?? null, checkedMs)
    .run();
  return meta.changes > 0;
}

/** Returns the ids that have no upstream. */
export async function missingUpstreams(books: D1Database, ids: readonly string[]): Promise<string[]> {
  const { results } = await books
    .prepare("select value as id from json_each(?1) where value not in (select id from upstreams)")
    .bind(JSON.stringify(ids))
    .all<{ id: string }>();
  return results.map((row) => row.id);
}

/** Where an upstream is still used: an alias, an instance, a model, an account's compute. */
const USED_BY = `
  select 'alias ' || alias as user from aliases, json_each(targets)
    where json_extract(json_each.value, '$.upstream') = ?1
  union all select 'instance ' || instance_id from instances, json_each(upstreams) where json_each.value = ?1
  union all select 'model ' || model from model_settings where upstream = ?1
  union all select 'account ' || account from ${TAKEN} where upstream = ?1`;

/** Deletes an upstream unless it is still used; then returns the first few places. */
export async function deleteUpstream(
  books: D1Database,
  id: string,
): Promise<{ kind: "deleted" | "unknown" } | { kind: "in_use"; users: readonly string[] }> {
  const [users, removed] = await books.batch<{ user: string }>([
    books.prepare(`select distinct user from (${USED_BY}) order by user limit 5`).bind(id),
    books.prepare(`delete from upstreams where id = ?1 and not exists (${USED_BY})`).bind(id),
  ]);
  if (users?.results.length) return { kind: "in_use", users: users.results.map((row) => row.user) };
  return { kind: removed?.meta.changes ? "deleted" : "unknown" };
}

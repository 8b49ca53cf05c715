/** Instances in the operator's books: user-deployed models and the accounts that own them. */

import type { Page, PageRequest } from "../../core/account/tenant.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import type { HourlyPlan, InstanceRow } from "../../core/routing/routes.ts";
import { cutPage } from "./cut-page.ts";

export interface StoredInstance {
  instance_id: number;
  account: string;
  name: string;
  upstreams: string;
  kind: InstanceRow["kind"];
  custom_api_path: string | null;
  /** JSON. */
  hourly: string | null;
}

export const INSTANCE_COLUMNS = "instance_id, account, name, upstreams, kind, custom_api_path, hourly";

export const instanceOf = (stored: StoredInstance): InstanceRow => ({
  instanceId: stored.instance_id,
  account: asId<AccountId>(stored.account),
  name: stored.name,
  upstreams: JSON.parse(stored.upstreams) as string[],
  kind: stored.kind,
  customApiPath: stored.custom_api_path,
  ...(stored.hourly !== null && { hourly: JSON.parse(stored.hourly) as HourlyPlan }),
});

/**
 * Writes the row. `rental`: of an instance by the hour, in its account's object. Returns false if the instance has
 * another rental, or is another account's with one: that has to end first. `expected`: writes only over the row that
 * was read with this version.
 */
export async function putInstance(
  books: D1Database,
  row: InstanceRow,
  rental: number | null,
  nowMs: number,
  expected: number | "any" = "any",
): Promise<boolean> {
  const { meta } = await books
    .prepare(
      `insert into instances (${INSTANCE_COLUMNS}, rental, created_ms, changed_ms)
       select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9
         where ?10 = 'any' or (select changed_ms from instances where instance_id = ?1) = ?10
       on conflict (instance_id) do update set account = excluded.account, name = excluded.name,
         upstreams = excluded.upstreams, kind = excluded.kind, custom_api_path = excluded.custom_api_path,
         hourly = excluded.hourly, rental = excluded.rental,
         -- Never the same twice: it is the version too.
         changed_ms = max(excluded.changed_ms, instances.changed_ms + 1)
       where instances.rental is null or (instances.rental is excluded.rental and instances.account = excluded.account)`,
    )
    .bind(
      row.instanceId,
      row.account,
      row.name,
      JSON.stringify(row.upstreams),
      row.kind,
      row.customApiPath,
      row.hourly ? JSON.stringify(row.hourly) : null,
      rental,
      nowMs,
      expected,
    )
    .run();
  return meta.changes > 0;
}

export async function findInstance(books: D1Database, instanceId: number): Promise<InstanceRow | undefined> {
  return (await readInstance(books, instanceId))?.row;
}

/** With the version that `putInstance` takes. */
export async function readInstance(
  books: D1Database,
  instanceId: number,
): Promise<{ row: InstanceRow; version: number } | undefined> {
  const stored = await books
    .prepare(`select ${INSTANCE_COLUMNS}, changed_ms from instances where instance_id = ?1`)
    .bind(instanceId)
    .first<StoredInstance & { changed_ms: number }>();
  return stored ? { row: instanceOf(stored), version: stored.changed_ms } : undefined;
}

/** The rental of an instance by the hour; null: it has none. */
export async function rentalOf(books: D1Database, instanceId: number): Promise<number | null> {
  return books.prepare("select rental from instances where instance_id = ?1").bind(instanceId).first<number>("rental");
}

/** False if there is none with this rental. */
export async function deleteInstance(books: D1Database, instanceId: number, rental: number | null): Promise<boolean> {
  const { meta } = await books
    .prepare("delete from instances where instance_id = ?1 and rental is ?2")
    .bind(instanceId, rental)
    .run();
  return meta.changes > 0;
}

export async function listInstances(
  books: D1Database,
  page: PageRequest,
  account: string | undefined,
): Promise<Page<InstanceRow>> {
  const { results } = await books
    .prepare(
      `select ${INSTANCE_COLUMNS} from instances
       where instance_id > ?1 and (?2 is null or account = ?2) order by instance_id limit ?3`,
    )
    .bind(Number(page.cursor ?? 0), account ?? null, page.limit + 1)
    .all<StoredInstance>();
  return cutPage(results.map(instanceOf), page, (row) => String(row.instanceId));
}

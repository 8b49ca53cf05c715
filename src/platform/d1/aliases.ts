/**
 * Aliases in the operator's books: public model names and their targets. An alias is common or belongs to one account.
 */

import type { Page, PageRequest } from "../../core/account/tenant.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import type { AliasRow, Target } from "../../core/routing/routes.ts";
import { cutPage } from "./cut-page.ts";

export interface StoredAlias {
  alias: string;
  account: string | null;
  targets: string;
  retry_on: string;
}

export const ALIAS_COLUMNS = "alias, account, targets, retry_on";

export const aliasOf = (stored: StoredAlias): AliasRow => ({
  alias: stored.alias,
  account: stored.account === null ? null : asId<AccountId>(stored.account),
  targets: JSON.parse(stored.targets) as Target[],
  retryOn: JSON.parse(stored.retry_on) as AliasRow["retryOn"],
});

/** `expected`: writes only over the row that was read with this version. Returns false if it is not so any more. */
export async function putAlias(
  books: D1Database,
  row: AliasRow,
  nowMs: number,
  expected: number | "any" = "any",
): Promise<boolean> {
  const { meta } = await books
    .prepare(
      `insert into aliases (${ALIAS_COLUMNS}, created_ms, changed_ms)
       select ?1, ?2, ?3, ?4, ?5, ?5
         where ?6 = 'any' or (select changed_ms from aliases where alias = ?1 and account is ?2) = ?6
       on conflict (alias, coalesce(account, '')) do update set targets = excluded.targets,
         retry_on = excluded.retry_on,
         -- Never the same twice: it is the version too.
         changed_ms = max(excluded.changed_ms, aliases.changed_ms + 1)`,
    )
    .bind(row.alias, row.account, JSON.stringify(row.targets), JSON.stringify(row.retryOn), nowMs, expected)
    .run();
  return meta.changes > 0;
}

/** The common alias (`account` null) or the account's own. */
export async function findAlias(
  books: D1Database,
  alias: string,
  account: string | null,
): Promise<AliasRow | undefined> {
  return (await readAlias(books, alias, account))?.row;
}

/** With the version that `putAlias` takes. */
export async function readAlias(
  books: D1Database,
  alias: string,
  account: string | null,
): Promise<{ row: AliasRow; version: number } | undefined> {
  const stored = await books
    .prepare(`select ${ALIAS_COLUMNS}, changed_ms from aliases where alias = ?1 and account is ?2`)
    .bind(alias, account)
    .first<StoredAlias & { changed_ms: number }>();
  return stored ? { row: aliasOf(stored), version: stored.changed_ms } : undefined;
}

export async function deleteAlias(books: D1Database, alias: string, account: string | null): Promise<boolean> {
  const { meta } = await books
    .prepare("delete from aliases where alias = ?1 and account is ?2")
    .bind(alias, account)
    .run();
  return meta.changes > 0;
}

/** By name, then account; common ones first. With `account`, only that account's own. */
export async function listAliases(
  books: D1Database,
  page: PageRequest,
  account: string | undefined,
): Promise<Page<AliasRow>> {
  // Neither an alias nor an account id contains a space.
  const [alias, owner] = (page.cursor ?? " ").split(" ");
  const { results } = await books
    .prepare(
      `select ${ALIAS_COLUMNS} from aliases
       where (alias, coalesce(account, '')) > (?1, ?2) and (?3 is null or account = ?3)
       order by alias, coalesce(account, '') limit ?4`,
    )
    .bind(alias ?? "", owner ?? "", account ?? null, page.limit + 1)
    .all<StoredAlias>();
  return cutPage(results.map(aliasOf), page, (row) => `${row.alias} ${row.account ?? ""}`);
}

/** Aliases with a target `<name>:<instance_id>` that accounts other than `account` may call. */
export async function foreignAliasesOf(
  books: D1Database,
  instanceId: number,
  account: string,
): Promise<readonly string[]> {
  const { results } = await books
    .prepare(
      `select distinct alias from aliases, json_each(targets)
       where json_extract(json_each.value, '$.model') like '%:' || ?1 and account is not ?2 limit 5`,
    )
    .bind(String(instanceId), account)
    .all<{ alias: string }>();
  return results.map((row) => row.alias);
}

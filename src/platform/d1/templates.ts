/** Launch templates in the operator's books. */
import type { Page, PageRequest } from "../../core/account/tenant.ts";
import { type AccountId, asId } from "../../core/ids.ts";
import { type LaunchDefaults, type LaunchTemplate, MOST_TEMPLATES } from "../../core/launch-templates.ts";
import { cutPage } from "./cut-page.ts";

export interface StoredTemplate {
  id: number;
  account: string | null;
  name: string;
  description: string | null;
  defaults: string;
}

export const TEMPLATE_COLUMNS = "id, account, name, description, defaults";

export const templateOf = (stored: StoredTemplate): LaunchTemplate => ({
  id: stored.id,
  account: stored.account === null ? null : asId<AccountId>(stored.account),
  name: stored.name,
  description: stored.description,
  defaults: JSON.parse(stored.defaults) as LaunchDefaults,
});

/** False where it would be one too many. */
export async function putTemplate(books: D1Database, row: LaunchTemplate, nowMs: number): Promise<boolean> {
  const { meta } = await books
    .prepare(
      `insert into compute_templates (${TEMPLATE_COLUMNS}, created_ms, changed_ms)
       select ?1, ?2, ?3, ?4, ?5, ?6, ?6
       where (select count(*) from compute_templates where id <> ?1) < ?7
       on conflict (id) do update set account = excluded.account, name = excluded.name,
         description = excluded.description, defaults = excluded.defaults, changed_ms = excluded.changed_ms`,
    )
    .bind(row.id, row.account, row.name, row.description, JSON.stringify(row.defaults), nowMs, MOST_TEMPLATES)
    .run();
  return meta.changes > 0;
}

export async function findTemplate(books: D1Database, id: number): Promise<LaunchTemplate | undefined> {
  const stored = await books
    .prepare(`select ${TEMPLATE_COLUMNS} from compute_templates where id = ?1`)
    .bind(id)
    .first<StoredTemplate>();
  return stored ? templateOf(stored) : undefined;
}

export async function deleteTemplate(books: D1Database, id: number): Promise<boolean> {
  const { meta } = await books.prepare("delete from compute_templates where id = ?1").bind(id).run();
  return meta.changes > 0;
}

export async function listTemplates(books: D1Database, page: PageRequest): Promise<Page<LaunchTemplate>> {
  const { results } = await books
    .prepare(`select ${TEMPLATE_COLUMNS} from compute_templates where id > ?1 order by id limit ?2`)
    .bind(Number(page.cursor ?? 0), page.limit + 1)
    .all<StoredTemplate>();
  return cutPage(results.map(templateOf), page, (row) => String(row.id));
}

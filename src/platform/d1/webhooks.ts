/** Webhooks: who is told of which alerts. The operator's have no account. Secrets are sealed before they come here. */
import type { Page, PageRequest } from "../../core/account/tenant.ts";
import { FORGOTTEN_MS } from "../../core/alerts/retries.ts";
import { cutPage } from "./cut-page.ts";

/** Why a webhook gets nothing. */
export const DISABLED_WHYS = ["gone", "failing", "owner"] as const;
export type DisabledWhy = (typeof DISABLED_WHYS)[number];

export interface WebhookRow {
  readonly id: string;
  readonly account: string | null;
  readonly url: string;
  readonly events: readonly string[];
  readonly secret: string;
  readonly oldSecret: string | null;
  readonly oldUntilMs: number | null;
  readonly createdMs: number;
  readonly failingSinceMs: number | null;
  readonly disabledMs: number | null;
  readonly disabledWhy: DisabledWhy | null;
}

const COLUMNS = `id, account, url, events, secret, old_secret as oldSecret, old_until_ms as oldUntilMs,
  created_ms as createdMs, failing_since_ms as failingSinceMs, disabled_ms as disabledMs, disabled_why as disabledWhy`;
type Stored = Omit<WebhookRow, "events"> & { events: string };
const rowOf = (stored: Stored): WebhookRow => ({ ...stored, events: JSON.parse(stored.events) });

/** False if there are `most` already, or one of this id. */
export async function addWebhook(books: D1Database, row: WebhookRow, most: number): Promise<boolean> {
  const { meta } = await books
    .prepare(
      `insert into webhooks (id, account, url, events, secret, created_ms) select ?1, ?2, ?3, ?4, ?5, ?6
       where (select count(*) from webhooks where account is ?2) < ?7 on conflict (id) do nothing`,
    )
    .bind(row.id, row.account, row.url, JSON.stringify(row.events), row.secret, row.createdMs, most)
    .run();
  return meta.changes > 0;
}

/** Of one account, or of the operator. */
export async function findWebhook(
  books: D1Database,
  account: string | null,
  id: string,
): Promise<WebhookRow | undefined> {
  const stored = await books
    .prepare(`select ${COLUMNS} from webhooks where id = ?1 and account is ?2`)
    .bind(id, account)
    .first<Stored>();
  return stored ? rowOf(stored) : undefined;
}

/** One that is to be tried now; undefined: it has a pause after its last try. */
export async function takeTurn(books: D1Database, id: string, nowMs: number): Promise<WebhookRow | undefined> {
  const { results } = await books
    .prepare(
      `update webhooks set tried_ms = ?2, failing_since_ms = iif(tried_ms < ?2 - ${FORGOTTEN_MS}, null, failing_since_ms)
       where id = ?1 and disabled_ms is null and coalesce(tried_ms, 0) <= ?2 - pause_ms returning ${COLUMNS}`,
    )
    .bind(id, nowMs)
    .all<Stored>();
  return results[0] && rowOf(results[0]);
}

export async function listWebhooks(
  books: D1Database,
  account: string | null,
  page: PageRequest,
): Promise<Page<WebhookRow>> {
  const { results } = await books
    .prepare(`select ${COLUMNS} from webhooks where account is ?1 and id > ?2 order by id limit ?3`)
    .bind(account, page.cursor ?? "", page.limit + 1)
    .all<Stored>();
  return cutPage(results.map(rowOf), page, ({ id }) => id);
}

interface Changes {
  readonly url?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly enabled?: boolean | undefined;
}

/** A webhook that is enabled, or gets another URL, starts over: it counts as not failing. */
export async function amendWebhook(books: D1Database, id: string, changes: Changes, nowMs: number): Promise<void> {
  const { url = null, events, enabled } = changes;
  const statements = [
    books
      .prepare(
        `update webhooks set url = coalesce(?2, url), events = coalesce(?3, events),
           failing_since_ms = iif(coalesce(?2, url) = url, failing_since_ms, null) where id = ?1`,
      )
      .bind(id, url, events ? JSON.stringify(events) : null),
  ];
  if (enabled === true) {
    statements.push(
      books
        .prepare("update webhooks set disabled_ms = null, disabled_why = null, failing_since_ms = null where id = ?1")
        .bind(id),
    );
  }
  if (enabled === false) statements.push(...disable(books, id, "owner", nowMs));
  await books.batch(statements);
}

/** Keeps the secret before this one until `oldUntilMs`. */
export async function rotateWebhook(books: D1Database, id: string, secret: string, oldUntilMs: number): Promise<void> {
  await books
    .prepare("update webhooks set old_secret = secret, old_until_ms = ?3, secret = ?2 where id = ?1")
    .bind(id, secret, oldUntilMs)
    .run();
}

export async function removeWebhook(books: D1Database, id: string): Promise<void> {
  await books.batch([
    books.prepare("delete from webhooks where id = ?1").bind(id),
    books.prepare("delete from webhook_deliveries where webhook = ?1").bind(id),
  ]);
}

/** Its pending deliveries fail: they can be sent again one by one. */
export const disable = (books: D1Database, id: string, why: DisabledWhy, nowMs: number): D1PreparedStatement[] => [
  books
    .prepare("update webhooks set disabled_ms = ?2, disabled_why = ?3 where id = ?1 and disabled_ms is null")
    .bind(id, nowMs, why),
  books
    .prepare(
      "update webhook_deliveries set state = 'failed', problem = 'disabled' where webhook = ?1 and state = 'pending'",
    )
    .bind(id),
];

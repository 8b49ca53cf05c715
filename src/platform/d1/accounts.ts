/**
 * The list of accounts in the operator's books: number, id and name. Everything else about an account is in its object.
 *
 * An account is created in three steps, each repeatable: its row here (which assigns the number), its object, its
 * opening balance. `opened_ms` is set last. A row without it is an unfinished creation: it is not listed, and it is
 * continued when the same id is created again.
 */

import type { Page, PageRequest } from "../../core/account/tenant.ts";
import { type AccountId, type AccountNumber, asId } from "../../core/ids.ts";
import { withoutNames } from "./changes.ts";
import { cutPage } from "./cut-page.ts";

export interface AccountRow {
  readonly number: AccountNumber;
  readonly id: AccountId;
  readonly name: string;
  readonly opened: boolean;
  readonly deleted: boolean;
}

interface Stored {
  number: number;
  id: string;
  name: string;
  opened_ms: number | null;
  deleted_ms: number | null;
}

const COLUMNS = "number, id, name, opened_ms, deleted_ms";

const accountOf = (stored: Stored): AccountRow => ({
  number: asId<AccountNumber>(stored.number),
  id: asId<AccountId>(stored.id),
  name: stored.name,
  opened: stored.opened_ms !== null,
  deleted: stored.deleted_ms !== null,
});

/**
 * Inserts a new account's row, or returns the row that already has this id. Without an id it becomes `acct_<number>`.
 * `madeBy`: the idempotent call that makes it.
 */
export async function enterAccount(
  books: D1Database,
  id: string | undefined,
  name: string,
  nowMs: number,
  madeBy: string | null = null,
): Promise<AccountRow> {
  const interim = id ?? `new ${crypto.randomUUID()}`;
  const insert = books
    .prepare(
      `insert into accounts (id, name, created_ms, made_by) values (?1, ?2, ?3, ?4)
       on conflict (id) do update set made_by = excluded.made_by where opened_ms is null`,
    )
    .bind(interim, name, nowMs, madeBy);
  const naming = id === undefined ? "id = 'acct_' || number" : "id = id";
  const give = books.prepare(`update accounts set ${naming} where id = ?1 returning ${COLUMNS}`).bind(interim);
  const [, given] = await books.batch<Stored>([insert, give]);
  const stored = given?.results[0];
  if (!stored) throw new Error("the books gave no row for a new account");
  return accountOf(stored);
}

/** The account that this idempotent call made or began to make. */
export async function accountMadeBy(books: D1Database, madeBy: string): Promise<AccountRow | undefined> {
  const stored = await books.prepare(`select ${COLUMNS} from accounts where made_by = ?1`).bind(madeBy).first<Stored>();
  return stored ? accountOf(stored) : undefined;
}

export async function markOpened(books: D1Database, account: AccountRow, name: string, nowMs: number): Promise<void> {
  await books
    .prepare("update accounts set opened_ms = coalesce(opened_ms, ?2), name = ?3 where number = ?1")
    .bind(account.number, nowMs, name)
    .run();
}

export async function renameAccount(books: D1Database, account: AccountRow, name: string): Promise<void> {
  await books.prepare("update accounts set name = ?2 where number = ?1").bind(account.number, name).run();
}

const CHANGES_WITHOUT_NAMES = `
  update changes set actor_name = iif(actor_kind = 'key', actor, actor_name),
    before = ${withoutNames("before")}, after = ${withoutNames("after")}
  where account = ?1`;
/** The name of a key or of what was rented becomes its id. */
const ALERTS_WITHOUT_NAMES = `
  update alerts set data = json_replace(data, '$.name', cast(coalesce(data ->> '$.key', data ->> '$.id', '') as text))
  where account = ?1`;

/**
 * Marks an account deleted, takes its name and those of its keys and teams out, also of the log of changes and of
 * alerts, and removes its own aliases and instances from routing and its webhooks, in one transaction. Its prices and
 * usage stay as history. Returns true if routing changed.
 */
export async function markDeleted(books: D1Database, account: AccountRow, nowMs: number): Promise<boolean> {
  const [aliases, instances, templates] = await books.batch([
    books.prepare("delete from aliases where account = ?1").bind(account.id),
    books.prepare("delete from instances where account = ?1").bind(account.id),
    books.prepare("delete from compute_templates where account = ?1").bind(account.id),
    books
      .prepare("update accounts set deleted_ms = coalesce(deleted_ms, ?2), name = id where number = ?1")
      .bind(account.number, nowMs),
    books.prepare("update key_index set name = key where account = ?1").bind(account.id),
    books.prepare("update team_index set name = team where account = ?1").bind(account.id),
    books.prepare(CHANGES_WITHOUT_NAMES).bind(account.id),
    books.prepare(ALERTS_WITHOUT_NAMES).bind(account.id),
    books
      .prepare("delete from webhook_deliveries where webhook in (select id from webhooks where account = ?1)")
      .bind(account.id),
    books.prepare("delete from webhooks where account = ?1").bind(account.id),
  ]);
  return [aliases, instances, templates].some((removed) => (removed?.meta.changes ?? 0) > 0);
}

/** Includes deleted accounts; undefined if no account with this id was ever opened. */
export async function findAccount(books: D1Database, id: string): Promise<AccountRow | undefined> {
  const stored = await books
    .prepare(`select ${COLUMNS} from accounts where id = ?1 and opened_ms is not null`)
    .bind(id)
    .first<Stored>();
  return stored ? accountOf(stored) : undefined;
}

/** The same by its number, which stands in its keys. */
export async function accountByNumber(books: D1Database, number: AccountNumber): Promise<AccountRow | undefined> {
  const stored = await books
    .prepare(`select ${COLUMNS} from accounts where number = ?1 and opened_ms is not null`)
    .bind(number)
    .first<Stored>();
  return stored ? accountOf(stored) : undefined;
}

/** Live accounts by number, and those that were deleted at this time or later, if it is given. */
export async function listAccounts(
  books: D1Database,
  page: PageRequest,
  deletedSinceMs?: number,
): Promise<Page<AccountRow>> {
  const { results } = await books
    .prepare(
      `select ${COLUMNS} from accounts where number > ?1 and opened_ms is not null
       and (deleted_ms is null or deleted_ms >= ?3) order by number limit ?2`,
    )
    .bind(Number(page.cursor ?? 0), page.limit + 1, deletedSinceMs ?? null)
    .all<Stored>();
  return cutPage(results.map(accountOf), page, (account) => String(account.number));
}

/**
 * An index of all accounts' keys and teams: id, account, name, and the last four characters of each secret of a key. It
 * finds and names; what a key may do, and whether it lives, only the account's object says.
 *
 * The row of a new secret is written before the key, so that none is missing when the Worker ends in between; a row
 * whose key never came shows nothing, since the object does not know it.
 */
import type { AccountService } from "../../core/account/account-service.ts";
import { type AccountNumber, asId } from "../../core/ids.ts";

export interface IndexedKey {
  readonly account: string;
  readonly key: string;
  readonly lastFour: string;
  readonly name: string;
}

const PUT_KEYS = `
  insert into key_index (account, key, last_four, name)
  select ?1, value ->> 0, value ->> 1, value ->> 2 from json_each(?2) where true`;
const PUT_TEAMS = `
  insert into team_index (account, team, name) select ?1, value ->> 0, value ->> 1 from json_each(?2) where true
  on conflict (account, team) do update set name = excluded.name where name <> excluded.name`;
const RENAME = "on conflict (account, key, last_four) do update set name = excluded.name where name <> excluded.name";

/** Returns false if the row was there: then it is not this change's. `name` null: that of its other rows. */
export async function enterKey(books: D1Database, row: Omit<IndexedKey, "name"> & { name: string | null }) {
  const { meta } = await books
    .prepare(
      `insert into key_index (account, key, last_four, name)
       values (?1, ?2, ?3, coalesce(?4, (select name from key_index where account = ?1 and key = ?2 limit 1), ''))
       on conflict do nothing`,
    )
    .bind(row.account, row.key, row.lastFour, row.name)
    .run();
  return meta.changes > 0;
}

export async function dropKey(books: D1Database, { account, key, lastFour }: Omit<IndexedKey, "name">): Promise<void> {
  await books
    .prepare("delete from key_index where account = ?1 and key = ?2 and last_four = ?3")
    .bind(account, key, lastFour)
    .run();
}

/** Names a key as it is named now, also one that is not indexed yet. */
export async function nameKey(books: D1Database, { account, key, lastFour, name }: IndexedKey): Promise<void> {
  await books.batch([
    books.prepare(`${PUT_KEYS} ${RENAME}`).bind(account, JSON.stringify([[key, lastFour, name]])),
    books
      .prepare("update key_index set name = ?3 where account = ?1 and key = ?2 and name <> ?3")
      .bind(account, key, name),
  ]);
}

export async function nameTeam(books: D1Database, account: string, team: string, name: string): Promise<void> {
  await books
    .prepare(PUT_TEAMS)
    .bind(account, JSON.stringify([[team, name]]))
    .run();
}

type Stored = { account: string; number: number; account_name: string; key: string };

export interface FoundKey {
  readonly account: string;
  readonly number: AccountNumber;
  readonly accountName: string;
  readonly key: string;
}

const FOUND = `select key_index.account, accounts.number, accounts.name as account_name, key_index.key
  from key_index join accounts on accounts.id = key_index.account`;

const foundOf = ({ account, number, account_name, key }: Stored): FoundKey => ({
  account,
  number: asId<AccountNumber>(number),
  accountName: account_name,
  key,
});

/** Keys with a secret of these last four characters, also one that was rotated away; at most `most`. */
export async function keysByLastFour(books: D1Database, lastFour: string, most: number): Promise<FoundKey[]> {
  const { results } = await books
    .prepare(`${FOUND} where last_four = ?1 order by accounts.number, key_index.key limit ?2`)
    .bind(lastFour, most)
    .all<Stored>();
  return results.map(foundOf);
}

/** The account of a key's id. */
export async function keyById(books: D1Database, key: string): Promise<FoundKey | undefined> {
  const stored = await books.prepare(`${FOUND} where key_index.key = ?1 limit 1`).bind(key).first<Stored>();
  return stored ? foundOf(stored) : undefined;
}

type Listed = Pick<AccountService, "keys" | "teams">;
const PAGE = 500;

/**
 * Indexes keys and teams that were there before the index, once: `most` pages of accounts' keys in this run. Returns
 * how many were read.
 */
export async function indexOlder(
  books: D1Database,
  object: (number: AccountNumber) => Listed,
  most: number,
): Promise<number> {
  for (let read = 0; read < most; read++) {
    const next = await books
      .prepare(
        `select accounts.number, accounts.id, cursor from index_progress join accounts on accounts.number > account_number
         where opened_ms is not null order by accounts.number limit 1`,
      )
      .first<{ number: number; id: string; cursor: string | null }>();
    if (!next) return read;
    const account = object(asId<AccountNumber>(next.number));
    const page = await account.keys({ cursor: next.cursor, limit: PAGE });
    const teams = next.cursor === null ? await account.teams({ cursor: null, limit: PAGE }) : undefined;
    const cursor = page?.nextCursor ?? null;
    await books.batch([
      books
        .prepare(`${PUT_KEYS} ${RENAME}`)
        .bind(next.id, JSON.stringify((page?.data ?? []).map(({ id, lastFour, name }) => [id, lastFour, name]))),
      books.prepare(PUT_TEAMS).bind(next.id, JSON.stringify((teams?.data ?? []).map(({ id, name }) => [id, name]))),
      books
        .prepare("update index_progress set account_number = iif(?2 is null, ?1, ?1 - 1), cursor = ?2")
        .bind(next.number, cursor),
    ]);
  }
  return most;
}
/** Names of ids in a report. */
interface Names {
  readonly account: ReadonlyMap<string, string>;
  readonly team: ReadonlyMap<string, string>;
  readonly key: ReadonlyMap<string, string>;
}

/** `ids`: those that a report shows; at most some thousand of each. */
export async function namesOf(
  books: D1Database,
  ids: { readonly [What in keyof Names]: readonly string[] },
): Promise<Names> {
  const queries = {
    account: "select id, name from accounts where id in (select value from json_each(?1))",
    team: "select team as id, name from team_index where team in (select value from json_each(?1))",
    key: "select key as id, name from key_index where key in (select value from json_each(?1))",
  } as const;
  const read = async (what: keyof Names) => {
    if (ids[what].length === 0) return new Map<string, string>();
    const { results } = await books
      .prepare(queries[what])
      .bind(JSON.stringify([...new Set(ids[what])]))
      .all<{ id: string; name: string }>();
    return new Map(results.map(({ id, name }) => [id, name]));
  };
  const [account, team, key] = await Promise.all([read("account"), read("team"), read("key")]);
  return { account, team, key };
}

/**
 * The log of changes in the books. Rows are added and get their outcome once. What operators changed stays; of what
 * tenants' keys changed, the newest rows of each account stay for a time, so that no tenant can fill the books.
 */

import type { JsonObject } from "../../core/account/change-record.ts";
import { CHANGES_KEPT } from "../../core/account/change-record.ts";
import type { Page, PageRequest } from "../../core/account/tenant.ts";
import { cutPage } from "./cut-page.ts";

/** Who made a change: an operator, or an owner's or admin's key. */
export interface ChangeActor {
  readonly kind: "operator" | "key";
  readonly id: string;
  readonly name: string;
}

/** A change that is about to be made. */
export interface NewChange {
  readonly atMs: number;
  readonly actor: ChangeActor;
  readonly account: string | null;
  /** The route's id, like `updateKey`. */
  readonly action: string;
  /** The path of the request. */
  readonly target: string;
  /** The fields of the body, also those whose values are secret. */
  readonly fields: readonly string[];
}

/**
 * `unknown`: the change was begun and never answered; it may have been made. `partly`: it was refused after a part of
 * it was made.
 */
export interface Change extends NewChange {
  readonly id: number;
  readonly outcome: "done" | "partly" | "unknown";
  readonly before: JsonObject | null;
  readonly after: JsonObject | null;
}

export interface ChangeFilter {
  readonly account?: string | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  readonly fromMs?: number | undefined;
  readonly toMs?: number | undefined;
  /** Actions to leave out. */
  readonly except: readonly string[];
}

interface Stored {
  id: number;
  at_ms: number;
  actor_kind: ChangeActor["kind"];
  actor: string;
  actor_name: string;
  account: string | null;
  action: string;
  target: string;
  fields: string;
  outcome: Change["outcome"];
  before: string | null;
  after: string | null;
}

const DAY_MS = 24 * 60 * 60_000;

/**
 * Writes a change that is about to be made; returns its id. Null if it is a key's, and `mostOfKeys` changes by keys of
 * its account stand in the last 24 h.
 */
export async function beginChange(books: D1Database, change: NewChange, mostOfKeys: number): Promise<number | null> {
  const { actor, account, action, target, fields, atMs } = change;
  const { meta } = await books
    .prepare(
      `insert into changes (at_ms, actor_kind, actor, actor_name, account, action, target, fields, outcome)
       select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'unknown' where ?2 = 'operator' or
         (select count(*) from changes where account = ?5 and actor_kind = 'key' and at_ms > ?9) < ?10`,
    )
    .bind(
      atMs,
      actor.kind,
      actor.id,
      actor.name,
      account,
      action,
      target,
      JSON.stringify(fields),
      atMs - DAY_MS,
      mostOfKeys,
    )
    .run();
  return meta.changes > 0 ? meta.last_row_id : null;
}

/** SQL for one side of a change, with nothing in it that names somebody. */
export const withoutNames = (value: string): string =>
  `json_remove(${value}, '$.name', '$.metadata', '$.user', '$.note')`;

/**
 * Of an account that is deleted, no name is kept: neither by its deletion's own row nor by a change that ends after it.
 */
const side = (value: string): string =>
  `iif(exists (select 1 from accounts where id = coalesce(changes.account, ?4) and deleted_ms is not null),
    ${withoutNames(value)}, ${value})`;

/** `account`: whose it turned out to be, where the request did not say. */
export async function changeDone(
  books: D1Database,
  id: number,
  { before, after, account, outcome }: Pick<Change, "before" | "after" | "account" | "outcome">,
): Promise<void> {
  await books
    .prepare(
      `update changes set outcome = ?5, before = ${side("?2")}, after = ${side("?3")}, account = coalesce(account, ?4)
       where id = ?1`,
    )
    .bind(id, before && JSON.stringify(before), after && JSON.stringify(after), account, outcome)
    .run();
}

/** The call was refused: nothing was changed, so nothing is to be told. */
export async function changeRefused(books: D1Database, id: number): Promise<void> {
  await books.prepare("delete from changes where id = ?1 and outcome = 'unknown'").bind(id).run();
}

/** The most rows that one call deletes. */
const DELETED_AT_ONCE = 500;

/** Drops the oldest rows of an account's keys beyond those that are kept. */
export async function pruneChangesOf(books: D1Database, account: string, kept = CHANGES_KEPT): Promise<void> {
  await books
    .prepare(
      `delete from changes where id in (select id from changes where account = ?1 and actor_kind = 'key'
         order by at_ms desc, id desc limit ?3 offset ?2)`,
    )
    .bind(account, kept, DELETED_AT_ONCE)
    .run();
}

/** Drops rows of keys from before `beforeMs`. */
export async function pruneChanges(books: D1Database, beforeMs: number, limit: number): Promise<void> {
  await books
    .prepare(
      `delete from changes where id in
         (select id from changes where at_ms < ?1 and actor_kind = 'key' order by at_ms limit ?2)`,
    )
    .bind(beforeMs, limit)
    .run();
}

/** Newest first. */
export async function listChanges(books: D1Database, page: PageRequest, filter: ChangeFilter): Promise<Page<Change>> {
  const { results } = await books
    .prepare(
      `select * from changes
       where id < ?1 and (?2 is null or account = ?2) and (?3 is null or actor = ?3) and (?4 is null or action = ?4)
         and at_ms >= ?5 and at_ms < ?6 and action not in (select value from json_each(?7))
       order by id desc limit ?8`,
    )
    .bind(
      Number(page.cursor ?? Number.MAX_SAFE_INTEGER),
      filter.account ?? null,
      filter.actor ?? null,
      filter.action ?? null,
      filter.fromMs ?? 0,
      filter.toMs ?? Number.MAX_SAFE_INTEGER,
      JSON.stringify(filter.except),
      page.limit + 1,
    )
    .all<Stored>();
  return cutPage(results.map(changeOf), page, ({ id }) => String(id));
}

const changeOf = (stored: Stored): Change => ({
  id: stored.id,
  atMs: stored.at_ms,
  actor: { kind: stored.actor_kind, id: stored.actor, name: stored.actor_name },
  account: stored.account,
  action: stored.action,
  target: stored.target,
  fields: JSON.parse(stored.fields) as string[],
  outcome: stored.outcome,
  before: stored.before === null ? null : (JSON.parse(stored.before) as JsonObject),
  after: stored.after === null ? null : (JSON.parse(stored.after) as JsonObject),
});

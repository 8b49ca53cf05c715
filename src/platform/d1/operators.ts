/** Operators in the books: named tokens with a role. A revoked one keeps its row, since the log of changes names it. */

import type { Operator, OperatorRole } from "../../core/account/operators.ts";
import type { Page, PageRequest } from "../../core/account/tenant.ts";
import { cutPage } from "./cut-page.ts";

export interface OperatorRow extends Operator {
  readonly lastFour: string;
  readonly createdMs: number;
  /** To the minute. */
  readonly lastUsedMs: number | null;
  readonly revokedMs: number | null;
}

interface Stored {
  id: string;
  name: string;
  role: OperatorRole;
  last_four: string;
  created_ms: number;
  last_used_ms: number | null;
  revoked_ms: number | null;
}

const COLUMNS = "id, name, role, last_four, created_ms, last_used_ms, revoked_ms";
/** How exactly the last use is kept. */
const USED_EVERY_MS = 60_000;

const operatorOf = (stored: Stored): OperatorRow => ({
  id: stored.id,
  name: stored.name,
  role: stored.role,
  lastFour: stored.last_four,
  createdMs: stored.created_ms,
  lastUsedMs: stored.last_used_ms,
  revokedMs: stored.revoked_ms,
});

/** False if there are as many live ones as there may be, or one of this id. */
export async function addOperator(
  books: D1Database,
  { id, name, role, lastFour, createdMs }: OperatorRow,
  digest: string,
  most: number,
): Promise<boolean> {
  const { meta } = await books
    .prepare(
      `insert into operators (id, name, role, digest, last_four, created_ms)
       select ?1, ?2, ?3, ?4, ?5, ?6 where (select count(*) from operators where revoked_ms is null) < ?7
       on conflict (id) do nothing`,
    )
    .bind(id, name, role, digest, lastFour, createdMs, most)
    .run();
  return meta.changes > 0;
}

/** The live operator of this token. */
export async function operatorByDigest(books: D1Database, digest: string): Promise<OperatorRow | undefined> {
  const stored = await books
    .prepare(`select ${COLUMNS} from operators where digest = ?1 and revoked_ms is null`)
    .bind(digest)
    .first<Stored>();
  return stored ? operatorOf(stored) : undefined;
}

export async function findOperator(books: D1Database, id: string): Promise<OperatorRow | undefined> {
  const stored = await books.prepare(`select ${COLUMNS} from operators where id = ?1`).bind(id).first<Stored>();
  return stored ? operatorOf(stored) : undefined;
}

/** Live and revoked ones, by id. */
export async function listOperators(books: D1Database, page: PageRequest): Promise<Page<OperatorRow>> {
  const { results } = await books
    .prepare(`select ${COLUMNS} from operators where id > ?1 order by id limit ?2`)
    .bind(page.cursor ?? "", page.limit + 1)
    .all<Stored>();
  return cutPage(results.map(operatorOf), page, (row) => row.id);
}

/** Changes a live operator; absent fields stay. False if there is none. */
export async function amendOperator(
  books: D1Database,
  id: string,
  { name, role }: { readonly name?: string | undefined; readonly role?: OperatorRole | undefined },
): Promise<boolean> {
  const { meta } = await books
    .prepare(
      "update operators set name = coalesce(?2, name), role = coalesce(?3, role) where id = ?1 and revoked_ms is null",
    )
    .bind(id, name ?? null, role ?? null)
    .run();
  return meta.changes > 0;
}

/** False if it is not live. */
export async function revokeOperator(books: D1Database, id: string, nowMs: number): Promise<boolean> {
  const { meta } = await books
    .prepare("update operators set revoked_ms = ?2 where id = ?1 and revoked_ms is null")
    .bind(id, nowMs)
    .run();
  return meta.changes > 0;
}

/** Notes that the token was used now; a use within a minute of the last noted one is not written. */
export async function noteOperatorUse(books: D1Database, row: OperatorRow, nowMs: number): Promise<void> {
  if (row.lastUsedMs !== null && nowMs - row.lastUsedMs < USED_EVERY_MS) return;
  await books.prepare("update operators set last_used_ms = ?2 where id = ?1").bind(row.id, nowMs).run();
}

/** POSTs of the operator and of self-service that carry an `Idempotency-Key`: one row each, for 24 h. */
import { IDEMPOTENCY_KEPT_MS } from "../../core/account/idempotency.ts";

/** How long an attempt may work before another one takes its place, ms: then it is taken for crashed. */
const CLAIMED_MS = 60_000;

/** One attempt at a call. `ref` and `body`: HMACs. `made`, `attempt`: random names, `made` for what the call makes. */
export interface Attempt {
  readonly ref: string;
  readonly body: string;
  readonly made: string;
  readonly attempt: string;
  readonly nowMs: number;
}

/** A call that this attempt carries out. `made`: the name that the first attempt chose. */
export interface Claim {
  readonly ref: string;
  readonly attempt: string;
  readonly made: string;
  /** False: an attempt before it may have done something. */
  readonly first: boolean;
}

export type Claimed =
  | { readonly kind: "mine"; readonly claim: Claim }
  | { readonly kind: "other_body" }
  | { readonly kind: "running" }
  /** `reply` is null where it was too long to keep. */
  | { readonly kind: "answered"; readonly made: string; readonly status: number; readonly reply: string | null };

interface Stored {
  body: string;
  made: string;
  claimed_by: string | null;
  attempts: number;
  status: number | null;
  reply: string | null;
}

export async function claimCall(books: D1Database, { ref, body, made, attempt, nowMs }: Attempt): Promise<Claimed> {
  const [, , , read] = await books.batch<Stored>([
    books
      .prepare("delete from idempotent_calls where ref = ?1 and begun_ms <= ?2")
      .bind(ref, nowMs - IDEMPOTENCY_KEPT_MS),
    books
      .prepare(
        `insert into idempotent_calls (ref, body, made, begun_ms, claimed_until_ms, attempts) values (?1, ?2, ?3, ?4, 0, 0)
         on conflict (ref) do nothing`,
      )
      .bind(ref, body, made, nowMs),
    books
      .prepare(
        `update idempotent_calls set claimed_by = ?3, claimed_until_ms = ?4, attempts = attempts + 1
         where ref = ?1 and body = ?2 and status is null and claimed_until_ms <= ?5`,
      )
      .bind(ref, body, attempt, nowMs + CLAIMED_MS, nowMs),
    books
      .prepare("select body, made, claimed_by, attempts, status, reply from idempotent_calls where ref = ?1")
      .bind(ref),
  ]);
  const row = read?.results[0];
  if (!row) throw new Error("the books gave no row for an idempotency key");
  if (row.body !== body) return { kind: "other_body" };
  if (row.status !== null) return { kind: "answered", made: row.made, status: row.status, reply: row.reply };
  if (row.claimed_by !== attempt) return { kind: "running" };
  return { kind: "mine", claim: { ref, attempt, made: row.made, first: row.attempts === 1 } };
}

export async function callAnswered(
  books: D1Database,
  { ref, made }: Claim,
  status: number,
  reply: string | null,
): Promise<void> {
  await books
    .prepare("update idempotent_calls set status = ?3, reply = ?4 where ref = ?1 and made = ?2 and status is null")
    .bind(ref, made, status, reply)
    .run();
}

/** Nothing was done: the idempotency key is free again. */
export async function forgetCall(books: D1Database, { ref, attempt }: Claim): Promise<void> {
  await books
    .prepare("delete from idempotent_calls where ref = ?1 and claimed_by = ?2 and status is null")
    .bind(ref, attempt)
    .run();
}

/** It is not known what was done: the next attempt finds out. */
export async function releaseCall(books: D1Database, { ref, attempt }: Claim): Promise<void> {
  await books
    .prepare("update idempotent_calls set claimed_until_ms = 0 where ref = ?1 and claimed_by = ?2 and status is null")
    .bind(ref, attempt)
    .run();
}

/** Deletes at most `limit` rows that are no longer honoured. */
export async function pruneCalls(books: D1Database, nowMs: number, limit: number): Promise<void> {
  await books
    .prepare(
      "delete from idempotent_calls where ref in (select ref from idempotent_calls where begun_ms <= ?1 limit ?2)",
    )
    .bind(nowMs - IDEMPOTENCY_KEPT_MS, limit)
    .run();
}

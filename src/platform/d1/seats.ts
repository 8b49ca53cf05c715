/** Seats in the operator's books: on which upstream an account's compute lives. An upstream seats one, unless shared. */

import type { AccountId } from "../../core/ids.ts";

export type SeatOutcome = { kind: "taken" } | { kind: "occupied"; by: string } | { kind: "unknown_upstream" };

/** Gives the account its seat, and takes the one that it had. Its resources have to be gone from there. */
export async function takeSeat(
  books: D1Database,
  account: AccountId,
  upstream: string,
  nowMs: number,
): Promise<SeatOutcome> {
  const [row] = (
    await books
      .prepare(
        `insert into seats (account, upstream, taken_ms)
         select ?1, id, ?3 from upstreams where id = ?2
           and (shared = 1 or not exists (select 1 from seats where upstream = ?2 and account <> ?1))
         on conflict (account) do update set upstream = excluded.upstream, taken_ms = excluded.taken_ms
         returning account`,
      )
      .bind(account, upstream, nowMs)
      .all<{ account: string }>()
  ).results;
  if (row) return { kind: "taken" };
  const [other] = await seatsOf(books, upstream);
  return other === undefined ? { kind: "unknown_upstream" } : { kind: "occupied", by: other };
}

export async function leaveSeat(books: D1Database, account: AccountId): Promise<void> {
  await books.prepare("delete from seats where account = ?1").bind(account).run();
}

/** The accounts on an upstream. */
async function seatsOf(books: D1Database, upstream: string): Promise<AccountId[]> {
  const { results } = await books
    .prepare("select account from seats where upstream = ?1 order by account")
    .bind(upstream)
    .all<{ account: AccountId }>();
  return results.map(({ account }) => account);
}

/** Upstreams that seat an account. */
export async function seatedUpstreams(books: D1Database): Promise<string[]> {
  const { results } = await books
    .prepare("select distinct upstream from seats order by upstream")
    .all<{ upstream: string }>();
  return results.map(({ upstream }) => upstream);
}

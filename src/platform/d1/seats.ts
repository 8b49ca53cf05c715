/**
 * Seats in the operator's books: on which upstream an account's compute lives. An upstream seats one, unless shared.
 *
 * The account's object knows its seat, and these rows keep others out of it. So a move first reserves the new seat
 * (`seat_moves`), then the object takes it, then the old one is given up: whatever breaks off in between, the seat that
 * the object has is kept for it.
 */

import type { AccountId, AccountNumber } from "../../core/ids.ts";

export type SeatOutcome =
  | { kind: "taken" }
  | { kind: "occupied"; by: string }
  | { kind: "unknown_upstream" }
  /** Another call moves this account now. */
  | { kind: "moving"; to: string };

/** A reservation of this age was left behind by a call that broke off, ms. */
const LEFT_BEHIND_MS = 60_000;

/** As a table: those that have a seat at an upstream, or are being moved there. */
export const TAKEN = "(select account, upstream from seats union select account, upstream from seat_moves)";
/** Whether account ?1 may have a seat at the upstream ?2, of which this is a condition. */
const MAY_SIT = `id = ?2 and (shared = 1 or not exists (select 1 from ${TAKEN} where upstream = ?2 and account <> ?1))`;

/** Gives a new account its seat. */
export async function takeSeat(
  books: D1Database,
  account: AccountId,
  upstream: string,
  nowMs: number,
): Promise<SeatOutcome> {
  const [row] = (
    await books
      .prepare(
        `insert into seats (account, upstream, taken_ms) select ?1, id, ?3 from upstreams where ${MAY_SIT}
         on conflict (account) do update set upstream = excluded.upstream, taken_ms = excluded.taken_ms
         returning account`,
      )
      .bind(account, upstream, nowMs)
      .all<{ account: string }>()
  ).results;
  return row ? { kind: "taken" } : whyNot(books, account, upstream);
}

/** Reserves another seat for an account. `token` names the call that moves it. */
export async function reserveSeat(
  books: D1Database,
  account: AccountId,
  upstream: string,
  token: string,
  nowMs: number,
): Promise<SeatOutcome> {
  const [row] = (
    await books
      .prepare(
        `insert into seat_moves (account, upstream, token, since_ms) select ?1, id, ?3, ?4 from upstreams where ${MAY_SIT}
         on conflict (account) do update set upstream = excluded.upstream, token = excluded.token,
           since_ms = excluded.since_ms where abs(?4 - seat_moves.since_ms) >= ${LEFT_BEHIND_MS}
         returning account`,
      )
      .bind(account, upstream, token, nowMs)
      .all<{ account: string }>()
  ).results;
  return row ? { kind: "taken" } : whyNot(books, account, upstream);
}

async function whyNot(books: D1Database, account: AccountId, upstream: string): Promise<SeatOutcome> {
  const other = (await seatsAt(books, upstream)).find((one) => one.account !== account);
  const [known, moving] = await books.batch<{ found: string }>([
    books.prepare("select id as found from upstreams where id = ?1 and shared = 0").bind(upstream),
    books.prepare("select upstream as found from seat_moves where account = ?1").bind(account),
  ]);
  if (other && known?.results[0]) return { kind: "occupied", by: other.account };
  const [move] = moving?.results ?? [];
  return move ? { kind: "moving", to: move.found } : { kind: "unknown_upstream" };
}

/** The account's object has this seat: what was reserved of it becomes the seat. Repeats change nothing. */
export async function settleSeat(
  books: D1Database,
  account: AccountId,
  upstream: string,
  nowMs: number,
): Promise<void> {
  await books.batch([
    books
      .prepare(
        `insert into seats (account, upstream, taken_ms)
         select account, upstream, ?3 from seat_moves where account = ?1 and upstream = ?2
         on conflict (account) do update set upstream = excluded.upstream, taken_ms = excluded.taken_ms`,
      )
      .bind(account, upstream, nowMs),
    books.prepare("delete from seat_moves where account = ?1 and upstream = ?2").bind(account, upstream),
  ]);
}

/** The call gives its reservation up. */
export async function cancelMove(books: D1Database, account: AccountId, token: string): Promise<void> {
  await books.prepare("delete from seat_moves where account = ?1 and token = ?2").bind(account, token).run();
}

export async function leaveSeat(books: D1Database, account: AccountId): Promise<void> {
  await books.prepare("delete from seats where account = ?1").bind(account).run();
}

/** A deleted account gives up its seat, and the one that it was being moved to. */
export async function forgetSeats(books: D1Database, account: AccountId): Promise<void> {
  await books.batch([
    books.prepare("delete from seats where account = ?1").bind(account),
    books.prepare("delete from seat_moves where account = ?1").bind(account),
  ]);
}

/** The accounts that have a seat at an upstream, or are being moved there. */
export async function seatsAt(
  books: D1Database,
  upstream: string,
): Promise<{ account: AccountId; number: AccountNumber }[]> {
  const { results } = await books
    .prepare(
      `select taken.account, accounts.number from ${TAKEN} as taken join accounts on accounts.id = taken.account
       where taken.upstream = ?1 order by accounts.number`,
    )
    .bind(upstream)
    .all<{ account: AccountId; number: AccountNumber }>();
  return results;
}

/** Upstreams that seat an account. */
export async function seatedUpstreams(books: D1Database): Promise<string[]> {
  const { results } = await books
    .prepare(`select distinct upstream from ${TAKEN} order by upstream`)
    .all<{ upstream: string }>();
  return results.map(({ upstream }) => upstream);
}

/** The tries at one upstream that the calls of the last minutes report, read from their records. */
import type { ReportedTry } from "../../core/routing/upstream-report.ts";
import type { KnownState, StateChange, TryCount } from "../../core/routing/upstream-watch.ts";

/** Calls looked at, the newest: at a high rate they cover less time than was asked for. */
const MOST_CALLS = 20_000;
/** Tries in an answer. */
const MOST_TRIES = 10_000;

interface Stored {
  model: string;
  result: string;
  ms: number;
  call_id: string;
  at_ms: number;
  first_byte_ms: number | null;
}

/** Newest first. */
export async function triesAt(books: D1Database, upstream: string, fromMs: number): Promise<readonly ReportedTry[]> {
  const { results } = await books
    .prepare(
      `with calls as (select event_id, ended_ms, first_byte_ms, detail from usage_events
         where ended_ms >= ?2 and detail is not null and late = 0 order by ended_ms desc limit ?3)
       select json_extract(tried.value, '$.model') as model, json_extract(tried.value, '$.result') as result,
         json_extract(tried.value, '$.ms') as ms, calls.event_id as call_id, calls.ended_ms as at_ms,
         iif(json_extract(tried.value, '$.result') = 'answered', calls.first_byte_ms, null) as first_byte_ms
       from calls, json_each(calls.detail, '$.tries') as tried
       where json_extract(tried.value, '$.upstream') = ?1
       order by calls.ended_ms desc, tried.key desc limit ?4`,
    )
    .bind(upstream, fromMs, MOST_CALLS, MOST_TRIES)
    .all<Stored>();
  return results.map((row) => ({
    model: row.model,
    result: row.result,
    ms: row.ms,
    callId: row.call_id,
    atMs: row.at_ms,
    firstByteMs: row.first_byte_ms,
  }));
}

/** How the tries at all targets ended. */
export async function countTries(books: D1Database, fromMs: number): Promise<readonly TryCount[]> {
  const { results } = await books
    .prepare(
      `with calls as (select detail from usage_events
         where ended_ms >= ?1 and detail is not null and late = 0 order by ended_ms desc limit ?2)
       select json_extract(tried.value, '$.upstream') as upstream, json_extract(tried.value, '$.model') as model,
         json_extract(tried.value, '$.result') as result, count(*) as tries
       from calls, json_each(calls.detail, '$.tries') as tried group by 1, 2, 3`,
    )
    .bind(fromMs, MOST_CALLS)
    .all<TryCount>();
  return results;
}

export async function knownStates(books: D1Database): Promise<readonly KnownState[]> {
  const { results } = await books
    .prepare("select upstream, state, since_ms as sinceMs from upstream_states")
    .all<KnownState>();
  return results;
}

export const noteState = (books: D1Database, { upstream, state, holds }: StateChange, nowMs: number) =>
  holds
    ? books
        .prepare("insert into upstream_states values (?1, ?2, ?3) on conflict do nothing")
        .bind(upstream, state, nowMs)
    : books.prepare("delete from upstream_states where upstream = ?1 and state = ?2").bind(upstream, state);

/**
 * Accounts that a call in flight may be of: those with calls lately, at most `most`, and whether these are all live
 * ones.
 */
export async function busyAccounts(
  books: D1Database,
  fromMs: number,
  most: number,
): Promise<{ readonly numbers: readonly number[]; readonly all: boolean }> {
  const live = await books
    .prepare(
      `select number from accounts where opened_ms is not null and deleted_ms is null
       order by exists (select 1 from usage_events where account = accounts.id and ended_ms >= ?1) desc, number desc
       limit ?2`,
    )
    .bind(fromMs, most + 1)
    .all<{ number: number }>();
  const numbers = live.results.map(({ number }) => number);
  return { numbers: numbers.slice(0, most), all: numbers.length <= most };
}

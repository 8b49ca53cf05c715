/**
 * Hourly sums of usage events, and the deletion of old raw events.
 *
 * An hour is summed once it has been over for `GRACE_MS`, always whole and from its raw events. An hour that gets an
 * event after that is summed again. Nothing is ever added to a sum, so sums are right however often and in whatever
 * order events come. Raw events are deleted only when every hour up to then is summed and none is late.
 */
import { sumDayAgain } from "./usage-days.ts";
import { HOUR_MS } from "./usage-events.ts";
import { floorTo, GROUPS, QUANTITIES, SUMS, type Summed, sumClosed } from "./usage-sums.ts";

/** Generous time for a call's end to reach D1. Later ones are late events; they are not lost. */
export const GRACE_MS = 10 * 60_000;

/** Columns of an hour's row after its time. */
export const HOUR_COLUMNS = [GROUPS, "calls", "errors", ...QUANTITIES].join(", ");
/**
 * A late event corrects its call's first event, which reported an expiry. It is not counted as a call, and it may take
 * an error back.
 */
const CALL = "1 - late";
const ERROR = "(outcome not in ('completed', 'client_gone')) - late";
/** The same columns made of one raw event. */
export const EVENT_AS_HOUR = [GROUPS, `${CALL} as calls`, `${ERROR} as errors`, ...QUANTITIES].join(", ");

const SUM_HOUR = `
  insert into usage_hours (hour_ms, ${HOUR_COLUMNS})
  select ?1, ${GROUPS}, sum(${CALL}), sum(${ERROR}), ${SUMS}
  from usage_events where ended_ms >= ?1 and ended_ms < ?1 + ${HOUR_MS} group by ${GROUPS}`;

/** Statements that sum one hour again. */
const sumHour = (books: D1Database, hourMs: number): D1PreparedStatement[] => [
  books.prepare("delete from usage_hours where hour_ms = ?1").bind(hourMs),
  books.prepare(SUM_HOUR).bind(hourMs),
  books.prepare("delete from usage_late_hours where hour_ms = ?1").bind(hourMs),
  ...sumDayAgain(books, hourMs),
];

/** Sums at most `most` hours: late ones first, then those that have closed. Returns how many. */
export async function sumHours(books: D1Database, nowMs: number, most: number): Promise<number> {
  const late = await books
    .prepare("select hour_ms from usage_late_hours order by hour_ms limit ?1")
    .bind(most)
    .all<{ hour_ms: number }>();
  for (const { hour_ms: hourMs } of late.results) await books.batch(sumHour(books, hourMs));
  const summed = late.results.length;
  const closedUntilMs = floorHour(nowMs - GRACE_MS);
  return summed + (await sumClosed(books, HOURS, closedUntilMs, most - summed));
}

const HOURS: Summed = {
  lengthMs: HOUR_MS,
  from: { table: "usage_events", time: "ended_ms" },
  progress: "summed_until_ms",
  sum: sumHour,
};

export const floorHour = (ms: number): number => floorTo(ms, HOUR_MS);

/**
 * Deletes raw events that ended before `beforeMs`, at most `most` in this run. `archives`: only what the archive has.
 * Returns how many.
 */
export async function deleteOldUsage(
  books: D1Database,
  beforeMs: number,
  most: number,
  archives = false,
): Promise<number> {
  const [, removed] = await books.batch([
    books
      .prepare(
        `update usage_progress set kept_from_ms = max(kept_from_ms, ?1) where summed_until_ms >= ?1
         and not exists (select 1 from usage_late_hours where hour_ms < ?1)${archives ? " and archived_until_ms >= ?1" : ""}`,
      )
      .bind(floorHour(beforeMs)),
    books
      .prepare(
        `delete from usage_events where rowid in (
           select rowid from usage_events where ended_ms < (select kept_from_ms from usage_progress) limit ?1)`,
      )
      .bind(most),
  ]);
  return removed?.meta.changes ?? 0;
}

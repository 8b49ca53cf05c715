/**
 * Daily sums of the hourly ones, so that a report over a year reads some hundred rows a group instead of thousands.
 *
 * A day is summed once all its hours are, always whole and from their sums. Whenever one of its hours is summed again,
 * the day is summed again in the same transaction, so a day here always equals the sum of its hours.
 */
import { HOUR_MS } from "./usage-events.ts";
import { floorTo, GROUPS, QUANTITIES, SUMS, type Summed, sumClosed } from "./usage-sums.ts";

export const DAY_MS = 24 * HOUR_MS;
export const floorDay = (ms: number): number => floorTo(ms, DAY_MS);

const SUM_DAY = `
  insert into usage_days (day_ms, ${GROUPS}, calls, errors, ${QUANTITIES.join(", ")})
  select ?1, ${GROUPS}, sum(calls), sum(errors), ${SUMS}
  from usage_hours where hour_ms >= ?1 and hour_ms < ?1 + ${DAY_MS} group by ${GROUPS}`;

/** Statements that sum an hour's day again, if it was summed before. */
export function sumDayAgain(books: D1Database, hourMs: number): D1PreparedStatement[] {
  const wasSummed = "?1 < (select days_summed_until_ms from usage_progress)";
  const again = SUM_DAY.replace(" group by", ` and ${wasSummed} group by`);
  return [
    books.prepare(`delete from usage_days where day_ms = ?1 and ${wasSummed}`).bind(floorDay(hourMs)),
    books.prepare(again).bind(floorDay(hourMs)),
  ];
}

/** Sums at most `most` days whose hours are all summed. Returns how many. */
export async function sumDays(books: D1Database, most: number): Promise<number> {
  const summedUntilMs = await books
    .prepare("select summed_until_ms from usage_progress")
    .first<number>("summed_until_ms");
  return sumClosed(books, DAYS, floorDay(summedUntilMs ?? 0), most);
}

const DAYS: Summed = {
  lengthMs: DAY_MS,
  from: { table: "usage_hours", time: "hour_ms" },
  progress: "days_summed_until_ms",
  sum: (books, dayMs) => [
    books.prepare("delete from usage_days where day_ms = ?1").bind(dayMs),
    books.prepare(SUM_DAY).bind(dayMs),
  ],
};

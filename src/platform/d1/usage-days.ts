/**
 * Daily sums of the hourly ones, so that a report over a year reads some hundred rows a group instead of thousands.
 *
 * A day is summed once all its hours are, always whole and from their sums. Whenever one of its hours is summed again,
 * the day is summed again in the same transaction, so a day here always equals the sum of its hours.
 */
import { HOUR_MS } from "./usage-events.ts";
import { GROUPS, QUANTITIES } from "./usage-sums.ts";

export const DAY_MS = 24 * HOUR_MS;
export const floorDay = (ms: number): number => ms - (ms % DAY_MS);

const SUM_DAY = `
  insert into usage_days (day_ms, ${GROUPS}, calls, errors, ${QUANTITIES.join(", ")})
  select ?1, ${GROUPS}, sum(calls), sum(errors), ${QUANTITIES.map((column) => `sum(${column})`).join(", ")}
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
  const closedUntilMs = floorDay(summedUntilMs ?? 0);
  for (let summed = 0; ; summed++) {
    const first = await books
      .prepare(
        `select min(hour_ms) as first from usage_hours
         where hour_ms >= (select days_summed_until_ms from usage_progress) and hour_ms < ?1`,
      )
      .bind(closedUntilMs)
      .first<number | null>("first");
    const dayMs = first === null ? undefined : floorDay(first);
    if (dayMs !== undefined && summed === most) return summed;
    const advance = books
      .prepare("update usage_progress set days_summed_until_ms = max(days_summed_until_ms, ?1)")
      .bind(dayMs === undefined ? closedUntilMs : dayMs + DAY_MS);
    if (dayMs === undefined) {
      await advance.run();
      return summed;
    }
    const clear = books.prepare("delete from usage_days where day_ms = ?1").bind(dayMs);
    await books.batch([clear, books.prepare(SUM_DAY).bind(dayMs), advance]);
  }
}

/** What hourly and daily sums have in common: their columns, and the way from one closed period to the next. */
import { UNIT_COLUMNS } from "./usage-events.ts";

/** What reports can be grouped by, in every hour's rows. */
export const GROUPS = "account, team, key, model, alias, upstream, region, endpoint, status, reason, country";
export const QUANTITIES = [
  "latency_ms",
  ...Object.values(UNIT_COLUMNS),
  "price_nano_usd",
  "cost_nano_usd",
  "overrun_nano_usd",
  "loss_nano_usd",
  "low_input",
];
/** Each column, summed. */
export const SUMS = QUANTITIES.map((column) => `sum(${column})`).join(", ");

/** Periods of one length that are summed in order. The names are columns and a table. */
export interface Summed {
  readonly lengthMs: number;
  readonly from: { readonly table: string; readonly time: string };
  /** Of `usage_progress`: everything before it is summed. */
  readonly progress: string;
  /** Statements that sum one period. */
  sum(books: D1Database, startMs: number): readonly D1PreparedStatement[];
}

/** The start of the period that a time is in. */
export const floorTo = (ms: number, lengthMs: number): number => ms - (ms % lengthMs);

/** Sums at most `most` closed periods, oldest first. Returns how many. */
export async function sumClosed(books: D1Database, of: Summed, closedUntilMs: number, most: number): Promise<number> {
  const { from, progress, lengthMs } = of;
  for (let summed = 0; summed < most; summed++) {
    const first = await books
      .prepare(
        `select min(${from.time}) as first from ${from.table}
         where ${from.time} >= (select ${progress} from usage_progress) and ${from.time} < ?1`,
      )
      .bind(closedUntilMs)
      .first<number | null>("first");
    const startMs = first === null ? undefined : floorTo(first, lengthMs);
    const advance = books
      .prepare(`update usage_progress set ${progress} = max(${progress}, ?1)`)
      .bind(startMs === undefined ? closedUntilMs : startMs + lengthMs);
    // In one transaction, so an event either comes before the sum and is included, or after it and marks its hour as
    // late.
    await books.batch(startMs === undefined ? [advance] : [...of.sum(books, startMs), advance]);
    if (startMs === undefined) return summed;
  }
  return most;
}

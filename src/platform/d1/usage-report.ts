/**
 * Usage reports: sums by any grouping over any range. Closed days and hours are read from their sums, the rest from raw
 * events, all in one statement, so that each event counts once even while hours are being summed. Money is summed in
 * SQLite's 64-bit integers and returned as text, so it is exact beyond 2^53 too.
 */
import { UNIT_NAMES, type Unit } from "../../core/pricing/usage.ts";
import { DAY_MS, floorDay } from "./usage-days.ts";
import { HOUR_MS, UNIT_COLUMNS } from "./usage-events.ts";
import { EVENT_AS_HOUR, floorHour, HOUR_COLUMNS } from "./usage-hours.ts";

export const USAGE_GROUPS = [
  "account",
  "team",
  "key",
  "model",
  "alias",
  "upstream",
  "region",
  "endpoint",
  "status",
  "reason",
  "country",
  "day",
  "hour",
] as const;
export type UsageGroup = (typeof USAGE_GROUPS)[number];

export interface UsageQuery {
  /** Inclusive. */
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
  readonly groupBy: readonly UsageGroup[];
  /** This account's calls only. */
  readonly account: string | undefined;
  /** This team's calls only. */
  readonly team?: string | undefined;
  /** This key's calls only. */
  readonly key?: string | undefined;
  /** The most first; by the groups where absent or alike. */
  readonly orderBy?: UsageOrder | undefined;
  readonly limit: number;
  readonly offset: number;
}

/** What rows can be sorted by, the most first. */
const ORDERS = {
  calls: "sum(calls)",
  errors: "sum(errors)",
  price_usd: "sum(price_nano_usd)",
  cost_usd: "sum(cost_nano_usd)",
  margin_usd: "sum(price_nano_usd) - sum(cost_nano_usd)",
  overrun_usd: "sum(overrun_nano_usd)",
  loss_usd: "sum(loss_nano_usd)",
  latency_ms: "sum(latency_ms) * 1.0 / max(1, sum(calls))",
  input_tokens: "sum(input_tokens)",
  output_tokens: "sum(output_tokens)",
  hour: "max(hour_ms)",
} as const;
export type UsageOrder = keyof typeof ORDERS;
export const USAGE_ORDERS = Object.keys(ORDERS) as readonly UsageOrder[];

export interface UsageRow {
  /** In the order asked for; `day` and `hour` are start times in ms. */
  readonly groups: readonly (string | number | null)[];
  readonly calls: number;
  readonly errors: number;
  readonly latencyMs: number;
  /** As metered: seconds in ms. */
  readonly usage: { readonly [U in Unit]: number };
  readonly priceNanoUsd: bigint;
  readonly costNanoUsd: bigint;
  readonly overrunNanoUsd: bigint;
  readonly lossNanoUsd: bigint;
  /** Calls whose upstream reported far less input than was sent. */
  readonly lowInput: number;
}

const GROUP_EXPRESSIONS: { readonly [G in UsageGroup]: string } = {
  account: "account",
  team: "team",
  key: "key",
  model: "model",
  alias: "alias",
  upstream: "upstream",
  region: "region",
  endpoint: "endpoint",
  status: "status",
  reason: "reason",
  country: "country",
  day: `hour_ms - hour_ms % ${DAY_MS}`,
  hour: "hour_ms",
};

const MONEY = ["price_nano_usd", "cost_nano_usd", "overrun_nano_usd", "loss_nano_usd"] as const;

const SUMMED_UNTIL = "min(?4, (select summed_until_ms from usage_progress))";
const DAYS_UNTIL = "max(?10, min(?11, (select days_summed_until_ms from usage_progress)))";
const LATE_DAYS = `select distinct hour_ms - hour_ms % ${DAY_MS} as late_day_ms from usage_late_hours`;
const HOURS = `select hour_ms, ${HOUR_COLUMNS} from usage_hours`;
const NOT_LATE = "hour_ms not in (select hour_ms from usage_late_hours)";
const RAW = `select ended_ms - ended_ms % ${HOUR_MS} as hour_ms, ${EVENT_AS_HOUR} from usage_events`;

/**
 * Every call of the range once, by hour or day. Parameters: ?1 from, ?2 to, ?3 start of the first full hour, ?4 end of
 * the last one, ?10 and ?11 the same for days (equal if days cannot be used). A day with a late hour is read by its
 * hours. `whose` is a SQL condition; it is part of the text so that an account's calls are found by their index.
 */
const source = (whose: string): string => {
  const summed = [
    `select day_ms as hour_ms, ${HOUR_COLUMNS} from usage_days
     where day_ms >= ?10 and day_ms < ${DAYS_UNTIL} and day_ms not in (${LATE_DAYS}) ${whose}`,
    `${HOURS} where hour_ms >= ?3 and hour_ms < min(?10, ${SUMMED_UNTIL}) and ${NOT_LATE} ${whose}`,
    `${HOURS} where hour_ms >= max(?3, ${DAYS_UNTIL}) and hour_ms < ${SUMMED_UNTIL} and ${NOT_LATE} ${whose}`,
    `select hour_ms, ${HOUR_COLUMNS} from (${LATE_DAYS}) cross join usage_hours
     where late_day_ms >= ?10 and late_day_ms < ${DAYS_UNTIL}
       and hour_ms >= late_day_ms and hour_ms < late_day_ms + ${DAY_MS} and ${NOT_LATE} ${whose}`,
  ];
  const raw = [
    `${RAW} where ended_ms >= ?1 and ended_ms < min(?2, ?3) ${whose}`,
    `${RAW} where ended_ms >= max(?3, ${SUMMED_UNTIL}) and ended_ms < ?2 ${whose}`,
    // The late hours come first in the join, so that each is one look-up in the index.
    `select hour_ms, ${EVENT_AS_HOUR} from usage_late_hours cross join usage_events
     where hour_ms >= ?3 and hour_ms < ${SUMMED_UNTIL}
       and ended_ms >= hour_ms and ended_ms < hour_ms + ${HOUR_MS} ${whose}`,
  ];
  // D1 allows at most five terms in one union.
  const all = (terms: readonly string[]) => terms.join(" union all ");
  return all([`select * from (${all(summed)})`, `select * from (${all(raw)})`]);
};

type Stored = Record<string, string | number | null>;

export async function reportUsage(books: D1Database, query: UsageQuery): Promise<UsageRow[]> {
  const groups = query.groupBy.map((group, index) => `${GROUP_EXPRESSIONS[group]} as group_${index}`);
  const positions = query.groupBy.map((_, index) => index + 1).join(", ");
  const order = query.orderBy === undefined ? "" : `${ORDERS[query.orderBy]} desc, `;
  const narrowed = [query.account, query.team, query.key];
  const whose = ["account = ?5", "team = ?6", "key = ?7"]
    .filter((_, index) => narrowed[index] !== undefined)
    .map((condition) => `and ${condition}`)
    .join(" ");
  const sums = [
    "sum(calls) as calls",
    "sum(errors) as errors",
    "sum(latency_ms) as latency_ms",
    "sum(low_input) as low_input",
    ...Object.values(UNIT_COLUMNS).map((column) => `sum(${column}) as ${column}`),
    ...MONEY.map((column) => `cast(sum(${column}) as text) as ${column}`),
  ];
  const { results } = await books
    .prepare(
      `select ${[...groups, ...sums].join(", ")} from (${source(whose)})
       ${positions && `group by ${positions} order by ${order}${positions}`} limit ?8 offset ?9`,
    )
    .bind(
      query.fromMs,
      query.toMs,
      floorHour(query.fromMs + HOUR_MS - 1),
      floorHour(query.toMs),
      ...narrowed.map((value) => value ?? null),
      query.limit,
      query.offset,
      ...daysOf(query),
    )
    .all<Stored>();
  return results.map((stored) => rowOf(stored, query.groupBy.length));
}

/** The full days of the range; none if single hours are asked for. */
function daysOf({ fromMs, toMs, groupBy }: UsageQuery): [firstMs: number, endMs: number] {
  const firstMs = groupBy.includes("hour") ? floorHour(fromMs + HOUR_MS - 1) : floorDay(fromMs + DAY_MS - 1);
  return [firstMs, groupBy.includes("hour") ? firstMs : Math.max(firstMs, floorDay(toMs))];
}

function rowOf(stored: Stored, groups: number): UsageRow {
  const number = (column: string) => Number(stored[column] ?? 0);
  const money = (column: (typeof MONEY)[number]) => BigInt(stored[column] ?? 0);
  const calls = number("calls");
  return {
    groups: Array.from({ length: groups }, (_, index) => stored[`group_${index}`] ?? null),
    calls,
    errors: number("errors"),
    latencyMs: calls === 0 ? 0 : Math.round(number("latency_ms") / calls),
    usage: Object.fromEntries(UNIT_NAMES.map((unit) => [unit, number(UNIT_COLUMNS[unit])])) as UsageRow["usage"],
    priceNanoUsd: money("price_nano_usd"),
    costNanoUsd: money("cost_nano_usd"),
    overrunNanoUsd: money("overrun_nano_usd"),
    lossNanoUsd: money("loss_nano_usd"),
    lowInput: number("low_input"),
  };
}

/** Before this time only full hours can be reported. */
export async function rawUsageKeptFrom(books: D1Database): Promise<number> {
  return (await books.prepare("select kept_from_ms from usage_progress").first<number>("kept_from_ms")) ?? 0;
}

/**
 * How long calls and tries took, in the buckets of src/core/histogram.ts. The consumer counts each event in the
 * transaction that writes it, so an event that comes twice counts once.
 *
 * A row of `histograms` is one period, by `span_ms`: a minute, an hour, a day, or 0 for all that was ever counted
 * (`start_ms` 0). Minutes become hours after six hours, and hours become days after 35; the rows of 0 only grow, so
 * they are what counters of `/metrics` read. `b0` to `b11` are how many fell into each bucket, `sum_ms` is the sum of
 * all.
 *
 * | measure | of | upstream, model | result |
 * | ------------ | ---------------------------------------------------- | ------------------------------- |
 * --------------- |
 * | `latency` | each call that was admitted, from start to end | that served ('': none), as sold | '' |
 * | `first_byte` | each of them with a first byte, from start to it | the same | '' |
 * | `try` | each try at a target, until its answer began, or was | that was tried, as named there | `answered`, |
 * | | whole where it is not streamed | | `status_503`... |
 *
 * Corrections of calls and the periods of rentals count in none.
 */
import type { UsageEvent } from "../../core/account/hold.ts";
import { BUCKETS, bucketOf, type Histogram } from "../../core/histogram.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
export const EVER = 0;

type Measure = "latency" | "first_byte" | "try";

const NAMES = Array.from({ length: BUCKETS }, (_, bucket) => `b${bucket}`);
const COLUMNS = ["span_ms", "start_ms", "measure", "upstream", "model", "result", ...NAMES, "sum_ms"].join(", ");
const SUMMED = [...NAMES, "sum_ms"];
const ADD = `on conflict (span_ms, start_ms, measure, upstream, model, result) do update set
  ${SUMMED.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`;

/** Observations of an event: its id, when it ended, and what was observed. */
type Observation = readonly [
  id: string,
  endedAtMs: number,
  measure: Measure,
  upstream: string,
  model: string,
  result: string,
  bucket: number,
  ms: number,
];

const [ID, ENDED, MEASURE, UPSTREAM, MODEL, RESULT, BUCKET, MS] = Array.from(
  { length: 8 },
  (_, index) => `value ->> ${index}`,
);

/** Those of events that are not written yet; it goes before the statement that writes them. */
const COUNT = `
  with seen (ended_ms, measure, upstream, model, result, bucket, ms) as materialized (
    select ${[ENDED, MEASURE, UPSTREAM, MODEL, RESULT, BUCKET, MS].join(", ")} from json_each(?1)
    where ${ENDED} >= (select kept_from_ms from usage_progress)
      and not exists (select 1 from usage_events where event_id = ${ID}))
  insert into histograms (${COLUMNS})
  select span.value, iif(span.value = 0, 0, ended_ms - ended_ms % ${MINUTE_MS}), measure, upstream, model, result,
    ${NAMES.map((_, bucket) => `sum(bucket = ${bucket})`).join(", ")}, sum(ms)
  from seen cross join json_each('[${MINUTE_MS}, ${EVER}]') as span where true
  group by 1, 2, measure, upstream, model, result ${ADD}`;

/** Counts the events of one message; none if there is nothing to count. */
export function countDurations(books: D1Database, events: readonly UsageEvent[]): readonly D1PreparedStatement[] {
  const once = new Map(events.map((event) => [event.eventId, event]));
  const observations = [...once.values()].flatMap(observationsOf);
  return observations.length === 0 ? [] : [books.prepare(COUNT).bind(JSON.stringify(observations))];
}

function observationsOf(event: UsageEvent): Observation[] {
  if (event.late || event.endpoint.startsWith("compute.")) return [];
  const { eventId, endedAtMs, upstream, model, latencyMs, firstByteMs, detail } = event;
  const one = (measure: Measure, at: string, of: string, result: string, took: number): Observation => {
    const ms = Math.max(0, Math.round(took));
    return [eventId, endedAtMs, measure, at, of, result, bucketOf(ms), ms];
  };
  // Details are stored as they come; what is no try counts in nothing.
  const tries = (Array.isArray(detail?.tries) ? detail.tries : []).filter(
    (tried) => Number.isFinite(tried?.ms) && [tried.upstream, tried.model, tried.result].every(isText),
  );
  return [
    one("latency", upstream ?? "", model, "", latencyMs),
    ...(firstByteMs === null ? [] : [one("first_byte", upstream ?? "", model, "", firstByteMs)]),
    ...tries.map((tried) => one("try", tried.upstream, tried.model, tried.result, tried.ms)),
  ];
}

const isText = (value: unknown): boolean => typeof value === "string";

/** The buckets of a row. */
export const histogramOf = (row: Readonly<Record<string, unknown>>): Histogram =>
  NAMES.map((name) => Number(row[name]));

/** What durations can be grouped by. */
type DurationGroup = "upstream" | "model" | "day" | "hour";

const GROUP_EXPRESSIONS: { readonly [G in DurationGroup]: string } = {
  upstream: "nullif(upstream, '')",
  model: "model",
  day: `start_ms - start_ms % ${DAY_MS}`,
  hour: `start_ms - start_ms % ${HOUR_MS}`,
};

export interface Durations {
  /** In the order asked for. */
  readonly groups: readonly (string | number | null)[];
  readonly measure: Measure;
  readonly histogram: Histogram;
}

/** Of the periods that begin in a range, calls' measures alone. Days are left out where hours are asked for. */
export async function readDurations(
  books: D1Database,
  { fromMs, toMs, groupBy }: { fromMs: number; toMs: number; groupBy: readonly DurationGroup[] },
): Promise<Durations[]> {
  const spans = [MINUTE_MS, HOUR_MS, ...(groupBy.includes("hour") ? [] : [DAY_MS])];
  const rows = spans.map(
    (span) => `select * from histograms where span_ms = ${span} and start_ms >= ?1 and start_ms < ?2`,
  );
  const groups = groupBy.map((group, index) => `${GROUP_EXPRESSIONS[group]} as group_${index}`);
  const { results } = await books
    .prepare(
      `select ${[...groups, "measure", ...NAMES.map((name) => `sum(${name}) as ${name}`)].join(", ")}
       from (${rows.join(" union all ")}) where measure in ('latency', 'first_byte')
       group by ${[...groupBy.map((_, index) => `group_${index}`), "measure"].join(", ")}`,
    )
    .bind(fromMs, toMs)
    .all<Record<string, string | number | null>>();
  return results.map((row) => ({
    groups: groupBy.map((_, index) => row[`group_${index}`] ?? null),
    measure: row.measure as Measure,
    histogram: histogramOf(row),
  }));
}

/** Rows of `from` that are older than `keptMs` become rows of `to`. */
const ROLL_UPS = [
  { from: MINUTE_MS, to: HOUR_MS, keptMs: 6 * HOUR_MS },
  { from: HOUR_MS, to: DAY_MS, keptMs: 35 * DAY_MS },
] as const;

/** Rolls at most `most` periods up. Returns how many. */
export async function rollUpDurations(books: D1Database, nowMs: number, most: number): Promise<number> {
  let rolled = 0;
  for (const { from, to, keptMs } of ROLL_UPS) {
    const beforeMs = nowMs - keptMs - ((nowMs - keptMs) % to);
    while (rolled < most) {
      const first = await books
        .prepare("select min(start_ms) as first from histograms where span_ms = ?1 and start_ms < ?2")
        .bind(from, beforeMs)
        .first<number | null>("first");
      if (first === null) break;
      const startMs = first - (first % to);
      await books.batch([
        books
          .prepare(
            `insert into histograms (${COLUMNS})
             select ${to}, ?1, measure, upstream, model, result, ${SUMMED.map((name) => `sum(${name})`).join(", ")}
             from histograms where span_ms = ${from} and start_ms >= ?1 and start_ms < ?1 + ${to}
             group by measure, upstream, model, result ${ADD}`,
          )
          .bind(startMs),
        books
          .prepare(`delete from histograms where span_ms = ${from} and start_ms >= ?1 and start_ms < ?1 + ${to}`)
          .bind(startMs),
      ]);
      rolled++;
    }
  }
  return rolled;
}

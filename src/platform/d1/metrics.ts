/**
 * Counters of `/metrics`: raised by the consumer in the transaction that writes the events, so that an event which
 * comes twice counts once. They only grow. What a later event takes back is a counter of its own: their difference is
 * what reports show. Durations and tries are in the histograms, in the rows of all time.
 */
import type { Gauges } from "../../core/account/hold.ts";
import { COUNTER_NAMES, type Counter, type Ever } from "../../core/metrics.ts";
import { EVER, histogramOf } from "./histograms.ts";

/** Names of models that exist; a label has no other. */
const KNOWN_MODEL = (name: string) =>
  `iif(exists (select 1 from models where model = ${name}) or exists (select 1 from aliases where alias = ${name}),
    ${name}, 'other')`;

const GAUGES: { readonly [Name in keyof Gauges]: true } = {
  open_holds: true,
  waiting_events: true,
  account_bytes: true,
};
const quoted = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(", ");
const GAUGE_NAMES = quoted(Object.keys(GAUGES));

/**
 * D1 takes few terms in a union. Goes before the statement that writes these events. Its rows carry the time before
 * which none are written.
 */
const COUNT = `
  with events (event) as materialized (select value from json_each(?1)),
  fresh as materialized (
    select json_extract(event, '$.endpoint') as endpoint, json_extract(event, '$.account') as account,
      ${KNOWN_MODEL("json_extract(event, '$.model')")} as model,
      json_extract(event, '$.status') / 100 as class, json_extract(event, '$.outcome') as outcome,
      coalesce(json_extract(event, '$.late'), 0) as late,
      coalesce(json_extract(event, '$.usage.input_tokens'), 0) as input,
      coalesce(json_extract(event, '$.usage.cached_input_tokens'), 0) as cached,
      coalesce(json_extract(event, '$.usage.output_tokens'), 0) as output,
      json_extract(event, '$.priceNanoUsd') as price, json_extract(event, '$.costNanoUsd') as cost,
      json_extract(event, '$.lossNanoUsd') as loss
    from events
    where json_extract(event, '$.endedAtMs') >= (select kept_from_ms from usage_progress)
      and not exists (select 1 from usage_events where event_id = json_extract(event, '$.eventId'))),
  amounts as (
    select kind.value as kind, fresh.*, case kind.value when 'calls' then 1 - late when 'input' then input
      when 'cached_input' then cached when 'output' then output when 'revenue' then price when 'cost' then cost
      else loss end as amount
    from fresh cross join json_each('["calls","input","cached_input","output","revenue","cost","loss"]') as kind),
  counted (name, labels, value) as (
    select case when kind in ('input', 'cached_input', 'output') then 'tokens' else kind end
        || iif(amount < 0, '_corrected', ''),
      case when kind = 'calls'
        then json_array(endpoint, model, iif(class between 1 and 5, class || 'xx', 'none'), outcome)
        when kind in ('revenue', 'cost', 'loss') then '[]' else json_array(model, kind) end, abs(amount)
    from amounts where amount <> 0
    union all select kind || '_of' || iif(amount < 0, '_corrected', ''), json_array(account), abs(amount)
    from amounts where amount <> 0 and kind in ('calls', 'revenue')
    union all select 'messages', '[]', 1
    union all select key, json_array(?3), value from json_each(?2))
  insert into metric_counters (name, labels, value)
  select name, labels, sum(value) from counted where true group by 1, 2
  on conflict (name, labels) do update set value = excluded.value + iif(name in (${GAUGE_NAMES}), 0, value)
  returning (select kept_from_ms from usage_progress) as kept_from_ms`;

/** `events`: JSON, of one account. */
export const countEvents = (
  books: D1Database,
  account: number,
  events: string,
  gauges: Partial<Gauges>,
): D1PreparedStatement => books.prepare(COUNT).bind(events, JSON.stringify(gauges), account);

/** Refusals of a batch that was not counted before; it goes before the statement that says that it was. */
export const countRefusals = (books: D1Database, batch: string, counts: string): D1PreparedStatement =>
  books
    .prepare(
      `insert into metric_counters (name, labels, value)
       select 'refusals', json_array(json_extract(value, '$.reason'), json_extract(value, '$.level')),
         sum(json_extract(value, '$.refusals'))
       from json_each(?2) where not exists (select 1 from refusal_batches where id = ?1) group by 2
       on conflict (name, labels) do update set value = value + excluded.value`,
    )
    .bind(batch, counts);

/** Rows read of each table: far more than a gateway has of names. */
const MOST_ROWS = 20_000;

/** Accounts that are named, where they are asked for. */
const MOST_ACCOUNTS = 100;
const OF_ALL = `select name, labels, value from metric_counters where name in (${quoted(COUNTER_NAMES.all)}) limit ?1`;
const OF_ACCOUNTS = `select name, labels, value from metric_counters where name in (${quoted(COUNTER_NAMES.accounts)})
  and labels in (select labels from metric_counters where name = 'revenue_of' order by value desc limit ${MOST_ACCOUNTS})
  limit ?1`;

/** `accounts`: with those that were charged most. */
export async function readMetrics(books: D1Database, accounts: boolean) {
  const [counters, ever, gauges, ofAccounts] = await books.batch<Record<string, string | number>>([
    books.prepare(OF_ALL).bind(MOST_ROWS),
    books.prepare(`select * from histograms where span_ms = ${EVER} and start_ms = 0 limit ?1`).bind(MOST_ROWS),
    books.prepare(`select name, sum(value) as value from metric_counters where name in (${GAUGE_NAMES}) group by name`),
    ...(accounts ? [books.prepare(OF_ACCOUNTS).bind(MOST_ROWS)] : []),
  ]);
  return {
    counters: [...(counters?.results ?? []), ...(ofAccounts?.results ?? [])].map(
      ({ name, labels, value }): Counter => ({
        name: String(name),
        labels: (JSON.parse(String(labels)) as unknown[]).map((label) => String(label ?? "")),
        value: Number(value),
      }),
    ),
    ever: (ever?.results ?? []).map(
      (row): Ever => ({
        measure: row.measure as Ever["measure"],
        upstream: String(row.upstream),
        model: String(row.model),
        result: String(row.result),
        histogram: histogramOf(row),
        sumMs: Number(row.sum_ms),
      }),
    ),
    gauges: Object.fromEntries((gauges?.results ?? []).map(({ name, value }) => [String(name), Number(value)])),
    booksBytes: gauges?.meta.size_after ?? 0,
  };
}

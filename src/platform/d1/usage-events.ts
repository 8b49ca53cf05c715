/**
 * Usage events in the operator's books, each written once, as the queue delivers them.
 *
 * A message's events are one JSON parameter, so one statement writes them all. An event that exists already is skipped:
 * its id is the call's. An event of an hour that was already summed marks that hour as late; reports then read its raw
 * events until it is summed again. An event older than the retention is not written, because it could not be told from
 * one that was deleted.
 */
import type { Gauges, UsageEvent } from "../../core/account/hold.ts";
import type { AccountNumber } from "../../core/ids.ts";
import type { Unit } from "../../core/pricing/usage.ts";
import { countDurations } from "./histograms.ts";
import { countEvents } from "./metrics.ts";

export const HOUR_MS = 3_600_000;

/** The column of each unit. Seconds are stored in milliseconds, as the name shows. */
export const UNIT_COLUMNS: { readonly [U in Unit]: string } = {
  input_tokens: "input_tokens",
  cached_input_tokens: "cached_input_tokens",
  output_tokens: "output_tokens",
  video_tokens_720p: "video_tokens_720p",
  video_tokens_1080p: "video_tokens_1080p",
  video_tokens_4k: "video_tokens_4k",
  video_tokens_720p_reference: "video_tokens_720p_reference",
  video_tokens_1080p_reference: "video_tokens_1080p_reference",
  video_tokens_4k_reference: "video_tokens_4k_reference",
  audio_seconds: "audio_ms",
  transcribed_seconds: "transcribed_ms",
  images: "images",
  requests: "requests",
  gpu_hours: "gpu_ms",
  interruptible_gpu_hours: "interruptible_gpu_ms",
  storage_gb_days: "storage_gb_days",
};

const PLAIN_COLUMNS: { readonly [Field in Exclude<keyof UsageEvent, "usage" | "late" | "lowInput">]: string } = {
  eventId: "event_id",
  account: "account",
  team: "team",
  key: "key",
  endpoint: "endpoint",
  model: "model",
  alias: "alias",
  upstream: "upstream",
  targetModel: "target_model",
  region: "region",
  outcome: "outcome",
  reason: "reason",
  status: "status",
  source: "source",
  priceNanoUsd: "price_nano_usd",
  costNanoUsd: "cost_nano_usd",
  overrunNanoUsd: "overrun_nano_usd",
  lossNanoUsd: "loss_nano_usd",
  priceRule: "price_rule",
  startedAtMs: "started_ms",
  endedAtMs: "ended_ms",
  latencyMs: "latency_ms",
  firstByteMs: "first_byte_ms",
  country: "country",
  detail: "detail",
};

const columns = [...Object.values(PLAIN_COLUMNS), "late", "low_input", ...Object.values(UNIT_COLUMNS)].join(", ");
const values = [
  ...Object.keys(PLAIN_COLUMNS).map((field) => `json_extract(event, '$.${field}')`),
  "coalesce(json_extract(event, '$.late'), 0)",
  "coalesce(json_extract(event, '$.lowInput'), 0)",
  ...Object.keys(UNIT_COLUMNS).map((unit) => `coalesce(json_extract(event, '$.usage.${unit}'), 0)`),
].join(", ");

/**
 * The events are taken out of the message once, into a materialized table. Without it SQLite writes each event out as
 * text anew for every column, which makes the insert four times as dear.
 */
const WRITE = `
  with events (event) as materialized (select value from json_each(?1))
  insert into usage_events (${columns}) select ${values} from events
  where json_extract(event, '$.endedAtMs') >= (select kept_from_ms from usage_progress)
  on conflict (event_id) do nothing`;

const MARK_LATE = `
  insert or ignore into usage_late_hours
  select value from json_each(?1)
  where value < (select summed_until_ms from usage_progress)
    and value >= (select kept_from_ms from usage_progress)`;

/**
 * An event of an hour that is archived already: the hour has to be looked at again before anything of it is deleted.
 */
const UNARCHIVE = `
  update usage_progress set archived_until_ms = (select min(value) from json_each(?1) where value >= kept_from_ms)
  where archived_until_ms > (select min(value) from json_each(?1) where value >= kept_from_ms)`;

/** Events of one account, as a message brings them. */
export interface UsageBatch {
  readonly account: AccountNumber;
  readonly events: readonly UsageEvent[];
  readonly gauges?: Gauges | undefined;
}

/** Writes all of these or none, in one transaction. Returns the time before which events are not written. */
export async function writeUsage(books: D1Database, batches: readonly UsageBatch[]): Promise<number> {
  const hours = new Set(
    batches.flatMap(({ events }) => events).map(({ endedAtMs }) => endedAtMs - (endedAtMs % HOUR_MS)),
  );
  const results = await books.batch<{ kept_from_ms: number }>([
    ...batches.flatMap(({ account, events, gauges = {} }) => {
      const text = JSON.stringify(events);
      return [
        countEvents(books, account, text, gauges),
        ...countDurations(books, events),
        books.prepare(WRITE).bind(text),
      ];
    }),
    books.prepare(MARK_LATE).bind(JSON.stringify([...hours])),
    books.prepare(UNARCHIVE).bind(JSON.stringify([...hours])),
  ]);
  return results[0]?.results[0]?.kept_from_ms ?? 0;
}

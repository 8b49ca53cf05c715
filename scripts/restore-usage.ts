/**
 * `node scripts/restore-usage.ts PART...`: SQL that puts the usage events of parts of the archive back into D1, with the
 * records of the parts and the rows of accounts that D1 may lack, and marks their hours so that the scheduled run sums
 * them anew. What is there already stays as it is, so the same SQL may run twice. See docs/restore.md.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readPart } from "../client/archive.ts";
import { HOUR_MS } from "../src/core/archive/part.ts";

const COLUMN = /^[a-z0-9_]{1,60}$/;

const quoted = (value: unknown): string => {
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
  return `'${(typeof value === "string" ? value : JSON.stringify(value)).replaceAll("'", "''")}'`;
};

type Part = ReturnType<typeof readPart> & { readonly bytes: Uint8Array };

/**
 * `columns`: those of `usage_events`. A line leaves out those that are zero, which must not be null, and those that are.
 * One part is in memory at a time.
 */
export function* restoringSql(files: Iterable<Uint8Array>, columns: readonly string[]): Generator<string> {
  const accounts = new Map<number, Set<number>>();
  for (const bytes of files) {
    const part = { bytes, ...readPart(bytes) };
    const { series, hour_ms, account } = part.footer;
    if (series !== "calls") throw new Error("This part has no calls.");
    accounts.set(hour_ms, (accounts.get(hour_ms) ?? new Set()).add(account));
    for (const line of part.lines) yield eventSql(line, columns);
    yield accountSql(part);
    yield recordSql(part);
  }
  for (const [hour, those] of accounts) yield* hourSql(hour, those);
  const first = Math.min(...accounts.keys());
  yield `update usage_progress set archived_until_ms = min(archived_until_ms, ${first}),
    kept_from_ms = min(kept_from_ms, ${first});`;
}

function eventSql(line: Part["lines"][number], columns: readonly string[]): string {
  const named = Object.entries(line).filter(([column]) => COLUMN.test(column) && columns.includes(column));
  const zeros = columns.filter((column) => !(column in line) && !NULLABLE.has(column));
  const names = [...named.map(([column]) => column), ...zeros].join(", ");
  const values = [...named.map(([, value]) => quoted(value)), ...zeros.map(() => "0")].join(", ");
  return `insert or ignore into usage_events (${names}) values (${values});`;
}

/** With its number and id, which the archive knows; its name is its id until somebody names it again. */
function accountSql({ footer, lines: [first] }: Part): string {
  const id = quoted(String(first?.account));
  return `insert or ignore into accounts (number, id, name, created_ms, opened_ms)
    values (${footer.account}, ${id}, ${id}, ${footer.hour_ms}, ${footer.hour_ms});`;
}

/** The record that docs/storage.md describes. The bucket's ETag of an object that was put whole is its MD5. */
function recordSql({ footer, lines, bytes }: Part): string {
  const blockBytes = footer.blocks.reduce((sum, length) => sum + length, 0);
  const digest = (name: string) => quoted(createHash(name).update(bytes).digest("hex"));
  const values = [
    ...[footer.account, footer.n, "'kept'", footer.hour_ms, 0, 0, 0, 0],
    ...[Math.max(...lines.map((line) => Number(line.ended_ms))), 0, lines.length],
    ...[lines.filter((line) => line.late === 1).length, footer.nano_usd, bytes.length, bytes.length - blockBytes],
    ...[quoted(footer.blocks), digest("sha256"), digest("md5")],
  ];
  return `insert or ignore into call_parts (account, n, state, hour_ms, from_row, through_row, after_ms, after_row,
      last_ms, last_row, lines, late, nano_usd, bytes, footer_bytes, blocks, sha256, etag) values (${values.join(", ")});`;
}

/**
 * All rows of the hour that are there now are in its parts: only later ones make a further part. It is summed again if
 * all calls are there that its sum counts, of each account; else the sum knows more than what came back.
 */
const hourSql = (hour: number, accounts: ReadonlySet<number>): readonly string[] => [
  `update call_parts set from_row = newest, through_row = newest, after_ms = 0, after_row = 0, last_row = newest
    from (select max(rowid) as newest from usage_events) where hour_ms = ${hour}
      and account in (${[...accounts].join(", ")}) and state = 'kept';`,
  `insert or ignore into usage_late_hours select ${hour} where not exists (
    select 1 from usage_hours as known where hour_ms = ${hour} group by account having sum(calls) > (
      select coalesce(sum(1 - late), 0) from usage_events where account = known.account
        and ended_ms >= ${hour} and ended_ms < ${hour + HOUR_MS}));`,
];

const NULLABLE = new Set("team alias upstream target_model region country reason first_byte_ms detail".split(" "));

/** The columns of the migrations, in any order. */
export const USAGE_COLUMNS = [
  ..."event_id account team key endpoint model alias upstream target_model region outcome reason status".split(" "),
  ..."source input_tokens cached_input_tokens output_tokens video_tokens_720p video_tokens_1080p".split(" "),
  ..."video_tokens_4k video_tokens_720p_reference video_tokens_1080p_reference video_tokens_4k_reference".split(" "),
  ..."audio_ms transcribed_ms images requests price_nano_usd cost_nano_usd overrun_nano_usd".split(" "),
  ..."loss_nano_usd price_rule started_ms ended_ms latency_ms first_byte_ms late low_input".split(" "),
  ..."gpu_ms interruptible_gpu_ms storage_gb_days country detail".split(" "),
];

function* contentsOf(files: readonly string[]): Generator<Uint8Array> {
  for (const file of files) yield readFileSync(file);
}

if (import.meta.main) {
  const files = process.argv.slice(2);
  if (files.length === 0) throw new Error("Name the files of parts.");
  for (const statement of restoringSql(contentsOf(files), USAGE_COLUMNS)) {
    if (!process.stdout.write(`${statement}\n`)) await once(process.stdout, "drain");
  }
}

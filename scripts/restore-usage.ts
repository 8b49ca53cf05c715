/**
 * `node scripts/restore-usage.ts PART...`: SQL that puts the usage events of parts of the archive back into D1, and
 * marks their hours so that the scheduled run sums them anew. An event that is there already counts once. See
 * docs/restore.md.
 */
import { readFileSync } from "node:fs";
import { readPart } from "../client/archive.ts";

const COLUMN = /^[a-z0-9_]{1,60}$/;

const quoted = (value: unknown): string => {
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
  return `'${(typeof value === "string" ? value : JSON.stringify(value)).replaceAll("'", "''")}'`;
};

/** Columns that a line leaves out where they are zero, and that must not be null. */
export function restoringSql(files: readonly Uint8Array[], columns: readonly string[]): string {
  const statements: string[] = [];
  const hours = new Set<number>();
  for (const file of files) {
    const { footer, lines } = readPart(file);
    if (footer.series !== "calls") throw new Error("This part has no calls.");
    hours.add(footer.hour_ms);
    for (const line of lines) {
      const named = Object.entries(line).filter(([column]) => COLUMN.test(column) && columns.includes(column));
      const zeros = columns.filter((column) => !(column in line) && !NULLABLE.has(column));
      const names = [...named.map(([column]) => column), ...zeros].join(", ");
      const values = [...named.map(([, value]) => quoted(value)), ...zeros.map(() => "0")].join(", ");
      statements.push(`insert or ignore into usage_events (${names}) values (${values});`);
    }
  }
  for (const hour of hours) statements.push(`insert or ignore into usage_late_hours values (${hour});`);
  const first = Math.min(...hours);
  statements.push(`update usage_progress set archived_until_ms = min(archived_until_ms, ${first});`);
  return `${statements.join("\n")}\n`;
}

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

if (import.meta.main) {
  const files = process.argv.slice(2);
  if (files.length === 0) throw new Error("Name the files of parts.");
  process.stdout.write(
    restoringSql(
      files.map((file) => readFileSync(file)),
      USAGE_COLUMNS,
    ),
  );
}

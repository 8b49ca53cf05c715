/**
 * Fills an account object's or the books' SQLite file with what years would: straight into the file, while nobody has
 * it open.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { KEY, LIMITS } from "./scale-driver.ts";

const DAY_MS = 86_400_000;

function databases(dir: string): string[] {
  const files = readdirSync(dir, { recursive: true, encoding: "utf8" });
  return files.filter((file) => file.endsWith(".sqlite")).map((file) => join(dir, file));
}

/** Opens the file in which this question has an answer, works on it in one transaction, and closes it. */
function within(dir: string, question: string, work: (database: DatabaseSync) => void): void {
  for (const file of databases(dir)) {
    const database = new DatabaseSync(file);
    try {
      if (!answers(database, question)) continue;
      database.exec("BEGIN");
      work(database);
      database.exec("COMMIT");
      database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      return;
    } finally {
      database.close();
    }
  }
  throw new Error(`no file below ${dir} answers: ${question}`);
}

function answers(database: DatabaseSync, question: string): boolean {
  try {
    return database.prepare(question).get() !== undefined;
  } catch {
    return false;
  }
}

const account = (number: number): string => `SELECT 1 FROM account WHERE number = ${number}`;
const series = (count: number): string =>
  `WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < ${count})`;

/** Keys `digest-1`, `digest-2`, ... spread over the teams, each with every limit. */
export function fillKeys(dir: string, number: number, keys: number, teams: number): void {
  const team = JSON.stringify({ name: "team", blocked: false, limits: LIMITS });
  const key = JSON.stringify({ ...KEY, team: "TEAM" });
  within(dir, account(number), (database) => {
    database.exec(
      `${series(teams)} INSERT INTO teams (id, fields, created_at_ms) SELECT 'team-' || n, '${team}', 0 FROM series`,
    );
    database.exec(`${series(keys)} INSERT INTO keys (id, last_four, fields, created_at_ms)
      SELECT 'key-' || n, 'last', replace('${key}', 'TEAM', 'team-' || (1 + n % ${teams})), 0 FROM series`);
    database.exec(
      `${series(keys)} INSERT INTO digests (digest, key_id) SELECT 'digest-' || n, 'key-' || n FROM series`,
    );
  });
}

/**
 * So many charges of a nano-USD over the year past, with the sums and marks that the object would have made of them.
 */
export function fillEntries(dir: string, number: number, entries: number, nowMs: number): void {
  const yearMs = 365 * DAY_MS;
  const atMs = `${nowMs - yearMs} + CAST(n * ${yearMs / entries} AS INTEGER)`;
  within(dir, account(number), (database) => {
    const last = database.prepare("SELECT id, balance_nano_usd AS balance FROM entries ORDER BY id DESC LIMIT 1").get();
    const { id, balance } = last as { id: number; balance: number };
    database.exec(`${series(entries)} INSERT INTO entries
      (id, kind, amount_nano_usd, balance_nano_usd, at_ms, call_id, model, key_id)
      SELECT ${id} + n, 'charge', -1, ${balance} - n, ${atMs}, 'call-' || n, 'bench', 'key-own' FROM series`);
    for (const subject of ["account", "key:key-own"]) {
      database.exec(`INSERT INTO spent_by_day (subject, day, spent_nano_usd) SELECT '${subject}', at_ms / 86400000, -sum(amount_nano_usd)
        FROM entries WHERE kind = 'charge' GROUP BY 2`);
    }
    database.exec(`UPDATE marks SET entries_through = ${id + entries}`);
  });
}

/** A year of hourly and daily sums: `rows` an hour, of `events` calls in all. */
export function fillHours(dir: string, events: number, rows: number, lastHourMs: number): void {
  const hours = 365 * 24;
  const calls = Math.round(events / hours / rows);
  within(dir, "SELECT 1 FROM usage_progress", (database) => {
    database.exec(`${series(hours * rows)} INSERT INTO usage_hours (hour_ms, account, team, key, model, alias,
        calls, errors, latency_ms, input_tokens, cached_input_tokens, output_tokens, video_tokens_720p,
        video_tokens_1080p, video_tokens_4k, video_tokens_720p_reference, video_tokens_1080p_reference,
        video_tokens_4k_reference, audio_ms, transcribed_ms, images, requests, price_nano_usd, cost_nano_usd,
        overrun_nano_usd, loss_nano_usd)
      SELECT ${lastHourMs} - (n / ${rows}) * 3600000, 'account-' || (n % 20), 'team-' || (n % 40), 'key-' || (n % ${rows}),
        'model-' || (n % 5), 'alias-' || (n % 5), ${calls}, 1, ${calls} * 900, ${calls} * 700, ${calls} * 100, ${calls} * 300,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ${calls} * 400000, ${calls} * 300000, 0, 0 FROM series`);
    const untilMs = lastHourMs + 3_600_000;
    const daysUntilMs = untilMs - (untilMs % DAY_MS);
    // What `sumDays` makes of them, in one go.
    const columns = database.prepare("SELECT name FROM pragma_table_info('usage_days')").all() as { name: string }[];
    const groups = [
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
    ];
    const quantities = columns.map(({ name }) => name).filter((name) => name !== "day_ms" && !groups.includes(name));
    database.exec(`INSERT INTO usage_days (day_ms, ${groups.join(", ")}, ${quantities.join(", ")})
      SELECT hour_ms - hour_ms % ${DAY_MS}, ${groups.join(", ")},
      ${quantities.map((name) => `sum(${name})`).join(", ")} FROM usage_hours WHERE hour_ms < ${daysUntilMs} GROUP BY 1, ${groups.join(", ")}`);
    database.exec(`UPDATE usage_progress SET summed_until_ms = ${untilMs}, days_summed_until_ms = ${daysUntilMs}`);
  });
}

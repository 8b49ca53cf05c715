/**
 * `node bench/bytes.ts`: what a call takes in each store, in bytes with its indexes, and the calls/s at which 10 GB are
 * full. Rows like those of chat calls go into the tables that the migrations make; the growth of the file is counted.
 * Prints the table of docs/storage.md.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const ROWS = 20_000;
const LIMIT_BYTES = 10_000_000_000;
const D1_RAW_BYTES = 5_000_000_000;
const DAY_S = 86_400;

const root = join(import.meta.dirname, "..");
const dir = mkdtempSync(join(tmpdir(), "tollgate-bytes-"));
const open = (name: string): DatabaseSync => new DatabaseSync(join(dir, name));
const series = `with recursive series (n) as (select 1 union all select n + 1 from series where n < ${ROWS})`;

function used(database: DatabaseSync): number {
  const value = (pragma: string) => Number(Object.values(database.prepare(`pragma ${pragma}`).get() ?? {})[0]);
  return (value("page_count") - value("freelist_count")) * value("page_size");
}

/** Bytes that one row of this insert adds. `columns` and `values` of `insert into table`. */
function bytesOf(database: DatabaseSync, table: string, row: Record<string, string>): number {
  const before = used(database);
  database.exec(
    `begin; ${series} insert into ${table} (${Object.keys(row).join(", ")}) select ${Object.values(row).join(", ")} from series; commit`,
  );
  return Math.round((used(database) - before) / ROWS);
}

const text = (value: unknown): string => `'${typeof value === "string" ? value : JSON.stringify(value)}'`;
/** As long as the real ones: UUIDs of calls, ids of keys. */
const CALL =
  "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(6)))";
const KEY = text("key_0123456789abcdefghij");
const AT = "1795000000000 + n * 10";
const PRICES = { input_tokens: 1_000_000_000, output_tokens: 2_000_000_000 };
const DETAIL = {
  ...{ stream: true, heldNanoUsd: 1_234_567, prices: PRICES, costs: PRICES, entry: 123_456 },
  tries: [{ upstream: "main-eu", model: "llama-3-70b", result: "answered", ms: 345 }],
};
const EVENT = {
  ...{ eventId: "01234567-89ab-cdef-0123-456789abcdef", account: "acme", team: null, key: "key_0123456789abcdefghij" },
  ...{
    endpoint: "chat.completions",
    model: "llama-3-70b",
    alias: "chat",
    upstream: "main-eu",
    targetModel: "llama-3-70b",
  },
  ...{ region: "eu-west-1", outcome: "completed", reason: null, status: 200, source: "exact", country: "DE" },
  ...{ usage: { input_tokens: 1_234, output_tokens: 345 }, priceNanoUsd: 1_924_000, costNanoUsd: 962_000 },
  ...{ overrunNanoUsd: 0, lossNanoUsd: 0, priceRule: "book:llama-3-70b", startedAtMs: 1_795_000_000_000 },
  ...{ endedAtMs: 1_795_000_001_234, latencyMs: 1_234, firstByteMs: 345, detail: DETAIL },
};
const COLUMN = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Figures of a full part of 50,000 lines, but for what its table adds. */
const PART = {
  ...{ lines: "50000", nano_usd: "123456789012", bytes: "3123456", footer_bytes: "212345" },
  ...{
    blocks: text(Array.from({ length: 50 }, () => 58_123)),
    sha256: text("0".repeat(64)),
    etag: text("0".repeat(32)),
  },
};
const HOUR = "1795000000000 - 1795000000000 % 3600000 + n / 8 * 3600000";

async function accountObject(): Promise<Record<"entry" | "hold" | "outbox" | "part" | "folded", number>> {
  const database = open("account.sqlite");
  const { migrate } = await import(join(root, "src/platform/account/schema.ts"));
  const kv = new Map<string, unknown>();
  migrate({
    kv: { get: (name: string) => kv.get(name), put: kv.set.bind(kv) },
    sql: { exec: (sql: string) => database.exec(sql) },
  });
  const call = { call_id: CALL, key_id: KEY, model: text("llama-3-70b") };
  return {
    entry: bytesOf(database, "entries", {
      kind: text("charge"),
      amount_nano_usd: "0 - n",
      balance_nano_usd: "99999999999 - n",
      at_ms: AT,
      ...call,
    }),
    hold: bytesOf(database, "holds", {
      ...call,
      ...{ seq: "n", state: text("settled"), due_ms: AT, endpoint: text("chat.completions"), alias: text("chat") },
      ...{ amount_nano_usd: "12345678", charged_nano_usd: "1924000", counted_tokens: "1579", output_cap: "4096" },
      ...{ prices: text(PRICES), price_rule: text("book:llama-3-70b"), started_at_ms: AT, admitted_at_ms: AT },
      ...{ ended_at_ms: AT, entry_id: "n" },
    }),
    outbox: bytesOf(database, "outbox", { seq: "n", event_id: CALL, event: text(EVENT) }),
    part: bytesOf(database, "parts", {
      ...{ ...PART, n: "n", state: text("folded"), hour_ms: HOUR, more: "1", balance_nano_usd: "99999999999" },
      ...{ first_id: "n * 50000 + 1", last_id: "n * 50000 + 50000", folded_through: "n * 50000 + 50000" },
      ...{ folded_lines: "50000", folded_nano_usd: "123456789012" },
    }),
    folded: bytesOf(database, "folded", {
      ...{ day: "20000 + n / 100", key_id: `'key_0123456789abcdefgh' || (n % 100)`, team_id: text("") },
      ...{ model: text("llama-3-70b"), lines: "86400", nano_usd: "123456789012" },
    }),
  };
}

function books() {
  const database = open("books.sqlite");
  const migrations = join(root, "migrations");
  for (const name of readdirSync(migrations).sort()) database.exec(readFileSync(join(migrations, name), "utf8"));
  const columnsOf = (table: string) =>
    (
      database
        .prepare(`select name from pragma_table_info('${table}') where "notnull" and dflt_value is null`)
        .all() as { name: string }[]
    ).map(({ name }) => name);
  /** Columns that the row does not name are 0. */
  const full = (table: string, row: Record<string, string>) => ({
    ...Object.fromEntries(columnsOf(table).map((name) => [name, "0"])),
    ...row,
  });
  const { usage, eventId: _, ...plain } = EVENT;
  const event = Object.fromEntries(
    Object.entries(plain).map(([name, value]) => [
      COLUMN(name.replace(/At(?=Ms$)/, "")),
      value === null ? "null" : typeof value === "number" ? String(value) : text(value),
    ]),
  );
  const units = Object.fromEntries(Object.entries(usage).map(([name, value]) => [name, String(value)]));
  const group = {
    account: text("acme"),
    key: KEY,
    model: text("llama-3-70b"),
    upstream: text("main-eu"),
    region: text("eu-west-1"),
    endpoint: text("chat.completions"),
    status: "200",
    country: text("DE"),
  };
  const sums = {
    ...group,
    ...units,
    latency_ms: "123456789",
    price_nano_usd: "1924000000",
    cost_nano_usd: "962000000",
  };
  const met = {
    level: "key",
    id: "key_0123456789abcdefghij",
    limit: "rpm_limit",
    used: 60,
    allowed: 60,
    freesAtMs: 1_795_000_000_000,
  };
  return {
    event: bytesOf(
      database,
      "usage_events",
      full("usage_events", { ...event, ...units, event_id: CALL, started_ms: AT, ended_ms: AT }),
    ),
    hour: bytesOf(
      database,
      "usage_hours",
      full("usage_hours", { ...sums, hour_ms: "1794996000000 + n / 100 * 3600000" }),
    ),
    refused: bytesOf(
      database,
      "refused_calls",
      full("refused_calls", {
        call_id: CALL,
        account: text("acme"),
        at_ms: AT,
        started_ms: AT,
        key: KEY,
        endpoint: text("chat.completions"),
        model: text("llama-3-70b"),
        status: "429",
        reason: text("rate_limit"),
        met: text(met),
      }),
    ),
    part: bytesOf(database, "call_parts", {
      ...{ ...PART, account: "7", n: "n", state: text("kept"), hour_ms: HOUR, late: "0" },
      ...{ from_row: "n * 50000", through_row: "n * 50000 + 400000", after_ms: AT, after_row: "n * 50000" },
      ...{ last_ms: AT, last_row: "n * 50000 + 50000" },
    }),
    histogram: bytesOf(
      database,
      "histograms",
      full("histograms", {
        span_ms: "60000",
        start_ms: "n * 60000",
        measure: text("first_byte"),
        upstream: text("main-eu"),
        model: text("llama-3-70b"),
        result: text(""),
      }),
    ),
  };
}

const days = (bytes: number, callsPerSecond: number, limit = LIMIT_BYTES): number =>
  limit / bytes / callsPerSecond / DAY_S;
/** Of full parts and one for the rest of each hour. */
const mbOfYear = (bytes: number): number => Math.round((bytes * 365 * 24 * Math.ceil(360_000 / 50_000)) / 1e6);
const rates = (bytes: number): string =>
  [1, 10, 100].map((rate) => `${rate} call/s: ${Math.round(days(bytes, rate))} days`).join("; ");

try {
  const [account, d1] = [await accountObject(), books()];
  const message = JSON.stringify(EVENT).length;
  const rows: [store: string, row: string, bytes: number, full: string][] = [
    [
      "account object",
      "ledger entry of a charged call, for good",
      account.entry,
      `${rates(account.entry)}; never with an archive`,
    ],
    [
      "account object",
      "hold, an hour",
      account.hold,
      `100 calls/s: ${Math.round((account.hold * 360_000) / 1e6)} MB, no more`,
    ],
    [
      "account object",
      "usage event in the outbox, until D1 has it",
      account.outbox,
      `a queue that is down for a day at 100 calls/s: ${((account.outbox * 100 * DAY_S) / 1e9).toFixed(1)} GB`,
    ],
    [
      "account object",
      "part of its ledger in the archive, for good",
      account.part,
      `100 calls/s: ${mbOfYear(account.part)} MB a year`,
    ],
    [
      "account object",
      "sum of charges that left, of a day, key, team and model, for good",
      account.folded,
      `100 of them each day: ${((account.folded * 100 * 365) / 1e6).toFixed(1)} MB a year`,
    ],
    [
      "D1",
      "raw usage event, 30 days, or while D1 is below 5 GB",
      d1.event,
      `up to ${(D1_RAW_BYTES / d1.event / 30 / DAY_S).toFixed(1)} calls/s 30 days stay; at 100 calls/s ${Math.round(days(d1.event, 100, D1_RAW_BYTES) * 24)} hours do`,
    ],
    [
      "D1",
      "sum of an hour for one key, model, target and outcome, for good",
      d1.hour,
      `100 of them each hour: ${Math.round(LIMIT_BYTES / d1.hour / 100 / 24 / 365)} years`,
    ],
    ["D1", "part of calls in the archive, for good", d1.part, `100 calls/s: ${mbOfYear(d1.part)} MB a year`],
    ["D1", "refused call, at most 1,000,000", d1.refused, `${Math.round(d1.refused)} MB, no more`],
    [
      "D1",
      "histogram of a minute, six hours",
      d1.histogram,
      `50 pairs of upstream and model: ${Math.round((d1.histogram * 3 * 50 * 360) / 1e6)} MB, no more`,
    ],
    ["queue", "usage event in a message, until it is written", message, "-"],
    ["KV", "a call writes nothing; the record of a key (7 days)", 150, "no such limit"],
  ];
  const lines = rows.map(([store, row, bytes, full]) => `| ${store} | ${row} | ${bytes} | ${full} |`);
  process.stdout.write(
    `${["| store | a row, and how long it stays | bytes | 10 GB are full at |", "|---|---|---|---|", ...lines].join("\n")}\n`,
  );
} finally {
  rmSync(dir, { recursive: true });
}

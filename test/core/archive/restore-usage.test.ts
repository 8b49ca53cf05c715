/** D1's sums come back from the parts of the archive, as they were. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { restoringSql, USAGE_COLUMNS } from "../../../scripts/restore-usage.ts";
import { callPartLine } from "../../../src/core/archive/call-line.ts";
import { footerText, HOUR_MS, hashOf } from "../../../src/core/archive/part.ts";
import { SqliteBooks } from "../../support/sqlite-books.ts";

const START = Date.UTC(2026, 4, 1);

function fill(at: SqliteBooks): void {
  const zeros = USAGE_COLUMNS.filter((column) =>
    /tokens|_ms$|images|requests|_usd$|_gb_days|late|low_input/.test(column),
  );
  const given = {
    event_id: "",
    account: "acme",
    key: "k",
    endpoint: "chat",
    model: "o'hare",
    outcome: "completed",
    status: 200,
    source: "exact",
    price_rule: "book:x",
  };
  for (let index = 0; index < 60; index++) {
    const row: Record<string, string | number> = {
      ...Object.fromEntries(zeros.map((column) => [column, 0])),
      ...given,
    };
    row.event_id = `e-${index}`;
    row.ended_ms = START + index * 20 * 60_000;
    row.price_nano_usd = index * 1_000_003;
    row.input_tokens = index;
    row.key = `k-${index % 3}`;
    row.first_byte_ms = index % 2;
    row.detail = JSON.stringify({ entry: index, tries: [{ upstream: "it's" }] });
    const names = Object.keys(row);
    at.database
      .prepare(`insert into usage_events (${names.join(", ")}) values (${names.map(() => "?").join(", ")})`)
      .run(...Object.values(row));
  }
}

const sqlOf = (parts: readonly Uint8Array[]): string => [...restoringSql(parts, USAGE_COLUMNS)].join("\n");

async function sum(at: SqliteBooks): Promise<void> {
  // The types of D1 are not those of Node.
  const d1 = (file: string) => import(join(import.meta.dirname, `../../../src/platform/d1/${file}.ts`));
  const { sumHours } = await d1("usage-hours");
  const { sumDays } = await d1("usage-days");
  await sumHours(at.books, START + 100 * HOUR_MS, 1_000);
  await sumDays(at.books, 100);
}

const dump = (at: SqliteBooks, table: string) =>
  at.database
    .prepare(`select * from ${table} order by 1, 2, 3, 4, 5`)
    .all()
    .map((row) => ({ ...row }));

function partsOf(at: SqliteBooks): Buffer[] {
  const rows = dump(at, "usage_events") as Record<string, string | number | null>[];
  const byHour = Map.groupBy(rows, (row) => Number(row.ended_ms) - (Number(row.ended_ms) % HOUR_MS));
  let n = 0;
  return [...byHour].map(([hour_ms, some]) => {
    const lines = some.map(callPartLine);
    const block = gzipSync(lines.map(({ text }) => `${text}\n`).join(""));
    const nano_usd = lines.reduce((sum, { nanoUsd }) => sum + nanoUsd, 0);
    const told = { version: 1, series: "calls", account: 7, hour_ms, n: 1, lines: lines.length, nano_usd } as const;
    const calls = lines.map(({ callId }) => hashOf(callId));
    return Buffer.concat([block, gzipSync(footerText({ ...told, n: ++n, blocks: [block.length], calls }))]);
  });
}

it("knows each column of the table", () => {
  const { database } = new SqliteBooks(":memory:");
  const columns = database
    .prepare("select name from pragma_table_info('usage_events')")
    .all()
    .map(({ name }) => name);
  expect([...USAGE_COLUMNS].sort()).toEqual(columns.sort());
});

it("gives the same events, hours and days again, however often it is run", async () => {
  const before = new SqliteBooks(":memory:");
  fill(before);
  await sum(before);
  const sql = sqlOf(partsOf(before));
  const after = new SqliteBooks(":memory:");
  after.database.exec(sql);
  after.database.exec(sql);
  await sum(after);
  for (const table of ["usage_events", "usage_hours", "usage_days"]) {
    expect(dump(after, table), table).toEqual(dump(before, table));
  }
  expect(dump(after, "usage_hours").length).toBeGreaterThan(20);
});

it("gives the parts' records and the account's number again, and leaves what is there as it is", () => {
  const before = new SqliteBooks(":memory:");
  fill(before);
  const parts = partsOf(before);
  const after = new SqliteBooks(":memory:");
  const [first] = parts as [Buffer];
  after.database.exec(sqlOf(parts));
  const records = dump(after, "call_parts");
  expect(records).toHaveLength(parts.length);
  const digest = (name: string) => createHash(name).update(first).digest("hex");
  const line = { lines: 3, late: 0, state: "kept", account: 7, last_ms: START + 40 * 60_000, bytes: first.length };
  expect(records[0]).toMatchObject({ ...line, sha256: digest("sha256"), etag: digest("md5") });
  // Events that come later have higher rows: they make a further part.
  expect(new Set(records.map((record) => `${record.from_row} ${record.through_row}`))).toEqual(new Set(["60 60"]));
  expect(dump(after, "accounts")).toMatchObject([{ number: 7, id: "acme", name: "acme", opened_ms: START }]);
  after.database.exec("update accounts set name = 'Acme'; update call_parts set state = 'planned' where n = 1");
  after.database.exec(sqlOf([first]));
  expect(dump(after, "accounts")).toMatchObject([{ name: "Acme" }]);
  expect(dump(after, "call_parts")[0]).toMatchObject({ state: "planned" });
});

it("sums no hour again of which only a part came back", async () => {
  const books = new SqliteBooks(":memory:");
  fill(books);
  const [first] = partsOf(books) as [Buffer];
  // Its sum knows another account's calls too, whose raw events left long ago.
  books.database.exec("update usage_events set event_id = 'o-' || event_id, account = 'other'");
  await sum(books);
  books.database.exec("delete from usage_events");
  books.database.exec(sqlOf([first]));
  expect(dump(books, "usage_events")).toHaveLength(3);
  expect(books.database.prepare("select * from usage_late_hours").all()).toEqual([]);
});

it("refuses a part of a ledger", () => {
  const line = '{"id":1,"nano_usd":0}\n';
  const told = { version: 1, series: "ledger", account: 7, hour_ms: 0, n: 1, lines: 1, nano_usd: 0 } as const;
  const part = Buffer.concat([gzipSync(line), gzipSync(footerText({ ...told, blocks: [1], calls: [0] }))]);
  expect(() => sqlOf([part])).toThrow("no calls");
});

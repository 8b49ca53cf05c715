/**
 * A year of an account at 100 calls/s and ten at 10 calls/s: the Worker's own code over workerd's objects, D1 and R2,
 * with a clock set by hand. Scaled in size: a call here stands for `SCALE`, so `LEDGER_DETAIL_BYTES` and what raw events
 * may take of D1 are divided by it. Scaled in time: a day's calls of the smaller accounts come in one of its hours.
 * Hours, days, months, keys and models are not scaled. Bytes are those of a row, measured here, times rows and `SCALE`.
 *
 * `npm test` has 44 hours over the end of a month, with one smaller account; `ARCHIVE_DAYS=365` has the year.
 */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { runScheduled } from "../../src/platform/queue/usage.ts";
import { newAccount } from "../support/worker/account-support.ts";
import { DETAIL, emptyArchive } from "../support/worker/archive.ts";
import { settled } from "../support/worker/operator.ts";
import { ScaledTenant } from "../support/worker/scaled-tenant.ts";
import { deliver, emptyUsage } from "../support/worker/usage-support.ts";

/** 0: in short. */
const DAYS = Number((env as { ARCHIVE_DAYS?: string }).ARCHIVE_DAYS);
const IN_FULL = DAYS > 0;
const SCALE = IN_FULL ? 72_000 : 36_000;
const HOUR_MS = 3_600_000;
/** An hour of 100 calls/s, a day of 10 calls/s. */
const [LARGE_HOUR, SMALL_DAY] = [(100 * 3_600) / SCALE, (10 * 86_400) / SCALE];
const START = IN_FULL ? Date.UTC(2031, 0) : Date.UTC(2031, 0, 30, 12);
const HOURS = IN_FULL ? DAYS * 24 : 44;
const SMALLER = IN_FULL ? 10 : 1;
/** Bytes of a raw event in D1 with its indexes, and of a row of `call_parts` (bench/bytes.ts). */
const [EVENT_BYTES, PART_BYTES] = [600, 600];
const GB = 1_000_000_000;

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  await emptyUsage();
  await env.BOOKS.batch(
    ["delete from call_parts", "update usage_progress set archived_until_ms = 0"].map((sql) => env.BOOKS.prepare(sql)),
  );
  await emptyArchive();
});
afterAll(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await settled();
});

/** Bytes of a charge in an object whose oldest charges have left for long: the file keeps the pages of what left. */
async function bytesOfCharge(): Promise<number> {
  const { stub } = await newAccount();
  return runInDurableObject(stub, (_, { storage: { sql } }) => {
    const [at, rows] = [START, 20_000];
    const add = (from: number) =>
      sql.exec(
        `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, call_id, model, key_id)
         WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT ${rows / 10})
         SELECT ? + value, 'charge', -value, 99999999999 - value, ${at} + value * 10,
           '019f0000-0000-7000-8000-' || lower(hex(randomblob(6))), 'llama-3-70b', 'key_0123456789abcdefghij' FROM n`,
        from,
      );
    const before = sql.databaseSize;
    for (let added = 0; added < 3 * rows; added += rows / 10) {
      add(added);
      sql.exec("DELETE FROM entries WHERE id <= ?", added + rows / 10 - rows);
    }
    return (sql.databaseSize - before) / rows;
  });
}

interface Peaks {
  lines: number;
  /** Of the oldest charge in the large account's object, when its charges are leaving. */
  oldestMs: number;
  raw: number;
  foldings: number;
}

/** The scheduled run, every other hour. What D1 holds beside raw events is not scaled, so it does not count against their 5 GB. */
async function upkeep(): Promise<number> {
  const raw = (await env.BOOKS.prepare("select count(*) as n from usage_events").first<number>("n")) ?? 0;
  const { meta } = await env.BOOKS.prepare("select 1").run();
  const mostBytes = meta.size_after - raw * EVENT_BYTES + (5 * GB) / SCALE;
  await runScheduled({ ...env, ARCHIVE: env.TEST_ARCHIVE, USAGE_RETENTION_GB: String(mostBytes / GB) }, Date.now());
  return raw;
}

/** One hour: calls until it ends, then the alarms; the money before and after whatever they fold. */
async function hour(startMs: number, large: ScaledTenant, smaller: readonly ScaledTenant[], peaks: Peaks) {
  const busy: [ScaledTenant, number][] = [[large, LARGE_HOUR]];
  const small = smaller[((startMs - START) / HOUR_MS) % 24];
  if (small) busy.push([small, SMALL_DAY]);
  for (const [tenant, calls] of busy) {
    vi.setSystemTime(startMs + 15 * 60_000);
    if (/-01T00/.test(new Date(startMs).toISOString())) await tenant.credit(12_345_678_901);
    if (new Date(startMs).getUTCHours() === 5) await tenant.credit(-1_234_567);
    await tenant.call(calls, startMs + 16 * 60_000, 43 * 60_000);
  }
  const messages: unknown[] = [];
  for (const [tenant] of busy) {
    vi.setSystemTime(startMs + HOUR_MS + 60_000);
    await tenant.expectMoney();
    const before = await tenant.detail();
    messages.push(...(await tenant.quiet()));
    const after = await tenant.detail();
    if (tenant === large) peaks.lines = Math.max(peaks.lines, before.lines);
    if (after.folded === before.folded) continue;
    peaks.foldings += 1;
    if (tenant === large) peaks.oldestMs = Math.max(peaks.oldestMs, Date.now() - (before.oldestMs ?? 0));
    await tenant.expectMoney();
    expect((await tenant.stub.audit())?.problems).toEqual([]);
  }
  vi.setSystemTime(startMs + HOUR_MS + 11 * 60_000);
  await deliver(messages);
  if (new Date(startMs).getUTCHours() % 2 === 1) peaks.raw = Math.max(peaks.raw, await upkeep());
}

it(
  "an account at 100 calls/s keeps a day and a half of detail in its object, and no money changes",
  async () => {
    vi.setSystemTime(START);
    const limits = { ms: DETAIL.ms, bytes: DETAIL.bytes / SCALE };
    const large = await ScaledTenant.open("year-large", limits);
    const smaller: ScaledTenant[] = [];
    for (let n = 0; n < SMALLER; n++) smaller.push(await ScaledTenant.open(`year-small-${n}`, limits));
    for (const tenant of [large, ...smaller]) await tenant.credit(9_000_000_000_000);
    const peaks: Peaks = { lines: 0, oldestMs: 0, raw: 0, foldings: 0 };
    for (let at = 0; at < HOURS; at++) {
      await hour(START + at * HOUR_MS, large, smaller, peaks);
      if ((at + 1) % (24 * 30) === 0) await large.expectStatements();
    }
    for (const tenant of [large, ...smaller]) {
      await tenant.expectStatements();
      for (const month of [...tenant.months.keys()].slice(0, -1)) await tenant.expectExports(month);
    }

    const chargeBytes = await bytesOfCharge();
    const partRows = (100 * 3_600 * HOURS) / 50_000 + HOURS;
    const objectBytes = peaks.lines * chargeBytes * SCALE + partRows * PART_BYTES + 100 * 3_600 * 333;
    const rawBytes = peaks.raw * EVENT_BYTES * SCALE;
    console.info(
      `${HOURS} hours, scale 1:${SCALE}; ${large.calls} calls of the large account, ${peaks.foldings} foldings; at most ${peaks.lines} charges ` +
        `of ${chargeBytes.toFixed(0)} bytes in its object, the oldest ${(peaks.oldestMs / HOUR_MS).toFixed(1)} h old: ` +
        `${(objectBytes / GB).toFixed(2)} GB with parts and holds; D1: at most ${peaks.raw} raw events, ${(rawBytes / GB).toFixed(2)} GB`,
    );
    expect(objectBytes).toBeLessThan(2 * GB);
    // It is the rule that keeps it so: as many charges as LEDGER_DETAIL_BYTES allows stay, and some hours of more.
    const allowed = DETAIL.bytes / SCALE / 121;
    expect(peaks.lines).toBeGreaterThan(allowed);
    expect(peaks.lines).toBeLessThan(allowed + 3 * LARGE_HOUR);
    expect(peaks.oldestMs).toBeGreaterThan(30 * HOUR_MS);
    expect(peaks.oldestMs).toBeLessThan(40 * HOUR_MS);
    expect(rawBytes).toBeLessThan(7 * GB);
    expect(peaks.foldings).toBeGreaterThan(HOURS / 5);
  },
  IN_FULL ? 4 * 3_600_000 : 60_000,
);

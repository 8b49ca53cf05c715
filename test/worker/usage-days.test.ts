/** Daily sums: what long reports are made of, and never anything but the sum of their hours. */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import { asId } from "../../src/core/ids.ts";
import { sumDays } from "../../src/platform/d1/usage-days.ts";
import { deleteOldUsage, GRACE_MS, sumHours } from "../../src/platform/d1/usage-hours.ts";
import { runScheduled } from "../../src/platform/queue/usage.ts";
import { HISTORIES, HISTORIES_TIMEOUT_MS } from "../support/worker/histories.ts";
import { settled } from "../support/worker/operator.ts";
import {
  count,
  countWritten,
  DAY,
  deliver,
  event,
  HOUR,
  message,
  report,
  START,
} from "../support/worker/usage-support.ts";

const TABLES = ["usage_events", "usage_hours", "usage_days", "usage_late_hours", "histograms"];
const RESET = "update usage_progress set summed_until_ms = 0, days_summed_until_ms = 0, kept_from_ms = 0";
const empty = () =>
  env.BOOKS.batch([...TABLES.map((table) => `delete from ${table}`), RESET].map((sql) => env.BOOKS.prepare(sql)));
beforeEach(empty);
afterAll(settled);

/** A call that ended so many hours after the start. */
const at = (hours: number, some: Partial<UsageEvent> = {}): UsageEvent =>
  event({ endedAtMs: START + Math.floor(hours * HOUR), priceNanoUsd: 1_000_003, costNanoUsd: 7, ...some });
const END = 4 * DAY;
const QUERIES = [
  "group_by=account,team,key,model,alias",
  "group_by=day",
  "group_by=hour",
  "account=acme&group_by=day,key",
  `from=${START + DAY}&to=${START + 2 * DAY}`,
  `group_by=account&from=${START + 5 * HOUR}&to=${START + 3 * DAY - 1}`,
  `group_by=day&from=${START + 5 * HOUR + 77}&to=${START + 2 * DAY + 9 * HOUR + 3}`,
  `from=${START + 3 * HOUR}&to=${START + 4 * HOUR}`,
].map((query) => (query.includes("from=") ? query : `${query}&from=${START}&to=${START + END}`));
const allReports = () => Promise.all(QUERIES.map(report));

/** Every day that stands is the sum of its hours. */
async function expectSums(): Promise<void> {
  const sum = (of: string) =>
    env.BOOKS.prepare(
      `select ${of} as day, account, key, sum(calls) as calls, sum(price_nano_usd) as price, sum(low_input) as low
       from ${of === "day_ms" ? "usage_days" : "usage_hours"}
       where ${of} < (select days_summed_until_ms from usage_progress) group by 1, 2, 3 order by 1, 2, 3`,
    ).all();
  expect((await sum("day_ms")).results).toEqual((await sum(`hour_ms - hour_ms % ${DAY}`)).results);
}

describe("daily sums", () => {
  it("are made when all hours of a day are, in bounded runs, over days without a call", async () => {
    await deliver([message(at(1), at(23), at(25), at(24 * 40))]);
    await sumHours(env.BOOKS, START + DAY - HOUR + GRACE_MS, 100);
    expect(await sumDays(env.BOOKS, 10)).toBe(0);
    expect(await count("usage_days")).toBe(0);
    await sumHours(env.BOOKS, START + 50 * DAY, 100);
    expect(await sumDays(env.BOOKS, 2)).toBe(2);
    expect(await sumDays(env.BOOKS, 2)).toBe(1);
    expect(await sumDays(env.BOOKS, 2)).toBe(0);
    expect(await count("usage_days")).toBe(3);
  });

  it("are what reports of closed days are made of, and not those of hours", async () => {
    await deliver([message(at(1), at(30), at(30.5), at(60))]);
    const before = await allReports();
    await sumHours(env.BOOKS, START + END, 100);
    await sumDays(env.BOOKS, 100);
    expect(await allReports()).toEqual(before);
    await env.BOOKS.prepare("delete from usage_hours").run();
    const [grouped, byDay, byHour] = await allReports();
    expect([grouped, byDay]).toEqual(before.slice(0, 2));
    expect(byHour).toEqual([]);
  });

  it("of a day with a late event are passed over until it is summed anew", async () => {
    await deliver([message(at(1), at(2), at(30))]);
    await sumHours(env.BOOKS, START + END, 100);
    await sumDays(env.BOOKS, 100);
    await deliver([message(at(2.5))]);
    const late = await allReports();
    expect(late[1]).toMatchObject([{ calls: 3 }, { calls: 1 }]);
    await sumHours(env.BOOKS, START + END, 100);
    expect(await allReports()).toEqual(late);
    await expectSums();
  });

  it("are made by the scheduled run, and outlive raw events", async () => {
    await deliver([message(at(1), at(30))]);
    const before = await allReports();
    await runScheduled(env, START + END);
    expect(await count("usage_days")).toBe(2);
    await deleteOldUsage(env.BOOKS, START + 3 * DAY, 100);
    expect(await countWritten()).toBe(0);
    expect(await report(QUERIES[1] ?? "")).toEqual(before[1]);
  });

  it(
    "change no report, whatever comes in whatever order",
    async () => {
      const step = fc.oneof(
        {
          weight: 4,
          arbitrary: fc.record({
            do: fc.constant("event" as const),
            hours: fc.double({ min: 0, max: 95.9, noNaN: true }),
          }),
        },
        {
          weight: 2,
          arbitrary: fc.record({
            do: fc.constant("hours" as const),
            until: fc.integer({ min: 0, max: 100 }),
            most: fc.integer({ min: 1, max: 9 }),
          }),
        },
        { weight: 2, arbitrary: fc.record({ do: fc.constant("days" as const), most: fc.integer({ min: 1, max: 4 }) }) },
      );
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30, size: "max" }), async (steps) => {
          await empty();
          const events: UsageEvent[] = [];
          for (const one of steps) {
            if (one.do === "hours") await sumHours(env.BOOKS, START + one.until * HOUR + GRACE_MS, one.most);
            if (one.do === "days") await sumDays(env.BOOKS, one.most);
            if (one.do === "event") {
              const index = events.length;
              events.push(
                at(one.hours, { key: asId(`key_${index % 3}`), account: asId(index % 2 ? "acme" : "other") }),
              );
              await deliver([message(events[index]!)]);
            }
          }
          await expectSums();
          const summed = await allReports();
          await empty();
          if (events.length > 0) await deliver([message(...events)]);
          expect(summed).toEqual(await allReports());
        }),
        HISTORIES,
      );
    },
    HISTORIES_TIMEOUT_MS,
  );
});

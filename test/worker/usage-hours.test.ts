import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import { asId } from "../../src/core/ids.ts";
import { deleteOldUsage, GRACE_MS, sumHours } from "../../src/platform/d1/usage-hours.ts";
import { runScheduled } from "../../src/platform/queue/usage.ts";
import { call, refusal, settled } from "../support/worker/operator.ts";
import {
  count,
  countWritten,
  DAY,
  deliver,
  emptyUsage,
  event,
  HOUR,
  message,
  report,
  START,
} from "../support/worker/usage-support.ts";

let lines: string[];
beforeEach(async () => {
  lines = [];
  vi.spyOn(console, "log").mockImplementation((line) => void lines.push(line));
  await emptyUsage();
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(settled);

/** The same every time: sixty calls over three hours and a bit, of two accounts. */
const calls = (): UsageEvent[] =>
  Array.from({ length: 60 }, (_, index) =>
    event({
      endedAtMs: START + index * 200_000 + index,
      account: asId(index % 3 ? "acme" : "other"),
      key: asId(`key_${index % 4}`),
      team: index % 2 ? asId("team_1") : null,
      model: `m${index % 5}`,
      outcome: index % 9 ? "completed" : "failed",
      priceNanoUsd: index * 1_000_003,
      costNanoUsd: index * 7,
      latencyMs: index,
    }),
  );
const QUERIES = [
  "",
  "group_by=account,team,key,model,alias",
  "group_by=day",
  "group_by=hour,account",
  "account=acme&group_by=key",
  `group_by=model&from=${START + 1_000}&to=${START + 2 * HOUR + 5}`,
  `from=${START + HOUR + 60_000}&to=${START + HOUR + 1_800_000}`,
  `group_by=hour&from=${START + HOUR}&to=${START + 3 * HOUR}`,
];
const allReports = () => Promise.all(QUERIES.map(report));
const summedUntil = () => env.BOOKS.prepare("select summed_until_ms as at from usage_progress").first<number>("at");

describe("hourly sums", () => {
  it("change no report, whatever part of its range is summed", async () => {
    await deliver([message(...calls())]);
    const raw = await allReports();
    for (const hours of [1, 2, 3, 4]) {
      await sumHours(env.BOOKS, START + hours * HOUR + GRACE_MS, 10);
      expect(await summedUntil()).toBe(START + hours * HOUR);
      expect(await allReports()).toEqual(raw);
    }
    expect(await count("usage_hours")).toBeGreaterThan(0);
  });

  it("are what reports of closed hours are made of", async () => {
    await deliver([message(...calls())]);
    const before = await report("group_by=account");
    await sumHours(env.BOOKS, START + DAY, 10);
    await env.BOOKS.prepare("delete from usage_events").run();
    expect(await report("group_by=account")).toEqual(before);
  });

  it("an hour is summed when it has been over for ten minutes", async () => {
    await deliver([message(event({ endedAtMs: START + HOUR - 1 }))]);
    await sumHours(env.BOOKS, START + HOUR + GRACE_MS - 1, 10);
    expect(await count("usage_hours")).toBe(0);
    await sumHours(env.BOOKS, START + HOUR + GRACE_MS, 10);
    expect(await count("usage_hours")).toBe(1);
  });

  it("a late event is in the reports at once, and its hour is summed anew", async () => {
    const [first, ...rest] = calls();
    if (!first) throw new Error("no call");
    await deliver([message(...rest)]);
    await sumHours(env.BOOKS, START + DAY, 10);
    await deliver([message(first)]);
    expect(await count("usage_late_hours")).toBe(1);
    const late = await allReports();
    expect(late[0]).toMatchObject([{ calls: 60 }]);
    await sumHours(env.BOOKS, START + DAY, 10);
    expect(await count("usage_late_hours")).toBe(0);
    expect(await allReports()).toEqual(late);
  });

  it("a late event of an hour that had none makes the hour", async () => {
    await deliver([message(event({ endedAtMs: START + 5 * HOUR }))]);
    await sumHours(env.BOOKS, START + DAY, 10);
    await deliver([message(event({ endedAtMs: START + 2 * HOUR }))]);
    expect(await report("")).toMatchObject([{ calls: 2 }]);
    await sumHours(env.BOOKS, START + DAY, 10);
    expect(await report("group_by=hour")).toHaveLength(2);
  });

  it("are made in bounded runs that go on where the last one ended, over hours without a call", async () => {
    await deliver([message(...[0, 1, 50, 400].map((hour) => event({ endedAtMs: START + hour * HOUR })))]);
    const now = START + 500 * HOUR;
    expect(await sumHours(env.BOOKS, now, 3)).toBe(3);
    expect(await summedUntil()).toBe(START + 51 * HOUR);
    expect(await sumHours(env.BOOKS, now, 3)).toBe(1);
    expect(await summedUntil()).toBe(START + 499 * HOUR);
    expect(await sumHours(env.BOOKS, now, 3)).toBe(0);
    expect(await count("usage_hours")).toBe(4);
  });
});

describe("the end of raw events", () => {
  const upkeep = (nowMs: number, days?: string) =>
    runScheduled({ ...env, ...(days !== undefined && { USAGE_RETENTION_DAYS: days }) }, nowMs);

  it("leaves every report of full hours as it is", async () => {
    await deliver([message(...calls())]);
    const whole = await report("group_by=account,key");
    await upkeep(START + 3 * DAY, "2");
    expect(await countWritten()).toBe(0);
    expect(await report("group_by=account,key")).toEqual(whole);
    expect(await report(`from=${START + HOUR}&to=${START + 2 * HOUR}`)).toMatchObject([{ calls: 18 }]);
  });

  it("parts of an hour that only its sum is left of are refused, not guessed", async () => {
    await deliver([message(...calls())]);
    await upkeep(START + 3 * DAY, "2");
    for (const [query, param] of [
      [`from=${START + 1}&to=${START + DAY}`, "from"],
      [`from=${START}&to=${START + 5 * HOUR + 1}`, "to"],
    ]) {
      expect(await call("GET", `/usage?${query}`)).toMatchObject(refusal(400, "invalid_request_error", param ?? null));
    }
  });

  it("comes after the days that are configured, 30 where that is no number", async () => {
    await deliver([message(event())]);
    await upkeep(START + 30 * DAY - 1);
    await upkeep(START + 30 * DAY - 1, "soon");
    await upkeep(START + 30 * DAY - 1, "0");
    expect(await countWritten()).toBe(1);
    await upkeep(START + 30 * DAY + HOUR);
    expect(await countWritten()).toBe(0);
  });

  it("comes sooner while the database is larger than it may be: the oldest hours go first, sums and open hours stay", async () => {
    const spread = [0, 0, 1, 2, 30].map((hour, at) => event({ endedAtMs: START + hour * HOUR + at }));
    await deliver([message(...spread)]);
    const whole = await report("group_by=account,key");
    const nowMs = START + 30 * HOUR + 60_000;
    let bytes = 5_000_000_001;
    // Each deletion makes it smaller: after the first one all is well.
    const books = sized(() => bytes--);
    await runScheduled({ ...env, BOOKS: books }, nowMs);
    expect(await countWritten()).toBe(5 - 4);
    expect(await report("group_by=account,key")).toEqual(whole);
    expect(lines.map((line) => JSON.parse(line))).toContainEqual(
      expect.objectContaining({ event: "usage_shortened", to: new Date(START + 29 * HOUR).toISOString() }),
    );
    bytes = 9e9;
    await runScheduled({ ...env, BOOKS: books }, nowMs);
    expect(await countWritten()).toBe(1);
  });

  it("is preceded by an event at 70 % of what the platform lets D1 hold, once an hour", async () => {
    const told = () => lines.map((line) => JSON.parse(line)).filter(({ event: name }) => name === "store.filling");
    const upkeepAt = (bytes: number, nowMs: number) => runScheduled({ ...env, BOOKS: sized(() => bytes) }, nowMs);
    await upkeepAt(6_999_999_999, START);
    expect(told()).toEqual([]);
    for (const minutes of [0, 5, 55, 60]) await upkeepAt(7_000_000_000, START + minutes * 60_000);
    expect(told()).toHaveLength(2);
    expect(told()[0]).toMatchObject({ store: "d1", bytes: 7_000_000_000, limit_bytes: 10_000_000_000 });
  });

  it("an event older than that is sent back and not counted twice; the others of its message are written", async () => {
    const old = event();
    await deliver([message(old)]);
    await upkeep(START + 3 * DAY, "2");
    const recent = event({ endedAtMs: START + 3 * DAY });
    expect(await deliver([message(old, recent)])).toEqual({ acked: [], retried: ["m0"] });
    expect(await report("")).toMatchObject([{ calls: 2 }]);
    expect(await count("usage_late_hours")).toBe(0);
  });

  it("waits for hours that are late or not summed", async () => {
    await deliver([message(...calls())]);
    await sumHours(env.BOOKS, START + DAY, 10);
    await deliver([message(event({ endedAtMs: START + HOUR }))]);
    const books = env.BOOKS;
    expect(await deleteOldUsage(books, START + 2 * HOUR, 1000)).toBe(0);
    expect(await deleteOldUsage(books, START + 2 * DAY, 1000)).toBe(0);
    await sumHours(books, START + DAY, 10);
    expect(await deleteOldUsage(books, START + 2 * HOUR, 1000)).toBeGreaterThan(30);
  });
});

describe("the scheduled run", () => {
  it("a job that fails keeps no other from its turn", async () => {
    await deliver([message(event())]);
    const kv = {
      get: () => Promise.reject(new Error("KV is down")),
      put: () => Promise.reject(new Error("KV is down")),
    };
    await runScheduled({ ...env, EDGE: kv as unknown as KVNamespace }, START + DAY);
    expect(await count("usage_hours")).toBe(1);
    expect(lines.join()).toContain("publish_routing");
  });
});

/** The books, saying that they are this large. */
const sized = (bytes: () => number): D1Database =>
  new Proxy(env.BOOKS, {
    get(books, name) {
      if (name !== "prepare") return Reflect.get(books, name).bind(books);
      return (query: string) => {
        const statement = books.prepare(query);
        if (query !== "select 1") return statement;
        return { run: async () => ({ meta: { size_after: bytes() } }) };
      };
    },
  });

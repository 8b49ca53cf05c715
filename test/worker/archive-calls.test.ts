/** Raw usage events of closed hours move from the books to the archive, and leave only what is proved to be there. */
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import { type AccountId, asId } from "../../src/core/ids.ts";
import { runScheduled } from "../../src/platform/queue/usage.ts";
import { archived, emptyArchive, type TestBucket, testBucket } from "../support/worker/archive.ts";
import { done, settled } from "../support/worker/operator.ts";
import {
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

let shop: TestBucket;
let logged: string[] = [];
beforeEach(async () => {
  await emptyUsage();
  await env.BOOKS.batch([
    env.BOOKS.prepare("delete from call_parts"),
    env.BOOKS.prepare("update usage_progress set archived_until_ms = 0"),
  ]);
  await emptyArchive();
  shop = testBucket();
  logged = [];
  vi.spyOn(console, "log").mockImplementation((line: string) => void logged.push(line));
});
afterEach(() => vi.restoreAllMocks());
afterAll(settled);

let made = 0;
async function newAccount() {
  const id = `archived-${++made}`;
  const { number } = await done("POST", "/accounts", { id, name: id });
  return { id: asId<AccountId>(id), number: number as number };
}
const at = (account: AccountId, hours: number, some: Partial<UsageEvent> = {}): UsageEvent =>
  event({ account, endedAtMs: START + Math.floor(hours * HOUR), ...some });

/** The scheduled run, so many hours after the start. */
const run = (hours: number, some: object = {}) =>
  runScheduled({ ...env, ARCHIVE: shop.bucket, ...some }, START + hours * HOUR);
const parts = async () => (await env.BOOKS.prepare("select * from call_parts order by account, n").all()).results;
const linesOf = async (number: number) => (await archived(`calls/${number}/`)).flatMap(({ lines }) => lines);
const until = () => env.BOOKS.prepare("select archived_until_ms as ms from usage_progress").first<number>("ms");

describe("a closed hour of calls", () => {
  it("is written for each account, in the order of ends, as the rows are", async () => {
    const [one, two] = [await newAccount(), await newAccount()];
    const late = at(one.id, 0.5, { late: true, lossNanoUsd: -5 });
    await deliver([message(at(one.id, 0.9), at(two.id, 0.1), at(one.id, 0.2), late, at(one.id, 1.5))]);
    await run(1.1);
    expect(await parts()).toEqual([]);
    await run(1.2);
    const [first] = await archived(`calls/${one.number}/`);
    expect(first?.name).toBe(`calls/${one.number}/2026-05-01T00-1.jsonl.gz`);
    expect(first?.lines.map((line) => line.ended_ms)).toEqual([0.2, 0.5, 0.9].map((hour) => START + hour * HOUR));
    expect(first?.lines[1]).toMatchObject({ event_id: late.eventId, late: 1, loss_nano_usd: -5 });
    expect(await linesOf(two.number)).toHaveLength(1);
    expect(await parts()).toMatchObject([
      { account: one.number, lines: 3, late: 1, nano_usd: 90, state: "kept" },
      { account: two.number, lines: 1, late: 0, nano_usd: 30, state: "kept" },
    ]);
    const { rowid: _, ...row } = (await env.BOOKS.prepare("select * from usage_events where event_id = ?")
      .bind(late.eventId)
      .first()) as Record<string, unknown>;
    expect(first?.lines[1]).toEqual(
      Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null && value !== 0)),
    );
    expect(await until()).toBe(START + HOUR);
  });

  it("gets a further part where events come after it was written, and none of them is lost or doubled", async () => {
    const { id, number } = await newAccount();
    await deliver([message(at(id, 0.9))]);
    await run(3);
    const after = at(id, 0.1);
    await deliver([message(after)]);
    expect(await until()).toBe(START);
    await run(4);
    expect((await archived(`calls/${number}/`)).map(({ lines }) => lines.length)).toEqual([1, 1]);
    expect((await linesOf(number))[1]).toMatchObject({ event_id: after.eventId });
    expect(await until()).toBe(START + HOUR);
    // A message that comes again changes nothing.
    await deliver([message(after)]);
    await run(5);
    expect(await linesOf(number)).toHaveLength(2);
    expect(await until()).toBe(START + HOUR);
  });

  it("of many lines is cut into blocks and parts, each row in one of them", async () => {
    const { id, number } = await newAccount();
    await deliver([message(at(id, 0.5))]);
    const columns = (await env.BOOKS.prepare("pragma table_info(usage_events)").all<{ name: string }>()).results
      .map(({ name }) => name)
      .filter((name) => name !== "event_id" && name !== "ended_ms");
    // Many end in the same millisecond.
    await env.BOOKS.prepare(
      `insert into usage_events (event_id, ended_ms, ${columns.join(", ")})
       with recursive n(value) as (values (1) union all select value + 1 from n limit 52400)
       select 'many-' || value, ${START} + value / 100, ${columns.join(", ")} from n cross join usage_events where account = ?1`,
    )
      .bind(id)
      .run();
    await run(2);
    expect((await parts()).map(({ lines }) => lines)).toEqual([50_000, 2_401]);
    const stored = await archived(`calls/${number}/2026-05-01T00-2`);
    expect(stored[0]?.lines).toHaveLength(2_401);
    expect(await until()).toBe(START + HOUR);
  });
});

describe("raw events leave the books", () => {
  const LONG = { USAGE_RETENTION_DAYS: "1" };
  it("only once their part is there, whatever the days and the size", async () => {
    const { id, number } = await newAccount();
    await deliver([message(at(id, 0.5), at(id, 1.5))]);
    shop.breaks = "before put";
    await run(10 * 24, { ...LONG, USAGE_RETENTION_GB: "0.000000001" });
    expect(await countWritten()).toBe(2);
    expect(logged.join()).toContain("archive_failed");
    shop.breaks = null;
    await run(10 * 24 + 1, LONG);
    expect(await countWritten()).toBe(0);
    expect(await linesOf(number)).toHaveLength(2);
    expect((await report("group_by=account"))[0]).toMatchObject({ calls: 2 });
  });

  it("for the size too, as far as they are archived", async () => {
    const { id } = await newAccount();
    await deliver([message(at(id, 0.5), at(id, 1.5))]);
    await run(1.3, { USAGE_RETENTION_GB: "0.000000001" });
    expect(await countWritten()).toBe(1);
  });

  it("without an archive as before", async () => {
    const { id } = await newAccount();
    await deliver([message(at(id, 0.5))]);
    await runScheduled({ ...env, ...LONG }, START + 10 * DAY);
    expect(await countWritten()).toBe(0);
    expect(await parts()).toEqual([]);
  });

  it("not where another object has the part's name; other accounts go on", async () => {
    const [one, two] = [await newAccount(), await newAccount()];
    await deliver([message(at(one.id, 0.5), at(two.id, 0.5), at(two.id, 1.5))]);
    await env.TEST_ARCHIVE.put(`calls/${one.number}/2026-05-01T00-1.jsonl.gz`, "not ours");
    await run(10 * 24, LONG);
    expect(logged.join()).toContain("archive.differs");
    await run(10 * 24 + 0.5, LONG);
    const { results } = await env.BOOKS.prepare(
      "select account, data from alerts where type = 'archive.differs'",
    ).all();
    const data = JSON.stringify({ part: `calls/${one.number}/2026-05-01T00-1.jsonl.gz`, why: "other bytes" });
    expect(results).toEqual([{ account: one.id, data }]);
    expect(await countWritten()).toBe(3);
    expect(await linesOf(two.number)).toHaveLength(2);
    await env.TEST_ARCHIVE.delete(`calls/${one.number}/2026-05-01T00-1.jsonl.gz`);
    await run(10 * 24 + 1, LONG);
    expect(await countWritten()).toBe(0);
    expect(await linesOf(one.number)).toHaveLength(1);
  });
});

describe("D1 that fails", () => {
  const failing = (query: string): D1Database =>
    new Proxy(env.BOOKS, {
      get(books, name: keyof D1Database) {
        if (name !== "prepare") return Reflect.get(books, name).bind(books);
        return (sql: string) => {
          if (sql.includes(query)) throw new Error("D1 is down");
          return books.prepare(sql);
        };
      },
    });

  it.each([
    ["insert into call_parts", []],
    ["update call_parts set state = 'kept'", ["planned"]],
    ["set archived_until_ms", ["kept"]],
    ["delete from usage_events", ["kept"]],
  ])("at '%s': no event leaves, and the next run goes on", async (query, states) => {
    const { id, number } = await newAccount();
    await deliver([message(at(id, 0.5), at(id, 0.6))]);
    const short = { USAGE_RETENTION_DAYS: "1" };
    await run(48, { ...short, BOOKS: failing(query) });
    expect((await parts()).map(({ state }) => state)).toEqual(states);
    expect(await countWritten()).toBe(2);
    await run(49, short);
    expect(await parts()).toMatchObject([{ state: "kept", lines: 2 }]);
    expect(new Set((await linesOf(number)).map((line) => line.event_id)).size).toBe(2);
    expect(await countWritten()).toBe(0);
    expect((await report("group_by=account"))[0]).toMatchObject({ calls: 2 });
  });
});

describe("a part that is read back otherwise than it was put", () => {
  it("is not kept, its events stay, and it is told", async () => {
    const { id } = await newAccount();
    await deliver([message(at(id, 0.5))]);
    shop.breaks = "lie";
    await run(48, { USAGE_RETENTION_DAYS: "1" });
    expect(await parts()).toMatchObject([{ state: "planned" }]);
    expect(await countWritten()).toBe(1);
    expect(logged.join()).toContain("archive.differs");
    shop.breaks = null;
    await run(49, { USAGE_RETENTION_DAYS: "1" });
    expect(await parts()).toMatchObject([{ state: "kept" }]);
    expect(await countWritten()).toBe(0);
  });
});

describe("a run that dies", () => {
  it.each(["before put", "after put", "get"] as const)("%s: the next writes the same part, once", async (breaks) => {
    const { id, number } = await newAccount();
    await deliver([message(at(id, 0.5), at(id, 0.6))]);
    shop.breaks = breaks;
    await run(2);
    expect(await parts()).toMatchObject([{ state: "planned", lines: 2 }]);
    // More comes to the hour before it goes on.
    await deliver([message(at(id, 0.55))]);
    shop.breaks = null;
    await run(3);
    expect(await parts()).toMatchObject([
      { state: "kept", lines: 2 },
      { state: "kept", lines: 1 },
    ]);
    expect(new Set((await linesOf(number)).map((line) => line.event_id)).size).toBe(3);
    expect(await until()).toBe(START + HOUR);
  });
});

/** The ledger's past moves to the archive: once, in order, through failures; and nobody's money changes by it. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { foldsAtMs } from "../../src/core/archive/cut.ts";
import { livesOf } from "../../src/platform/account/settings.ts";
import {
  breakStorage,
  call,
  credit,
  expectSound,
  fakeQueue,
  newAccount,
  request,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";
import {
  archived,
  DAY_MS,
  DETAIL,
  emptyArchive,
  type TestBucket,
  testBucket,
  withArchive,
} from "../support/worker/archive.ts";
import { allowedMs } from "../support/worker/slowness.ts";

const HOUR = 3_600_000;
const START = Date.UTC(2031, 4, 10, 12);
let nowMs = START;
const setTime = (ms: number) => {
  nowMs = ms;
  vi.setSystemTime(ms);
};
const advance = (ms: number) => setTime(nowMs + ms);
let logged: string[] = [];
let shop: TestBucket;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  setTime(START);
  logged = [];
  vi.spyOn(console, "log").mockImplementation((line: string) => void logged.push(line));
  await emptyArchive();
  shop = testBucket();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

async function party(balance = 1_000_000) {
  const { stub, number } = await newAccount({ balance });
  await fakeQueue(stub);
  await withArchive(stub, shop.bucket);
  return { stub, number };
}
let called = 0;
/** So many calls, each charged 4. */
async function calls(stub: Stub, count: number, stepMs = 0): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    const id = `call-${++called}`;
    await stub.admit(request(id, 10));
    await stub.settle(settlement(id, 4));
    ids.push(id);
    if (stepMs > 0) advance(stepMs);
  }
  return ids;
}
/** Alarms until the archive has nothing to do now. */
async function settledAlarms(stub: Stub, most = 60) {
  for (let count = 0; count < most; count++) {
    const atMs = await runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
    if (atMs === null || atMs > nowMs + 2_000) return;
    await runDurableObjectAlarm(stub);
    advance(1_000);
  }
  throw new Error("the alarm finds no end");
}
const parts = (stub: Stub) => rows(stub, "SELECT * FROM parts ORDER BY n");
const entries = (stub: Stub) => rows(stub, "SELECT * FROM entries ORDER BY id");
const money = async (stub: Stub) => {
  const { balanceNanoUsd, entriesNanoUsd } = (await stub.audit())!;
  const spent = await stub.view("used", { keys: ["key-k" as never] });
  return { balanceNanoUsd, entriesNanoUsd, spent };
};

describe("a closed hour", () => {
  it("is written once it is over, every entry in one part, in order, ids only", async () => {
    const { stub, number } = await party();
    await stub.credit({ kind: "top_up", amountNanoUsd: 5, reference: "r-1", note: "for Alice" });
    const ids = await calls(stub, 3);
    advance(30 * 60_000);
    await settledAlarms(stub);
    expect(await parts(stub)).toEqual([]);
    setTime(START + HOUR);
    await settledAlarms(stub);
    const [part] = await archived(`ledger/${number}/`);
    expect(part?.name).toBe(`ledger/${number}/2031-05-10T12-1.jsonl.gz`);
    expect(part?.lines.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5]);
    expect(part?.lines.slice(2).map((line) => line.call)).toEqual(ids);
    expect(part?.lines.map((line) => line.balance_nano_usd)).toEqual([
      1_000_000, 1_000_005, 1_000_001, 999_997, 999_993,
    ]);
    expect(await parts(stub)).toMatchObject([
      { state: "kept", lines: 5, nano_usd: 999_993, balance_nano_usd: 999_993 },
    ]);
    expect(JSON.stringify(part?.lines)).not.toMatch(/note|name|digest|Alice/);
    await expectSound(stub);
  });

  it("gets nothing more: what ends late is a line of a later hour", async () => {
    const { stub, number } = await party();
    await stub.admit(request("late-1", 10));
    await calls(stub, 1);
    setTime(START + HOUR);
    await settledAlarms(stub);
    await stub.settle(settlement("late-1", 4));
    advance(HOUR);
    await settledAlarms(stub);
    const found = await archived(`ledger/${number}/`);
    expect(found.map(({ name }) => name.slice(-20))).toEqual(["-05-10T12-1.jsonl.gz", "-05-10T13-2.jsonl.gz"]);
    expect(found[1]?.lines[0]).toMatchObject({ call: "late-1" });
  });

  it("gets nothing more where the clock was set back into it", async () => {
    const { stub, number } = await party();
    await calls(stub, 2);
    setTime(START + HOUR);
    await settledAlarms(stub);
    setTime(START + HOUR / 2);
    await calls(stub, 2);
    setTime(START + HOUR + 60_000);
    await settledAlarms(stub);
    expect(await parts(stub)).toHaveLength(1);
    setTime(START + 2 * HOUR);
    await settledAlarms(stub);
    const found = await archived(`ledger/${number}/`);
    expect(found.map(({ name, lines }) => [name.slice(-15), lines.length])).toEqual(
      [
        ["T12-1.jsonl.gz", 3],
        ["T13-2.jsonl.gz", 2],
      ].map(([name, lines]) => [`${name}`.padStart(15, "0"), lines]),
    );
    await expectSound(stub);
  });

  it("without an archive stays where it is, and wakes nobody", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await fakeQueue(stub);
    await calls(stub, 2);
    setTime(START + 40 * DAY_MS);
    await runDurableObjectAlarm(stub);
    expect(await parts(stub)).toEqual([]);
    expect(await entries(stub)).toHaveLength(3);
  });

  it("of more than 50,000 lines is cut into parts that follow each other", async () => {
    const { stub, number } = await party();
    await rows(
      stub,
      `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, call_id, model, key_id)
       WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT 101500)
       SELECT 1 + value, 'charge', -1, 1000000 - value, ${START} + value, 'c-' || hex(randomblob(16)), 'm', 'key-k' FROM n`,
    );
    await evictDurableObject(stub);
    await withArchive(stub, shop.bucket);
    await fakeQueue(stub);
    await withArchive(stub, shop.bucket);
    setTime(START + HOUR);
    await stub.describe();
    await settledAlarms(stub);
    const kept = await parts(stub);
    expect(kept.map(({ lines, more, state }) => [lines, more, state])).toEqual([
      [50_000, 1, "kept"],
      [50_000, 1, "kept"],
      [1_501, 0, "kept"],
    ]);
    expect(Math.max(...kept.map(({ bytes }) => Number(bytes)))).toBeLessThan(6_000_000);
    const last = await archived(`ledger/${number}/2031-05-10T12-3`);
    expect(last[0]?.lines).toHaveLength(1_501);
    expect((await stub.audit())?.problems.filter((problem) => !problem.startsWith("charges add up"))).toEqual([]);
  });
});

describe("a failure", () => {
  const begun = async () => {
    const made = await party();
    await calls(made.stub, 3);
    setTime(START + HOUR);
    return made;
  };
  /** As after kill -9: the memory is gone, and the rows and the bucket are as they were. */
  const restart = async (stub: Stub) => {
    await evictDurableObject(stub);
    await fakeQueue(stub);
    await withArchive(stub, shop.bucket);
    await stub.describe();
  };
  const whole = async (stub: Stub, number: number) => {
    const found = await archived(`ledger/${number}/`);
    expect(found).toHaveLength(1);
    expect(found[0]?.lines).toHaveLength(4);
    expect(await parts(stub)).toMatchObject([{ state: "kept", lines: 4 }]);
    await expectSound(stub);
  };

  it.each(["before put", "after put", "get"] as const)(
    "of the bucket (%s) is mended by a later alarm",
    async (breaks) => {
      const { stub, number } = await begun();
      shop.breaks = breaks;
      await runDurableObjectAlarm(stub);
      expect(await parts(stub)).toMatchObject([{ state: "planned" }]);
      expect(logged.join()).toContain("archive_failed");
      shop.breaks = null;
      advance(60_000);
      await settledAlarms(stub);
      await whole(stub, number);
    },
  );

  it.each(["before put", "after put", "get"] as const)(
    "of the process (%s) too, and the same part comes",
    async (breaks) => {
      const { stub, number } = await begun();
      shop.breaks = breaks;
      await runDurableObjectAlarm(stub);
      shop.breaks = null;
      // More is booked, and time has passed, before it goes on.
      advance(5 * HOUR);
      await restart(stub);
      await settledAlarms(stub);
      await whole(stub, number);
    },
  );

  it("to read back what was put stops the account's archive, until it is read as it was", async () => {
    const { stub, number } = await begun();
    shop.breaks = "lie";
    await runDurableObjectAlarm(stub);
    expect(await parts(stub)).toMatchObject([{ state: "planned" }]);
    expect(logged.join()).toContain("archive.differs");
    shop.breaks = null;
    advance(HOUR);
    await settledAlarms(stub);
    await whole(stub, number);
  });

  it("of the object's disk at each write leaves neither a gap nor a double", async () => {
    for (const query of ["INSERT INTO parts", "UPDATE parts SET state = 'kept'"]) {
      const { stub, number } = await begun();
      const mend = await breakStorage(stub, (text) => text.includes(query));
      await runDurableObjectAlarm(stub);
      await mend();
      advance(60_000);
      await settledAlarms(stub);
      await whole(stub, number);
      setTime(START);
    }
  });

  it("by other bytes under the name stops the account's archive, loses nothing, and says so", async () => {
    const { stub, number } = await begun();
    const name = `ledger/${number}/2031-05-10T12-1.jsonl.gz`;
    await env.TEST_ARCHIVE.put(name, "of another account's object");
    await runDurableObjectAlarm(stub);
    expect(logged.join()).toContain("archive.differs");
    const told = (await rows(stub, "SELECT event FROM outbox")).filter(({ event }) =>
      `${event}`.includes("archive.differs"),
    );
    expect(told.map(({ event }) => JSON.parse(`${event}`).data)).toEqual([{ part: name, why: "other bytes" }]);
    expect(await (await env.TEST_ARCHIVE.get(name))?.text()).toBe("of another account's object");
    setTime(START + 40 * DAY_MS);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(4);
    expect(await parts(stub)).toMatchObject([{ state: "planned" }]);
    // The operator takes it away.
    await env.TEST_ARCHIVE.delete(name);
    advance(HOUR);
    await runDurableObjectAlarm(stub);
    const found = await archived(`ledger/${number}/`);
    expect(found[0]?.lines).toHaveLength(4);
  });

  it("of the archive holds up neither calls nor events", async () => {
    const { stub } = await begun();
    const queue = await fakeQueue(stub);
    await withArchive(stub, { ...shop.bucket, put: () => new Promise(() => {}) } as unknown as R2Bucket);
    const before = Date.now();
    vi.useRealTimers();
    const startedMs = Date.now();
    await runDurableObjectAlarm(stub);
    expect(Date.now() - startedMs).toBeLessThan(await allowedMs(5_000));
    expect(queue.messages.flatMap(({ events }) => events).length).toBeGreaterThan(0);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(before);
    expect(await stub.admit(request("after", 5))).toMatchObject({ ok: true });
  });
});

describe("folding", () => {
  /** Two hours of calls and a credit in each, archived. */
  async function archivedParty(limits = DETAIL) {
    const made = await party();
    await withArchive(made.stub, shop.bucket, limits);
    for (let hour = 0; hour < 2; hour++) {
      await calls(made.stub, 5, 1_000);
      await credit(made.stub, 7, `credit-${made.number}-${hour}`);
      setTime(START + (hour + 1) * HOUR);
      await settledAlarms(made.stub);
    }
    return made;
  }

  it("takes charges of 35 days out of the object, never credits, and no money changes by it", async () => {
    const { stub } = await archivedParty();
    const span = { fromMs: Date.UTC(2031, 4), toMs: Date.UTC(2031, 5) };
    const before = { money: await money(stub), span: await stub.view("span", span) };
    setTime(START + 35 * DAY_MS);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(13);
    setTime(START + 35 * DAY_MS + 2 * HOUR);
    await settledAlarms(stub);
    expect((await entries(stub)).map(({ kind }) => kind)).toEqual(["top_up", "top_up", "top_up"]);
    expect(await parts(stub)).toMatchObject([
      { state: "folded", folded_lines: 5, folded_nano_usd: -20 },
      { state: "folded", folded_lines: 5, folded_nano_usd: -20 },
    ]);
    expect(await rows(stub, "SELECT * FROM folded")).toEqual([
      { day: Math.floor(START / DAY_MS), key_id: "key-k", team_id: "", model: "m", lines: 10, nano_usd: -40 },
    ]);
    await expectSound(stub);
    expect({ money: await money(stub), span: await stub.view("span", span) }).toEqual(before);
    // After a restart too, and the next entry goes on from the last.
    await evictDurableObject(stub);
    expect({ money: await money(stub), span: await stub.view("span", span) }).toEqual(before);
    await calls(stub, 1);
    expect((await entries(stub)).at(-1)).toMatchObject({ id: 14, balance_nano_usd: before.money.balanceNanoUsd - 4 });
    await expectSound(stub);
  });

  it("begins sooner where the detail is large, but never before 26 hours", async () => {
    const { stub } = await archivedParty({ ms: 35 * DAY_MS, bytes: 500 });
    setTime(START + 26 * HOUR + HOUR - 60_000);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(13);
    setTime(START + 27 * HOUR);
    await settledAlarms(stub);
    // The first part only: what is left is below the limit, or too young.
    expect(await entries(stub)).toHaveLength(8);
    await expectSound(stub);
  });

  it("leaves budgets what was spent in them, over a restart that had not summed it", async () => {
    const { stub } = await archivedParty({ ms: 27 * HOUR, bytes: 1e12 });
    const used = await stub.view("used", { keys: ["key-k" as never] });
    setTime(START + 40 * HOUR);
    await settledAlarms(stub);
    // The holds of the second hour left with that alarm.
    advance(HOUR);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(3);
    await evictDurableObject(stub);
    expect(await stub.view("used", { keys: ["key-k" as never] })).toEqual(used);
    await expectSound(stub);
  });

  it("waits while a hold knows the call: its late end looks for the charge", async () => {
    const { stub } = await archivedParty({ ms: 27 * HOUR, bytes: 1e12 });
    await rows(
      stub,
      `INSERT INTO holds (call_id, seq, state, due_ms, key_id, endpoint, model, amount_nano_usd, counted_tokens, prices,
         price_rule, started_at_ms, admitted_at_ms)
       SELECT call_id, 0, 'released', ${START + 90 * DAY_MS}, 'key-k', 'e', 'm', 0, 0, '{}', '', 0, 0 FROM entries WHERE id = 2`,
    );
    setTime(START + 40 * HOUR);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(13);
    await rows(stub, "DELETE FROM holds");
    advance(HOUR);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(3);
  });

  it("happens not where the part was changed or taken away since it was kept", async () => {
    for (const harm of ["changed", "gone"]) {
      setTime(START);
      const { stub, number } = await archivedParty({ ms: 27 * HOUR, bytes: 1e12 });
      const name = `ledger/${number}/2031-05-10T12-1.jsonl.gz`;
      if (harm === "gone") await env.TEST_ARCHIVE.delete(name);
      else await env.TEST_ARCHIVE.put(name, (await (await env.TEST_ARCHIVE.get(name))!.arrayBuffer()).slice(1));
      setTime(START + 40 * HOUR);
      await settledAlarms(stub);
      expect(await entries(stub)).toHaveLength(13);
      expect(logged.join()).toContain("archive.differs");
      await expectSound(stub);
    }
  });

  it("of 2,000 lines at a time keeps the sum of entries at the balance after each", async () => {
    const { stub } = await party();
    await rows(
      stub,
      `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, call_id, model, key_id)
       WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT 4500)
       SELECT 1 + value, 'charge', -1, 1000000 - value, ${START}, 'd-' || value, 'm' || (value % 3), 'key-k' FROM n`,
    );
    await evictDurableObject(stub);
    await fakeQueue(stub);
    await withArchive(stub, shop.bucket, { ms: 27 * HOUR, bytes: 1e12 });
    setTime(START + HOUR);
    await stub.describe();
    await settledAlarms(stub);
    setTime(START + 40 * HOUR);
    const seen: number[] = [];
    await runInDurableObject(stub, (_, { storage: { sql } }) => {
      const exec = sql.exec;
      Object.defineProperty(sql, "exec", {
        configurable: true,
        value: (query: string, ...bindings: unknown[]) => {
          const answer = exec.call(sql, query, ...bindings);
          if (query.startsWith("UPDATE parts SET state = 'folded'")) {
            const all =
              "SELECT (SELECT coalesce(sum(amount_nano_usd), 0) FROM entries) + (SELECT sum(nano_usd) FROM folded) AS sum, (SELECT count(*) FROM entries) AS left";
            const [{ sum, left }] = exec.call(sql, all).toArray() as [{ sum: number; left: number }];
            seen.push(left);
            if (sum !== 995_500) throw new Error(`the sum is ${sum}`);
          }
          return answer;
        },
      });
    });
    await settledAlarms(stub);
    expect(seen).toEqual([2_501, 501, 1]);
    expect(await rows(stub, "SELECT model, lines FROM folded ORDER BY model")).toEqual([
      { model: "m0", lines: 1_500 },
      { model: "m1", lines: 1_500 },
      { model: "m2", lines: 1_500 },
    ]);
    expect(await stub.describe()).toMatchObject({ balanceNanoUsd: 995_500 });
    expect((await stub.audit())?.problems).toEqual([]);
  });

  it.each(["get", "lie"] as const)("waits while the part cannot be matched once more (%s)", async (breaks) => {
    const { stub } = await archivedParty({ ms: 27 * HOUR, bytes: 1e12 });
    shop.breaks = breaks;
    setTime(START + 40 * HOUR);
    await runDurableObjectAlarm(stub);
    expect(await entries(stub)).toHaveLength(13);
    expect((await parts(stub)).map(({ state }) => state)).toEqual(["kept", "kept"]);
    shop.breaks = null;
    advance(HOUR);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(3);
    await expectSound(stub);
  });

  it.each(["INSERT INTO folded", "DELETE FROM entries"])("whose '%s' fails leaves all as it was", async (query) => {
    const { stub } = await archivedParty({ ms: 27 * HOUR, bytes: 1e12 });
    const mend = await breakStorage(stub, (text) => text.startsWith(query));
    setTime(START + 40 * HOUR);
    await runDurableObjectAlarm(stub);
    expect([(await entries(stub)).length, await rows(stub, "SELECT * FROM folded")]).toEqual([13, []]);
    await mend();
    advance(60_000);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(3);
    await expectSound(stub);
  });

  it("that dies in the middle of a part goes on with it", async () => {
    const { stub } = await archivedParty({ ms: 27 * HOUR, bytes: 1e12 });
    const mend = await breakStorage(stub, (text) => text.startsWith("UPDATE parts SET state = 'folded'"));
    setTime(START + 40 * HOUR);
    await runDurableObjectAlarm(stub);
    // Nothing of the failed transaction stands.
    expect(await entries(stub)).toHaveLength(13);
    await mend();
    advance(60_000);
    await settledAlarms(stub);
    expect(await entries(stub)).toHaveLength(3);
    await expectSound(stub);
  });

  it("keeps to the defaults where a setting is no number above 0, and never to less than 26 hours", () => {
    const of = (days: string, bytes: string) =>
      livesOf({ ARCHIVE: env.TEST_ARCHIVE, LEDGER_DETAIL_DAYS: days, LEDGER_DETAIL_BYTES: bytes } as unknown as Env)
        .archive;
    for (const odd of ["", "0", "-3", "many", "NaN"]) expect(of(odd, odd)).toEqual(DETAIL);
    expect(of("40", "2e9")).toEqual({ ms: 40 * DAY_MS, bytes: 2e9 });
    expect(foldsAtMs(START, 1, of("0.01", "0.5")!)).toBe(START + 27 * HOUR);
    expect(livesOf({} as Env).archive).toBeNull();
  });

  it("leaves an unknown end of long ago an unknown end", async () => {
    const { stub } = await archivedParty({ ms: 27 * HOUR, bytes: 1e12 });
    expect(await stub.settle(settlement("call-none", 4))).toEqual({ state: "unknown", chargedNanoUsd: 0 });
    expect(call("x")).toBe("x");
  });
});

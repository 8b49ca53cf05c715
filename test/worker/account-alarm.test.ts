import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import {
  breakStorage,
  call,
  expectSound,
  type FakeQueue,
  fakeClock,
  fakeQueue,
  newAccount,
  releaseOf,
  request,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";

let advance: (byMs: number) => void;
beforeEach(() => {
  advance = fakeClock();
  // What failed in an alarm is logged; these tests make it fail often.
  vi.spyOn(console, "log").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const nextAlarm = (stub: Stub) => runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
/** How long from now until the alarm; null: none is set. */
const untilAlarm = async (stub: Stub) => {
  const atMs = await nextAlarm(stub);
  return atMs === null ? null : atMs - Date.now();
};
const events = (queue: FakeQueue): UsageEvent[] => queue.messages.flatMap((message) => message.events);

/** An account whose calls c0... are settled. */
async function settled(count: number) {
  const { stub, number } = await newAccount({ balance: 1_000_000 });
  const queue = await fakeQueue(stub);
  for (let index = 0; index < count; index++) {
    await stub.admit(request(`c${index}`, 10));
    await stub.settle(settlement(`c${index}`, 4));
  }
  return { stub, number, queue };
}

describe("holds that nobody ends", () => {
  it("are ended by the alarm: no charge, the operator's loss, one event", async () => {
    const { stub, number } = await newAccount({ balance: 100 });
    const queue = await fakeQueue(stub);
    await stub.admit(request("c1", 60));
    expect(await untilAlarm(stub)).toBe(120_000);
    advance(120_000);
    await runDurableObjectAlarm(stub);
    expect(events(queue)).toEqual([
      expect.objectContaining({
        eventId: "c1",
        account: `acc-${number}`,
        key: "key-k",
        outcome: "expired",
        source: "none",
        priceNanoUsd: 0,
        lossNanoUsd: 60,
      }),
    ]);
    expect(await stub.audit()).toMatchObject({
      ok: true,
      balanceNanoUsd: 100,
      heldNanoUsd: 0,
      operatorLossNanoUsd: 60,
    });
  });

  it("are ended at the next admission where the alarm never fires", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(request("c1", 100));
    await runInDurableObject(stub, (_, { storage }) => storage.deleteAlarm());
    advance(119_999);
    expect(await stub.admit(request("c2", 100))).toMatchObject({ refusal: { kind: "no_credit" } });
    advance(1);
    expect(await stub.admit(request("c3", 100))).toMatchObject({ ok: true });
    await expectSound(stub);
  });

  it("are ended though the alarm's work throws seven times, and the alarm stays set", async () => {
    const { stub } = await newAccount({ balance: 100 });
    const queue = await fakeQueue(stub);
    await stub.admit(request("c1", 60));
    const mend = await breakStorage(stub, (query) => query.startsWith("UPDATE holds"));
    for (let time = 0; time < 7; time++) {
      advance(120_000);
      expect(await runDurableObjectAlarm(stub)).toBe(true);
      expect(await untilAlarm(stub)).toBeGreaterThan(0);
    }
    await mend();
    advance(10_000);
    await runDurableObjectAlarm(stub);
    expect(events(queue)).toMatchObject([{ eventId: "c1", outcome: "expired" }]);
    expect(await stub.audit()).toMatchObject({ ok: true, openHolds: 0, operatorLossNanoUsd: 60 });
  });

  it("settled late are charged once, by a second entry and a second event with the differences", async () => {
    const { stub } = await newAccount({ balance: 100 });
    const queue = await fakeQueue(stub);
    await stub.admit(request("c1", 60));
    advance(120_000);
    await runDurableObjectAlarm(stub);
    expect(await stub.settle(settlement("c1", 25))).toEqual({ state: "expired", chargedNanoUsd: 25 });
    expect(await stub.settle(settlement("c1", 50))).toEqual({ state: "expired", chargedNanoUsd: 25 });
    advance(10_000);
    await runDurableObjectAlarm(stub);
    expect(events(queue)).toMatchObject([
      { eventId: "c1", outcome: "expired", priceNanoUsd: 0, lossNanoUsd: 60 },
      { eventId: "c1.late", late: true, outcome: "completed", priceNanoUsd: 25, lossNanoUsd: -60 },
    ]);
    expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 75, operatorLossNanoUsd: 0, outbox: 2 });
  });
});

describe("the alarm", () => {
  it("is set for what is due first, and moved no more than that asks", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const sets = vi.fn();
    await runInDurableObject(stub, (_, { storage }) => {
      const setAlarm = storage.setAlarm.bind(storage);
      storage.setAlarm = (time) => {
        sets(time);
        return setAlarm(time);
      };
    });
    for (let index = 0; index < 20; index++) {
      await stub.admit(request(`c${index}`));
      await stub.settle(settlement(`c${index}`));
      advance(20);
    }
    expect(await untilAlarm(stub)).toBe(600);
    expect(sets.mock.calls.length).toBeLessThanOrEqual(2);
  });

  it("that was lost is set again by the next call that finds open work", async () => {
    const { stub } = await settled(1);
    await runInDurableObject(stub, (_, { storage }) => storage.deleteAlarm());
    advance(1_000 + 5_001);
    await stub.describe();
    expect(await untilAlarm(stub)).toBe(0);
  });

  it("is set again after a restart", async () => {
    const { stub } = await settled(1);
    await runInDurableObject(stub, (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(stub);
    await stub.describe();
    expect(await untilAlarm(stub)).toBeLessThanOrEqual(1_000);
  });

  it("prunes ended holds after a day, in bounded bites, and leaves the open ones", async () => {
    const { stub } = await settled(3);
    await rows(
      stub,
      `INSERT INTO holds (call_id, seq, state, due_ms, key_id, endpoint, model, amount_nano_usd, counted_tokens, prices,
         price_rule, started_at_ms, admitted_at_ms)
       SELECT 'old' || value, 0, 'released', 5, 'key-k', 'e', 'm', 0, 0, '{}', '', 0, 0
       FROM (WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT 900) SELECT value FROM n)`,
    );
    await evictDurableObject(stub);
    await fakeQueue(stub);
    const kept = async () => (await rows(stub, "SELECT count(*) AS n FROM holds"))[0]?.n;
    await runDurableObjectAlarm(stub);
    expect(await kept()).toBe(403);
    advance(1_000);
    await runDurableObjectAlarm(stub);
    expect(await kept()).toBe(3);
    advance(24 * 3_600_000);
    await stub.admit(request("open", 5));
    expect(await stub.settle(settlement("c0", 9))).toEqual({ state: "settled", chargedNanoUsd: 4 });
    advance(3_600_000 + 600_000);
    await stub.renew(call("open"), null);
    await runDurableObjectAlarm(stub);
    expect(await rows(stub, "SELECT call_id FROM holds")).toEqual([{ call_id: "open" }]);
    // Its hold is gone; its entry is the answer.
    expect(await stub.settle(settlement("c0", 9))).toEqual({ state: "settled", chargedNanoUsd: 4 });
    expect(await stub.release(releaseOf("c0"))).toEqual({ state: "unknown", chargedNanoUsd: 0 });
  });
});

describe("the outbox", () => {
  it("ships each ended call's event a second after the first, many in one message", async () => {
    const { stub, number, queue } = await settled(3);
    await stub.admit(request("failed", 10));
    await stub.release(releaseOf("failed"));
    expect(await untilAlarm(stub)).toBe(1_000);
    await runDurableObjectAlarm(stub);
    expect(queue.messages).toHaveLength(1);
    expect(queue.messages[0]?.account).toBe(number);
    expect(events(queue).map((event) => [event.eventId, event.outcome, event.priceNanoUsd])).toEqual([
      ["c0", "completed", 4],
      ["c1", "completed", 4],
      ["c2", "completed", 4],
      ["failed", "failed", 0],
    ]);
  });

  it("says all that is known of a call, and nothing of its content or its key", async () => {
    const { stub, number, queue } = await settled(0);
    await stub.admit(request("c1", 10, { alias: "m" }));
    advance(40);
    const usage = { input_tokens: 9, output_tokens: 4 };
    await stub.settle(
      settlement("c1", usage, { outcome: "stream_broken", costNanoUsd: 7, reading: { source: "own_count", usage } }),
    );
    await runDurableObjectAlarm(stub);
    expect(events(queue)).toEqual([
      {
        eventId: "c1",
        account: `acc-${number}`,
        team: null,
        key: "key-k",
        endpoint: "chat.completions",
        model: "m",
        alias: "m",
        upstream: "u1",
        targetModel: "m",
        region: "eu",
        outcome: "stream_broken",
        reason: null,
        status: 200,
        source: "own_count",
        usage,
        priceNanoUsd: 10,
        costNanoUsd: 7,
        overrunNanoUsd: 3,
        lossNanoUsd: 0,
        priceRule: "book:m:markup=0",
        startedAtMs: Date.now() - 40,
        endedAtMs: Date.now(),
        latencyMs: 5,
        firstByteMs: 2,
        country: null,
        detail: {
          costs: null,
          entry: 2,
          heldNanoUsd: 10,
          prices: { input_tokens: 1_000_000, output_tokens: 1_000_000 },
          stream: false,
          tries: [],
        },
      },
    ]);
  });

  it("keeps an event until the consumer has confirmed it, over restarts too", async () => {
    const { stub } = await settled(2);
    await runDurableObjectAlarm(stub);
    await evictDurableObject(stub);
    expect(await stub.audit()).toMatchObject({ outbox: 2 });
    await stub.shipped([call("c0"), call("nobody")]);
    expect(await stub.audit()).toMatchObject({ outbox: 1 });
    await stub.shipped([call("c1"), call("c1")]);
    expect(await stub.audit()).toMatchObject({ outbox: 0 });
    expect(await rows(stub, "SELECT * FROM shipments")).toEqual([]);
  });

  it("sends again what nobody confirms for two minutes, and only that", async () => {
    const { stub } = await settled(3);
    await runDurableObjectAlarm(stub);
    await stub.shipped([call("c1")]);
    await evictDurableObject(stub);
    const queue = await fakeQueue(stub);
    advance(119_999);
    await runDurableObjectAlarm(stub);
    expect(queue.messages).toEqual([]);
    advance(1);
    await runDurableObjectAlarm(stub);
    expect(events(queue).map((event) => event.eventId)).toEqual(["c0", "c2"]);
    await stub.shipped([call("c0"), call("c2")]);
    advance(120_000);
    await runDurableObjectAlarm(stub);
    expect(queue.messages).toHaveLength(1);
  });

  it("loses nothing to a queue that is down for an hour, waits longer each time, and fails no call meanwhile", async () => {
    const { stub, queue } = await settled(2);
    queue.failures = Number.POSITIVE_INFINITY;
    const waits: number[] = [];
    for (let minute = 0; minute < 60; minute++) {
      await runDurableObjectAlarm(stub);
      waits.push((await untilAlarm(stub)) ?? -1);
      advance(60_000);
      await stub.admit(request(`d${minute}`, 10));
      expect(await stub.settle(settlement(`d${minute}`, 4))).toMatchObject({ state: "settled" });
    }
    expect(waits.slice(0, 8)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    queue.failures = 0;
    await runDurableObjectAlarm(stub);
    expect(new Set(events(queue).map((event) => event.eventId)).size).toBe(62);
    expect(events(queue)).toHaveLength(62);
    expect(await stub.audit()).toMatchObject({ ok: true, outbox: 62 });
  });

  it("that was sent once, and not again for the queue threw, is not forgotten", async () => {
    const { stub, queue } = await settled(1);
    await runDurableObjectAlarm(stub);
    advance(120_000);
    queue.failures = 1;
    await runDurableObjectAlarm(stub);
    advance(2_000);
    await runDurableObjectAlarm(stub);
    expect(events(queue).map((event) => event.eventId)).toEqual(["c0", "c0"]);
  });

  it("packs messages below the queue's size, a bounded number for one alarm, and goes on with the rest", async () => {
    const { stub } = await settled(1);
    const filler = JSON.stringify({ padding: "x".repeat(30_000) });
    for (let index = 0; index < 40; index++)
      await rows(stub, "INSERT INTO outbox VALUES (?, ?, ?)", 10 + index, `e${index}`, filler);
    await evictDurableObject(stub);
    const queue = await fakeQueue(stub);
    await runDurableObjectAlarm(stub);
    expect(queue.messages).toHaveLength(10);
    for (const message of queue.messages) expect(JSON.stringify(message).length).toBeLessThan(128_000);
    expect(await untilAlarm(stub)).toBe(1_000);
    advance(1_000);
    await runDurableObjectAlarm(stub);
    expect(events(queue)).toHaveLength(41);
  });

  it("stops sending while a great many messages are unconfirmed", async () => {
    const { stub } = await settled(0);
    const filler = JSON.stringify({ padding: "x".repeat(99_000) });
    for (let index = 1; index <= 80; index++)
      await rows(stub, "INSERT INTO outbox VALUES (?, ?, ?)", index, `e${index}`, filler);
    await evictDurableObject(stub);
    const queue = await fakeQueue(stub);
    await stub.describe();
    for (let time = 0; time < 9; time++) {
      await runDurableObjectAlarm(stub);
      advance(1_000);
    }
    expect(queue.messages).toHaveLength(64);
    await stub.shipped(Array.from({ length: 64 }, (_, index) => call(`e${index + 1}`)));
    await runDurableObjectAlarm(stub);
    await runDurableObjectAlarm(stub);
    expect(queue.messages).toHaveLength(80);
  });
});

describe("rows written", () => {
  it("for one call are two at admission and four at settlement, whatever limits are set", async () => {
    const all = {
      rpm_limit: 99,
      tpm_limit: 9_999,
      rpd_limit: 99,
      max_parallel_requests: 9,
      free_rpm_limit: 9,
      maxGpus: 99,
      maxBudgetNanoUsd: 9_999,
      budgetDuration: "day",
    } as const;
    const { stub } = await newAccount({
      balance: 1_000,
      account: { limits: all },
      team: { limits: all },
      key: { limits: all },
    });
    let written = 0;
    await runInDurableObject(stub, (_, { storage: { sql } }) => {
      const exec = sql.exec;
      Object.defineProperty(sql, "exec", {
        value: (query: string, ...bindings: unknown[]) => {
          const cursor = exec.call(sql, query, ...bindings);
          if (/^\s*(INSERT|UPDATE|DELETE)/.test(query)) written += cursor.rowsWritten;
          return cursor;
        },
      });
    });
    const during = async (step: () => Promise<unknown>) => {
      written = 0;
      await step();
      return written;
    };
    expect(await during(() => stub.admit(request("c1", 10)))).toBe(2);
    expect(await during(() => stub.settle(settlement("c1", 4)))).toBe(4);
    await stub.admit(request("c2", 10));
    expect(await during(() => stub.release(releaseOf("c2")))).toBe(3);
    expect(await during(() => stub.authorize(request("c2").keyDigest))).toBe(0);
  });
});

it("an account's object that fills up tells the operator at 70 %, once an hour", async () => {
  const { stub } = await newAccount({ balance: 10 });
  const told = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const filling = () => told.mock.calls.filter(([line]) => String(line).includes("store.filling"));
  await runInDurableObject(stub, (_, { storage }) => {
    Object.defineProperty(storage.sql, "databaseSize", { configurable: true, value: 7_000_000_000 });
  });
  for (let alarm = 0; alarm < 3; alarm++) {
    await runInDurableObject(stub, (_, { storage }) => storage.setAlarm(Date.now() + 3_600_000));
    await runDurableObjectAlarm(stub);
  }
  expect(filling()).toHaveLength(1);
  expect(JSON.parse(String(filling()[0]?.[0]))).toMatchObject({ store: "account", bytes: 7_000_000_000 });
});

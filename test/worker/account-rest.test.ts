/** An account at rest: thirty simulated days, and what it still does in them. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { asId, type CallId } from "../../src/core/ids.ts";
import {
  call,
  expectSound,
  fakeClock,
  fakeQueue,
  limits,
  newAccount,
  newObject,
  releaseOf,
  request,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";

const DAY = 86_400_000;
const MINUTE = 60_000;
let advance: (byMs: number) => void;
beforeEach(() => {
  advance = fakeClock();
});
afterEach(() => {
  vi.useRealTimers();
});

const nextAlarm = (stub: Stub) => runInDurableObject(stub, (_, { storage }) => storage.getAlarm());

/** Rows written and alarms set from now on, until the object is evicted. */
async function watch(stub: Stub) {
  const seen = { rows: 0, alarms: 0 };
  await runInDurableObject(stub, (_, { storage }) => {
    const exec = storage.sql.exec.bind(storage.sql);
    const setAlarm = storage.setAlarm.bind(storage);
    Object.defineProperty(storage.sql, "exec", {
      configurable: true,
      value: (query: string, ...bindings: unknown[]) => {
        const cursor = exec(query, ...bindings);
        if (/^\s*(INSERT|UPDATE|DELETE)/.test(query)) seen.rows += cursor.rowsWritten;
        return cursor;
      },
    });
    storage.setAlarm = (time) => {
      seen.alarms++;
      return setAlarm(time);
    };
  });
  return seen;
}

/** Lets time pass from alarm to alarm. Gives how many fired. */
async function rest(stub: Stub, forMs: number): Promise<number> {
  const untilMs = Date.now() + forMs;
  for (let fired = 0; ; fired++) {
    const atMs = await nextAlarm(stub);
    if (atMs === null || atMs > untilMs) {
      advance(untilMs - Date.now());
      return fired;
    }
    advance(Math.max(0, atMs - Date.now()));
    await runDurableObjectAlarm(stub);
  }
}

it("wakes for what it still has to do, prunes it all, and then neither wakes nor writes", async () => {
  const { stub } = await newAccount({ balance: 10_000 });
  const queue = await fakeQueue(stub);
  for (let index = 0; index < 30; index++) {
    const keyHmac = `k${index}`;
    await stub.admit(request(`c${index}`, 2, { idempotency: { keyHmac, bodyHmac: "b" } as never }));
    if (index === 5) {
      await stub.recordOwnership({
        kind: "response",
        id: "r",
        callId: call("c5"),
        upstream: "u",
        targetModel: "m",
        model: "m",
        continues: null,
      });
    }
    await stub.settle(settlement(`c${index}`, 1));
  }
  await rows(
    stub,
    `INSERT INTO holds (call_id, seq, state, due_ms, key_id, endpoint, model, amount_nano_usd, counted_tokens, prices,
       price_rule, started_at_ms, admitted_at_ms)
     SELECT 'more' || value, 0, 'released', ?, 'key-k', 'e', 'm', 0, 0, '{}', '', 0, 0
     FROM (WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT 700) SELECT value FROM n)`,
    Date.now() + 25 * 3_600_000,
  );
  await rows(
    stub,
    `INSERT INTO jobs (id, call_id, model, upstream, target_model, unit, cost_nano_usd, least_tokens, most_tokens,
       submitted_at_ms, deadline_ms, state) VALUES ('j', 'c9', 'm', 'u', 'm', 'video_tokens_720p', 1, 1, 1, ?, 0, 'failed')`,
    Date.now(),
  );
  expect(await rest(stub, 10_000)).toBeLessThan(12);
  await stub.shipped(
    queue.messages.flatMap(({ events, alerts = [] }) => [
      ...events.map(({ eventId }) => eventId),
      ...alerts.map(({ id }) => asId<CallId>(id)),
    ]),
  );
  // Two minutes, then once a table is due: 24 h to 25 h for most, 7 days for jobs; over 700 rows take more than one
  // bite.
  expect(await rest(stub, 30 * DAY)).toBeLessThan(12);
  for (const table of ["holds", "idempotency", "requests_by_slot", "conversations", "owned_ids", "jobs", "outbox"]) {
    expect((await rows(stub, `SELECT count(*) AS n FROM ${table}`))[0], table).toEqual({ n: 0 });
  }
  expect(await nextAlarm(stub)).toBeNull();

  const seen = await watch(stub);
  expect(await rest(stub, 30 * DAY)).toBe(0);
  await stub.describe();
  expect(seen).toEqual({ rows: 0, alarms: 0 });
  expect(await nextAlarm(stub)).toBeNull();
  await evictDurableObject(stub);
  await stub.describe();
  expect(await nextAlarm(stub)).toBeNull();
  await expectSound(stub);
});

it("one that was opened and never called, or never opened, has no alarm though one fired", async () => {
  const { stub } = await newAccount({ balance: 5 });
  const { stub: never } = newObject();
  for (const each of [stub, never]) {
    await runInDurableObject(each, (_, { storage }) => storage.setAlarm(Date.now() + 1_000));
    advance(1_000);
    await runDurableObjectAlarm(each);
    expect(await nextAlarm(each)).toBeNull();
  }
});

it("is woken again by its next call", async () => {
  const { stub } = await newAccount({ balance: 100 });
  await runInDurableObject(stub, (_, { storage }) => storage.setAlarm(Date.now() + 1_000));
  advance(1_000);
  await runDurableObjectAlarm(stub);
  await stub.admit(request("c1", 5, { keyDigest: asId("digest-k") }));
  expect(((await nextAlarm(stub)) ?? 0) - Date.now()).toBe(120_000);
});

it("keeps no row of a call an hour after its end, and still knows what is to be known of it", async () => {
  const { stub } = await newAccount({ balance: 1_000, key: { limits: limits({ rpd_limit: 5 }) } });
  await fakeQueue(stub);
  for (const id of ["settled", "released", "expired", "open"]) await stub.admit(request(id, 100));
  await stub.settle(settlement("settled", 40));
  await stub.release(releaseOf("released", 0));
  await stub.renew(call("expired"), null);
  const holds = async () => (await rows(stub, "SELECT call_id FROM holds ORDER BY call_id")).map((row) => row.call_id);
  await rest(stub, 30 * MINUTE);
  await stub.admit(request("running", 100));
  expect(await holds()).toEqual(["expired", "open", "released", "running", "settled"]);
  for (let minute = 0; minute < 45; minute++) {
    await rest(stub, MINUTE);
    await stub.renew(call("running"), null);
  }
  // Two expired unrenewed; one runs on.
  expect(await holds()).toEqual(["expired", "open", "running"]);
  await evictDurableObject(stub);
  // A repeated end finds its entry; a repeated release does nothing.
  expect(await stub.settle(settlement("settled", 90))).toEqual({ state: "settled", chargedNanoUsd: 40 });
  expect(await stub.release(releaseOf("released", 0))).toMatchObject({ chargedNanoUsd: 0 });
  expect(await stub.settle(settlement("expired", 70))).toEqual({ state: "expired", chargedNanoUsd: 70 });
  // All five count for a day, though three rows are left.
  expect(await stub.admit(request("sixth", 1))).toMatchObject({ refusal: { kind: "rate_limit", limit: "rpd_limit" } });
  expect((await stub.describe())?.balanceNanoUsd).toBe(1_000 - 40 - 70);
  await expectSound(stub);
  await rest(stub, 26 * 60 * MINUTE);
  expect(await holds()).toEqual([]);
});

it("lets go of a day's ended rows of before, a bite at a time, between the calls", async () => {
  const { stub } = await newAccount({ balance: 1_000 });
  await rows(
    stub,
    `INSERT INTO holds (call_id, seq, state, due_ms, key_id, endpoint, model, amount_nano_usd, counted_tokens, prices,
       price_rule, started_at_ms, admitted_at_ms, ended_at_ms)
     SELECT 'old' || value, 0, iif(value % 100, 'settled', 'expired'), ?1 + value, 'key-k', 'e', 'm', 0, 0, '{}', '', 0, 0, 0
     FROM (WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT 1200) SELECT value FROM n)`,
    Date.now() + 23 * 60 * MINUTE,
  );
  await evictDurableObject(stub);
  await stub.admit(request("now", 10));
  await rest(stub, MINUTE);
  expect(await rows(stub, "SELECT state, count(*) AS n FROM holds GROUP BY state ORDER BY state")).toEqual([
    { state: "expired", n: 12 },
    { state: "open", n: 1 },
  ]);
});

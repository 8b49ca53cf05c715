/** Holds that expire under a call: what renewals reported is charged, and one late end corrects it. */

import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { UsageEvent } from "../../src/core/account/hold.ts";
import { sumDays } from "../../src/platform/d1/usage-days.ts";
import { sumHours } from "../../src/platform/d1/usage-hours.ts";
import { reportUsage } from "../../src/platform/d1/usage-report.ts";
import {
  call,
  expectSound,
  fakeClock,
  fakeQueue,
  keyId,
  limits,
  newAccount,
  newObject,
  progress,
  releaseOf,
  request,
  rows,
  type Stub,
  settlement,
  teamId,
} from "../support/worker/account-support.ts";
import { manager } from "../support/worker/manager.ts";
import { deliver, emptyUsage } from "../support/worker/usage-support.ts";

const MINUTE = 60_000;
const limitsOf = (maxBudgetNanoUsd: number) => limits({ maxBudgetNanoUsd, budgetDuration: "total" });
let advance: (byMs: number) => void;
let lines: string[];
beforeEach(() => {
  advance = fakeClock();
  lines = [];
  vi.spyOn(console, "log").mockImplementation((line) => void lines.push(line));
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** A call whose hold has expired after it reported so many tokens. */
async function expired(stub: Stub, id: string, held: number, reported: number | null) {
  await stub.admit(request(id, held));
  if (reported !== null) await stub.renew(call(id), progress(reported));
  advance(121_000);
  await expectSound(stub);
}
const entriesOf = (stub: Stub, id: string) =>
  rows(stub, "SELECT amount_nano_usd AS amount FROM entries WHERE call_id = ? ORDER BY id", id);
const eventsOf = async (stub: Stub) =>
  (await rows(stub, "SELECT event FROM outbox WHERE event_id NOT LIKE 'evt_%' ORDER BY seq")).map(
    ({ event }) => JSON.parse(String(event)) as UsageEvent,
  );
const sum = (events: readonly UsageEvent[], field: "priceNanoUsd" | "costNanoUsd" | "lossNanoUsd" | "latencyMs") =>
  events.reduce((total, event) => total + event[field], 0);

describe("a renewal", () => {
  it("never lets a hold live past its longest time, and tells the pipeline to end one TTL earlier", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const admission = await stub.admit(request("c1", 10));
    expect(admission).toMatchObject({ ok: true, hold: { longestCallMs: 58 * MINUTE } });
    for (let minute = 1; minute < 60; minute++) {
      advance(MINUTE);
      expect(await stub.renew(call("c1"), progress(minute))).toBe(true);
    }
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 10 });
    advance(MINUTE - 1);
    await stub.renew(call("c1"), null);
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 10 });
    advance(1);
    expect(await stub.describe()).toMatchObject({ heldNanoUsd: 0, balanceNanoUsd: 990 });
    expect(await stub.renew(call("c1"), null)).toBe(false);
  });

  it("without a report keeps the one before, over a restart too", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 100));
    await stub.renew(call("c1"), progress(30));
    await stub.renew(call("c1"), null);
    await evictDurableObject(stub);
    advance(121_000);
    expect(await stub.describe()).toMatchObject({ balanceNanoUsd: 970 });
  });
});

describe("a hold that expires", () => {
  it("is charged what was reported, by one entry; the event says that and the rest as the loss", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 100));
    await stub.renew(call("c1"), progress(30, { costNanoUsd: 7 }));
    advance(121_000);
    expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 970, operatorLossNanoUsd: 70 });
    expect(await entriesOf(stub, "c1")).toEqual([{ amount: -30 }]);
    expect(await eventsOf(stub)).toEqual([
      expect.objectContaining({
        eventId: "c1",
        outcome: "expired",
        reason: "hold_expired",
        source: "own_count",
        upstream: "u1",
        usage: { input_tokens: 30 },
        priceNanoUsd: 30,
        costNanoUsd: 7,
        lossNanoUsd: 70,
      }),
    ]);
  });

  it("of which something was reported has an entry at no price too; where nothing was, none", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await expired(stub, "told", 100, 0);
    await expired(stub, "untold", 100, null);
    expect(await entriesOf(stub, "told")).toEqual([{ amount: 0 }]);
    expect(await entriesOf(stub, "untold")).toEqual([]);
  });
});

describe("a settlement after expiry", () => {
  it.each<[string, number | null, number, number[]]>([
    ["nothing reported", null, 60, [-60]],
    ["less reported", 20, 60, [-20, -40]],
    ["as much reported", 60, 60, [-60, 0]],
    ["more reported", 90, 60, [-90, 30]],
    ["more than held used", 20, 500, [-20, -80]],
  ])("brings the charge to what was used, once: %s", async (_, reported, used, entries) => {
    const { stub } = await newAccount({ balance: 1_000 });
    await expired(stub, "c1", 100, reported);
    const due = Math.min(used, 100);
    const said = settlement("c1", used, { costNanoUsd: 9, latencyMs: 700 });
    for (let time = 0; time < 3; time++) {
      expect(await stub.settle(said)).toEqual({ state: "expired", chargedNanoUsd: due });
    }
    expect(await stub.release(releaseOf("c1"))).toEqual({ state: "expired", chargedNanoUsd: due });
    expect(await entriesOf(stub, "c1")).toEqual(entries.map((amount) => ({ amount })));
    expect(await stub.audit()).toMatchObject({
      ok: true,
      balanceNanoUsd: 1_000 - due,
      operatorLossNanoUsd: 0,
      overrunNanoUsd: used - due,
    });
    const events = await eventsOf(stub);
    expect(events.map(({ eventId, late }) => [eventId, late])).toEqual([
      ["c1", undefined],
      ["c1.late", true],
    ]);
    expect(sum(events, "priceNanoUsd")).toBe(due);
    expect(sum(events, "costNanoUsd")).toBe(9);
    expect(sum(events, "lossNanoUsd")).toBe(0);
    expect(sum(events, "latencyMs")).toBe(700);
    expect(events.reduce((total, { usage }) => total + (usage.input_tokens ?? 0), 0)).toBe(used);
  });

  it("takes no more than a budget of any level leaves now, and the rest stays lost", async () => {
    const budget = (nanoUsd: number) => ({ limits: limitsOf(nanoUsd) });
    const { stub } = await newAccount({ balance: 1_000, account: budget(500), team: budget(70), key: budget(200) });
    await expired(stub, "c1", 60, 10);
    // The team has spent 10 and holds 45: 15 are left.
    await stub.admit(request("c2", 45));
    expect(await stub.settle(settlement("c1", 60))).toEqual({ state: "expired", chargedNanoUsd: 25 });
    expect(await stub.audit()).toMatchObject({ ok: true, operatorLossNanoUsd: 35 });
    await stub.settle(settlement("c2", 45));
    expect(await stub.admit(request("c3", 1))).toMatchObject({ refusal: { kind: "budget_spent", level: "team" } });
  });

  it("is judged by the budgets of its key though that was revoked and its team deleted meanwhile", async () => {
    const { stub } = await newAccount({ balance: 1_000, team: { limits: limitsOf(30) } });
    await stub.admit(request("c1", 30));
    await manager(stub).revokeKey(keyId("k"));
    await manager(stub).deleteTeam(teamId("t"));
    advance(121_000);
    await expectSound(stub);
    expect(await stub.settle(settlement("c1", 99))).toEqual({ state: "expired", chargedNanoUsd: 30 });
    await expectSound(stub);
  });

  it("that gives back makes room in the budget window of its charge, and in no other", async () => {
    const { stub } = await newAccount({ balance: 1_000, key: { limits: { ...limitsOf(100), budgetDuration: "day" } } });
    await expired(stub, "c1", 100, 90);
    advance(86_400_000);
    await stub.admit(request("today", 100));
    await stub.settle(settlement("today", 100));
    expect(await stub.settle(settlement("c1", 10))).toEqual({ state: "expired", chargedNanoUsd: 10 });
    expect(await stub.admit(request("more", 1))).toMatchObject({ refusal: { kind: "budget_spent" } });
    await evictDurableObject(stub);
    expect(await stub.admit(request("more", 1))).toMatchObject({ refusal: { kind: "budget_spent" } });
    await expectSound(stub);
  });

  it("leaves reports with one call, its true figures and no error, whatever is summed between", async () => {
    await emptyUsage();
    const { stub, number } = await newAccount({ balance: 1_000 });
    const queue = await fakeQueue(stub);
    await expired(stub, "c1", 100, 90);
    await runDurableObjectAlarm(stub);
    await deliver(queue.messages.splice(0));
    advance(3 * 3_600_000);
    await sumHours(env.BOOKS, Date.now(), 10);
    await stub.settle(settlement("c1", 60, { latencyMs: 500, costNanoUsd: 6 }));
    advance(2_000);
    await runDurableObjectAlarm(stub);
    const query = { fromMs: 0, toMs: Date.now() + 1e9, groupBy: [], account: `acc-${number}`, limit: 9, offset: 0 };
    const wanted = {
      calls: 1,
      errors: 0,
      latencyMs: 500,
      priceNanoUsd: 60n,
      costNanoUsd: 6n,
      lossNanoUsd: 0n,
      usage: expect.objectContaining({ input_tokens: 60 }),
    };
    await deliver(queue.messages.splice(0));
    expect(await reportUsage(env.BOOKS, query)).toMatchObject([wanted]);
    advance(3 * 86_400_000);
    await sumHours(env.BOOKS, Date.now(), 100);
    await sumDays(env.BOOKS, 10);
    expect(await reportUsage(env.BOOKS, query)).toMatchObject([wanted]);
    expect((await stub.audit())?.outbox).toBe(0);
  });
});

describe("a call that two isolates end", () => {
  const readings: [string, number, number][] = [
    ["the same reading", 60, 60],
    ["the lower reading first", 20, 70],
    ["the higher reading first", 70, 20],
    ["one above what was held first", 500, 20],
    ["one above what was held last", 20, 500],
  ];
  const times: [string, boolean][] = [
    ["before its hold expires", false],
    ["after", true],
  ];

  describe.each(times)("%s", (_, after) => {
    it.each(readings)(
      "at once, with %s, is charged once, by the first that comes, and lost once",
      async (_, one, other) => {
        const { stub } = await newAccount({ balance: 1_000 });
        await stub.admit(request("c1", 100));
        await stub.renew(call("c1"), progress(30));
        if (after) advance(121_000);
        const said = [settlement("c1", one, { lostTries: 1 }), settlement("c1", other, { lostTries: 2 })];
        const chargedNanoUsd = Math.min(one, 100);
        const end = { state: after ? "expired" : "settled", chargedNanoUsd };
        // An alarm that is an hour late comes between them.
        if (after) await stub.describe();
        const answers = await Promise.all([...said, ...said].map((each) => stub.settle(each)));
        expect(answers).toEqual([end, end, end, end]);
        expect(await stub.release(releaseOf("c1", 1))).toEqual(end);
        expect(await stub.audit()).toMatchObject({
          ok: true,
          balanceNanoUsd: 1_000 - chargedNanoUsd,
          heldNanoUsd: 0,
          overrunNanoUsd: one - chargedNanoUsd,
          operatorLossNanoUsd: 100,
        });
        const events = await eventsOf(stub);
        expect(events.map(({ eventId }) => eventId)).toEqual(after ? ["c1", "c1.late"] : ["c1"]);
        expect([sum(events, "priceNanoUsd"), sum(events, "lossNanoUsd")]).toEqual([chargedNanoUsd, 100]);
      },
    );
  });

  it("one by a charge and one by a release: what comes first stands, whichever it is", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    for (const id of ["c1", "c2"]) await stub.admit(request(id, 100));
    const settled = await Promise.all([stub.settle(settlement("c1", 40)), stub.release(releaseOf("c1", 1))]);
    expect(settled).toEqual([0, 1].map(() => ({ state: "settled", chargedNanoUsd: 40 })));
    const released = await Promise.all([stub.release(releaseOf("c2")), stub.settle(settlement("c2", 40))]);
    expect(released).toEqual([0, 1].map(() => ({ state: "released", chargedNanoUsd: 0 })));
    expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 960, operatorLossNanoUsd: 0 });
  });
});

describe("a release after expiry", () => {
  it("leaves what was charged, and nothing is lost where nothing was executed besides", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await expired(stub, "c1", 100, 30);
    expect(await stub.release(releaseOf("c1", 1))).toEqual({ state: "expired", chargedNanoUsd: 30 });
    expect(await stub.audit()).toMatchObject({ ok: true, operatorLossNanoUsd: 70 });
    expect(await stub.release(releaseOf("c1"))).toEqual({ state: "expired", chargedNanoUsd: 30 });
    expect(await stub.settle(settlement("c1", 99))).toEqual({ state: "expired", chargedNanoUsd: 30 });
    expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 970, operatorLossNanoUsd: 0 });
    expect(sum(await eventsOf(stub), "lossNanoUsd")).toBe(0);
  });
});

describe("an end of a call whose hold nobody knows", () => {
  it("charges nothing and is the operator's loss, once; a release does nothing", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    expect(await stub.release(releaseOf("lost"))).toEqual({ state: "unknown", chargedNanoUsd: 0 });
    expect(await stub.audit()).toMatchObject({ operatorLossNanoUsd: 0 });
    const said = settlement("lost", 50, { costNanoUsd: 44 });
    for (let time = 0; time < 3; time++) {
      expect(await stub.settle(said)).toEqual({ state: "unknown", chargedNanoUsd: 0 });
    }
    await Promise.all([stub.settle(said), stub.settle(said)]);
    expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 1_000, operatorLossNanoUsd: 44 });
    expect(await rows(stub, "SELECT call_id, kind, reason FROM operator_book")).toEqual([
      { call_id: "lost", kind: "operator_loss", reason: "settle_unknown" },
    ]);
    expect(lines.filter((line) => line.includes("settle_unknown"))).toHaveLength(1);
  });

  it("stands in the operator's reports as that loss, as no call and no error, and names no target's model", async () => {
    await emptyUsage();
    const { stub, number } = await newAccount({ balance: 1_000 });
    const queue = await fakeQueue(stub);
    for (let time = 0; time < 2; time++) await stub.settle(settlement("lost", 50, { costNanoUsd: 44 }));
    advance(2_000);
    await runDurableObjectAlarm(stub);
    await deliver(queue.messages.splice(0));
    const query = { fromMs: 0, toMs: Date.now() + 1e9, account: `acc-${number}`, limit: 9, offset: 0 };
    expect(await reportUsage(env.BOOKS, { ...query, groupBy: ["model"] })).toMatchObject([
      { groups: ["unknown"], calls: 0, errors: 0, costNanoUsd: 44n, lossNanoUsd: 44n, priceNanoUsd: 0n },
    ]);
    expect(await stub.audit()).toMatchObject({ ok: true, operatorLossNanoUsd: 44 });
  });

  it("is answered by the entries or the loss that stand, also where the ledger is long", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(request("paid", 10));
    await stub.settle(settlement("paid", 4));
    await expired(stub, "twice", 100, 90);
    await stub.settle(settlement("twice", 60));
    await expired(stub, "lost", 20, null);
    await rows(
      stub,
      `INSERT INTO entries (id, kind, amount_nano_usd, balance_nano_usd, at_ms, call_id)
       SELECT 1000 + value, 'charge', 0, 936, 0, 'filler' || value
       FROM (WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT 25000) SELECT value FROM n)`,
    );
    await rows(stub, "DELETE FROM holds");
    await evictDurableObject(stub);
    expect(await stub.settle(settlement("paid", 9))).toEqual({ state: "settled", chargedNanoUsd: 4 });
    expect(await stub.settle(settlement("twice", 9))).toEqual({ state: "settled", chargedNanoUsd: 60 });
    expect(await stub.settle(settlement("lost", 9))).toEqual({ state: "expired", chargedNanoUsd: 0 });
    expect(await stub.describe()).toMatchObject({ balanceNanoUsd: 936 });
    expect(await rows(stub, "SELECT * FROM operator_book WHERE reason IS NOT NULL")).toEqual([]);
  });

  it("of an account that was never opened writes nothing", async () => {
    const { stub } = newObject();
    expect(await stub.settle(settlement("c1", 5, { costNanoUsd: 5 }))).toEqual({ state: "unknown", chargedNanoUsd: 0 });
    expect(await rows(stub, "SELECT name FROM sqlite_master")).toEqual([]);
  });
});

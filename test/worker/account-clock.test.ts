/** A clock that is set back, or ahead and back: no count is lost, and nobody waits until it has caught up. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import {
  call,
  expectSound,
  fakeQueue,
  heldClock,
  limits,
  newAccount,
  progress,
  releaseOf,
  request,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";
import { IN_FULL } from "../support/worker/in-full.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const advance = heldClock();

const admitted = async (stub: Stub, id: string) => (await stub.admit(request(id, 1))).ok;
/** How many of so many calls pass. */
async function passing(stub: Stub, tries: number, prefix: string): Promise<number> {
  let passed = 0;
  for (let index = 0; index < tries; index++) {
    const id = `${prefix}${index}`;
    if (!(await admitted(stub, id))) continue;
    passed++;
    await stub.settle(settlement(id, 1));
  }
  return passed;
}
const restarts = [
  ["", async (_: Stub) => undefined],
  [", after a restart too", (stub: Stub) => evictDurableObject(stub)],
] as const;
const steps: [string, number][] = [
  ["a second", 1_000],
  ["an hour", HOUR],
  ["a day", DAY],
];

describe.each(steps)("a clock set back by %s", (_, step) => {
  it.each(restarts)("lets no more through than rpm_limit allows, and has room after a minute%s", async (_, restart) => {
    const { stub } = await newAccount({ balance: 1_000, key: { limits: limits({ rpm_limit: 5 }) } });
    advance(step);
    expect(await passing(stub, 5, "before")).toBe(5);
    advance(-step);
    for (let time = 0; time < 4; time++) {
      await restart(stub);
      expect(await passing(stub, 8, `after${time}-`)).toBe(0);
      advance(10_000);
    }
    // From a minute after the step on, or that long after the clock's small step back was waited out.
    advance(22_000);
    await restart(stub);
    expect(await passing(stub, 8, "later")).toBe(5);
    expect(await passing(stub, 8, "more")).toBe(0);
    await expectSound(stub);
  });

  it("holds no call, no job's room and no event longer than it would", async () => {
    const { stub } = await newAccount({ balance: 100, key: { limits: limits({ max_parallel_requests: 1 }) } });
    const queue = await fakeQueue(stub);
    advance(step);
    await stub.admit(request("ended", 10));
    await stub.release(releaseOf("ended"));
    expect(await admitted(stub, "open")).toBe(true);
    advance(-step);
    expect(await admitted(stub, "c2")).toBe(false);
    const alarmAt = await runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
    expect((alarmAt ?? 0) - Date.now()).toBeLessThanOrEqual(10_000);
    advance(2_000);
    await runDurableObjectAlarm(stub);
    expect(queue.messages.filter(({ events }) => events)).toHaveLength(1);
    advance(120_000);
    expect(await admitted(stub, "c3")).toBe(true);
    await expectSound(stub);
  });
});

describe("a clock", () => {
  // Six hundred calls: in short only with restarts.
  it.each(IN_FULL ? restarts : restarts.slice(1))(
    "set back by an hour loses no request of the day, and has room after a day%s",
    async (_, restart) => {
      const { stub } = await newAccount({ balance: 9_999, key: { limits: limits({ rpd_limit: 300 }) } });
      advance(HOUR);
      // More than are summed at once.
      expect(await passing(stub, 300, "before")).toBe(300);
      advance(-HOUR);
      await restart(stub);
      expect(await passing(stub, 3, "after")).toBe(0);
      advance(DAY + 21 * MINUTE);
      await restart(stub);
      expect(await passing(stub, 3, "later")).toBe(3);
      await expectSound(stub);
    },
  );
});

describe("a clock set ahead and back again", () => {
  it.each([HOUR, 400 * DAY])("by %i ms does not lock the account out, and spends no budget twice", async (step) => {
    const budget = limits({ maxBudgetNanoUsd: 100, budgetDuration: "month", rpm_limit: 5, rpd_limit: 8 });
    const { stub } = await newAccount({ balance: 1_000, key: { limits: budget } });
    expect(await passing(stub, 2, "first")).toBe(2);
    advance(step);
    expect(await passing(stub, 3, "ahead")).toBe(3);
    advance(-step);
    // From its next call on it knows.
    await stub.describe();
    advance(62_000);
    expect(await passing(stub, 9, "back")).toBe(3);
    expect(await stub.admit(request("dear", 200))).toMatchObject({ ok: false });
    await expectSound(stub);
  });

  it("lets running calls be renewed and settled as before", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    advance(HOUR);
    await stub.admit(request("c1", 50));
    advance(-HOUR);
    for (let minute = 0; minute < 5; minute++) {
      advance(MINUTE);
      expect(await stub.renew(call("c1"), null)).toBe(true);
    }
    expect(await stub.settle(settlement("c1", 20))).toEqual({ state: "settled", chargedNanoUsd: 20 });
    await expectSound(stub);
  });

  it("leaves jobs their submission window: ten in a minute, not none for an hour", async () => {
    const limits = [{ name: "submissions", per: "account", count: 10, windowMs: 60_000 }] as const;
    const job = { job: true, limits };
    const { stub } = await newAccount({ balance: 10_000 });
    advance(HOUR);
    for (let index = 0; index < 10; index++) await stub.admit(request(`j${index}`, 1, job));
    advance(-HOUR);
    expect(await stub.admit(request("j10", 1, job))).toMatchObject({ ok: false });
    advance(61_000);
    expect(await stub.admit(request("j11", 1, job))).toMatchObject({ ok: true });
    expect((await rows(stub, "SELECT count(*) AS n FROM holds WHERE admitted_at_ms > ?", Date.now()))[0]?.n).toBe(0);
  });
});

describe("a clock that jumps an hour back and forth, with alarms an hour late", () => {
  it("charges each call once, at most what was used, and holds nothing in the end", async () => {
    const { stub } = await newAccount({ balance: 10_000, key: { limits: limits({ max_parallel_requests: 40 }) } });
    const queue = await fakeQueue(stub);
    const jumps = [HOUR, -HOUR, HOUR, -HOUR, -HOUR, HOUR, HOUR, -HOUR];
    for (const [turn, jump] of jumps.entries()) {
      const id = `c${turn}`;
      // What an isolate says of time is its own: an hour ahead, or behind.
      expect(await stub.admit(request(id, 100, { startedAtMs: Date.now() + jump }))).toMatchObject({ ok: true });
      advance(jump);
      await stub.renew(call(id), progress(30));
      if (turn % 2 === 0) advance(-jump);
      if (turn % 3 === 0) await runDurableObjectAlarm(stub);
      if (turn % 4 === 3) await evictDurableObject(stub);
      const said = settlement(id, 60, { latencyMs: -jump, firstByteMs: -jump });
      const end = await stub.settle(said);
      expect(await stub.settle(said)).toEqual(end);
      expect(end.chargedNanoUsd).toBe(60);
      if (turn % 2 === 0) advance(jump);
    }
    for (let late = 0; late < 4; late++) {
      advance(HOUR);
      await runDurableObjectAlarm(stub);
    }
    expect(await stub.audit()).toMatchObject({
      ok: true,
      problems: [],
      heldNanoUsd: 0,
      balanceNanoUsd: 10_000 - 60 * jumps.length,
      operatorLossNanoUsd: 0,
    });
    expect(queue.messages.length).toBeGreaterThan(0);
  });
});

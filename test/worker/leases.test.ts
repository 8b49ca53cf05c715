/**
 * Leases with the real account object: isolates by the rules of core, and a judge who knows what was really admitted.
 */
import { evictDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Limits } from "../../src/core/account/tenant.ts";
import { Fleet, type Served, type Step, steps } from "../support/lease-fleet.ts";
import {
  addKey,
  credit,
  digestOf,
  expectSound,
  heldClock,
  keyId,
  limits,
  newAccount,
  request,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";
import { HISTORIES, HISTORIES_TIMEOUT_MS } from "../support/worker/histories.ts";
import { manager } from "../support/worker/manager.ts";
import { allowedMs } from "../support/worker/slowness.ts";

const advance = heldClock();

const KEYS = ["k", "k2"];
const digest = (key: number) => digestOf(KEYS[key] ?? "k");
let fleets = 0;

/** A fleet on an account with two keys. */
async function fleetOn(balance: number, account: Partial<Limits> = {}, key: Partial<Limits> = {}) {
  const { stub } = await newAccount({
    balance,
    account: { limits: limits(account) },
    key: { limits: limits(key) },
  });
  await addKey(stub, "k2");
  const fleet = new Fleet(stub as never, {
    request: (id, which, tokens) => request(id, tokens, { keyDigest: digest(which) }),
    settlement: (id, tokens) => settlement(id, tokens, { costNanoUsd: tokens }),
    now: () => Date.now(),
    prefix: `f${++fleets}-`,
  });
  return { stub, fleet };
}

const sum = (calls: readonly Served[], of: (call: Served) => number) => calls.reduce((all, call) => all + of(call), 0);

interface Bounds {
  readonly balance: number;
  readonly rpm: number;
  readonly tpm: number;
  readonly parallel: number;
}

/** By the judge's own list: nothing that was admitted passes a limit or the balance. */
function expectWithin(served: readonly Served[], { balance, rpm, tpm, parallel }: Bounds) {
  const nowMs = Date.now();
  const minute = served.filter(({ atMs }) => atMs > nowMs - 60_000);
  expect(minute.length).toBeLessThanOrEqual(rpm);
  // What ended with more than its bound counts whole, as ever; the bound is what was admitted.
  expect(sum(minute, ({ tokens, used }) => Math.min(used ?? tokens, tokens))).toBeLessThanOrEqual(tpm);
  expect(served.filter(({ used, lost }) => used === null && !lost).length).toBeLessThanOrEqual(parallel);
  expect(sum(served, ({ tokens, used, lost }) => (lost ? 0 : Math.min(used ?? tokens, tokens)))).toBeLessThanOrEqual(
    balance,
  );
}

const BOUNDS: fc.Arbitrary<Bounds> = fc.record({
  balance: fc.constantFrom(500, 3_000, 100_000),
  rpm: fc.constantFrom(20, 60, 10_000),
  tpm: fc.constantFrom(600, 5_000, 1_000_000),
  parallel: fc.constantFrom(16, 60, 1_000),
});

async function chargesOf(stub: Stub): Promise<Map<string, number>> {
  const found = await rows(
    stub,
    "SELECT call_id, sum(amount_nano_usd) AS sum, count(*) AS n FROM entries WHERE kind = 'charge' GROUP BY call_id",
  );
  for (const one of found) expect(one).toMatchObject({ n: 1 });
  return new Map(found.map(({ call_id, sum: all }) => [String(call_id), 0 - Number(all)]));
}

it(
  "whatever isolates lose, repeat and say late, sums never pass a limit or the balance, and each call is charged once",
  async () => {
    let local = 0;
    await fc.assert(
      fc.asyncProperty(BOUNDS, steps(2, 40), async (bounds, history: Step[]) => {
        const own = { rpm_limit: bounds.rpm, tpm_limit: bounds.tpm, max_parallel_requests: bounds.parallel };
        const { stub, fleet } = await fleetOn(bounds.balance, own);
        for (const step of history) {
          // A call that waits for leases of others would wait for the clock, which stands.
          const late = setTimeout(() => advance(2_000), 60);
          await fleet.take(step, advance, () => evictDurableObject(stub));
          clearTimeout(late);
          expectWithin(fleet.served, bounds);
        }
        await expectSound(stub);
        await fleet.finish(advance);
        // What crashed isolates held expires.
        advance(130_000);
        await expectSound(stub);
        const audit = await stub.audit();
        expect(audit).toMatchObject({ openHolds: 0, heldNanoUsd: 0 });
        const charges = await chargesOf(stub);
        for (const { id, used, tokens, lost, confirmed } of fleet.served) {
          const charged = charges.get(id);
          if (confirmed && !lost) expect([id, charged]).toEqual([id, Math.min(used ?? 0, tokens)]);
          else if (charged !== undefined) expect(charged).toBeLessThanOrEqual(tokens);
        }
        expect(charges.size).toBeLessThanOrEqual(fleet.served.length);
        local += fleet.served.filter(({ leased }) => leased).length;
      }),
      HISTORIES,
    );
    expect(local).toBeGreaterThan(0);
  },
  HISTORIES_TIMEOUT_MS,
);

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Makes the key hot in an isolate, so that it has a lease. */
async function heat(fleet: Fleet, isolate = 0, key = 0, tokens = 1): Promise<void> {
  for (let calls = 0; calls < 8; calls++) {
    const served = await fleet.call(isolate, key, tokens);
    if (served?.leased) return;
  }
  throw new Error("no lease was granted");
}

describe("200 calls on a limit of 50 from four isolates", () => {
  it("are exactly 50, and none is refused while room was left", async () => {
    const { stub, fleet } = await fleetOn(1_000_000, { rpm_limit: 50 });
    const clock = setInterval(() => advance(50), 50);
    const sender = setInterval(() => void Promise.all([0, 1, 2, 3].map((at) => fleet.report(at, "heard"))), 250);
    let most = 0;
    const client = async (at: number) => {
      for (let calls = 0; calls < 10; calls++) {
        const sinceMs = Date.now();
        await fleet.call(at % 4, 0, 1);
        most = Math.max(most, Date.now() - sinceMs);
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, at) => client(at)));
    clearInterval(clock);
    clearInterval(sender);
    expect(fleet.served).toHaveLength(50);
    expect(fleet.served.some(({ leased }) => leased)).toBe(true);
    expect(new Set(fleet.refusals.map(({ kind }) => kind))).toEqual(new Set(["rate_limit"]));
    // 1.6 s, and what the machine adds.
    expect(most).toBeLessThan(2_500);
    await fleet.finish(advance);
    await expectSound(stub);
  });
});

describe("what is leased out", () => {
  it("is waited for by a call that is short of it alone, and by no other", async () => {
    const { stub, fleet } = await fleetOn(1_000);
    await heat(fleet, 0, 0, 20);
    const held = (await stub.audit())?.heldNanoUsd ?? 0;
    const admit = (id: string, tokens: number) => stub.admit(request(id, tokens, { keyDigest: digest(1) }));
    expect(await admit("never", 1_001)).toMatchObject({ ok: false, refusal: { kind: "no_credit" } });
    const short = admit("short", 1_000 - held + 1);
    expect(await Promise.race([short.then(() => "decided"), pause(100).then(() => "waits")])).toBe("waits");
    // Nothing more is leased out meanwhile.
    const wanted = { requests: 5, tokens: 5, nanoUsd: 5 };
    const ask = { id: request("lease-2").callId, keyDigest: digest(0), wanted };
    expect(await stub.report({ calls: [], over: [], asks: [ask] })).toEqual({ leases: [null] });
    for (const one of fleet.running) await fleet.end(one, 0);
    advance(1_000);
    await fleet.report(0, "heard");
    expect(await short).toMatchObject({ ok: true });
    await expectSound(stub);
  });

  it("comes back before a credit is taken back, and before a change of the account is answered", async () => {
    const { stub, fleet } = await fleetOn(1_000);
    const isOpen = (work: Promise<unknown>) => Promise.race([work.then(() => false), pause(100).then(() => true)]);
    await heat(fleet, 0, 0, 20);
    for (const one of fleet.running) await fleet.end(one, 0);
    const taken = credit(stub, -1_000, "back");
    expect(await isOpen(taken)).toBe(true);
    advance(1_000);
    await fleet.report(0, "heard");
    expect(await taken).toMatchObject({ kind: "booked" });
    await credit(stub, 1_000, "again");
    await heat(fleet, 1, 0, 20);
    const blocked = stub.amend({ blocked: true });
    expect(await isOpen(blocked)).toBe(true);
    // Its isolate is silent: the lease is over all the same.
    advance(1_100);
    await blocked;
    expect(await fleet.call(1, 0, 1)).toBeNull();
  });

  it("is no reason to wait once its isolate is taken for dead", async () => {
    const { stub, fleet } = await fleetOn(1_000);
    await heat(fleet, 0, 0, 20);
    advance(1_700);
    const sinceMs = performance.now();
    expect(await stub.admit(request("big", 1_000))).toMatchObject({ ok: false });
    expect(performance.now() - sinceMs).toBeLessThan(await allowedMs(1_000));
  });

  it("is the operator's loss once its isolate is dead for the life of a hold, at most what was leased", async () => {
    const { stub, fleet } = await fleetOn(100_000);
    await heat(fleet, 0, 0, 20);
    const leased = await rows(stub, "SELECT amount_nano_usd AS money FROM holds WHERE lease IS NOT NULL");
    fleet.crash(0);
    advance(121_000);
    const audit = await stub.audit();
    expect(audit).toMatchObject({ openHolds: 0, heldNanoUsd: 0, problems: [] });
    const plain = fleet.served.filter(({ leased: by }) => !by).length * 20;
    expect(audit?.operatorLossNanoUsd).toBe(Number(leased[0]?.money) + plain);
    // What comes after that costs the tenant nothing, and nothing twice.
    for (const old of fleet.reports) await stub.report(old);
    expect(await stub.audit()).toMatchObject({ operatorLossNanoUsd: audit?.operatorLossNanoUsd, problems: [] });
  });

  it("survives a restart of the object, with its calls", async () => {
    const { stub, fleet } = await fleetOn(100_000);
    await heat(fleet, 0, 0, 20);
    const before = await stub.audit();
    await evictDurableObject(stub);
    expect(await stub.audit()).toEqual(before);
    await fleet.finish(advance);
    expect(await stub.audit()).toMatchObject({ openHolds: 0, operatorLossNanoUsd: 0, problems: [] });
  });

  it("is not granted to a dead key, and once for one question", async () => {
    const { stub } = await fleetOn(100_000);
    const wanted = { requests: 5, tokens: 5, nanoUsd: 5 };
    const ask = (id: string, name: string) => ({ id: request(id).callId, keyDigest: digestOf(name), wanted });
    const answer = await stub.report({ calls: [], over: [], asks: [ask("l1", "nobody"), ask("l2", "k2")] });
    expect(answer.leases.map((lease) => lease !== null)).toEqual([false, true]);
    // The same question again gets the same lease.
    expect(await stub.report({ calls: [], over: [], asks: [ask("l2", "k2")] })).toMatchObject({
      leases: [{ id: "l2" }],
    });
    expect(await rows(stub, "SELECT count(*) AS n FROM holds WHERE lease IS NOT NULL")).toEqual([{ n: 1 }]);
  });
});

describe("a call that no hold and no lease covers", () => {
  it("is charged to nobody, and its loss is booked once", async () => {
    const { stub, fleet } = await fleetOn(100_000);
    await heat(fleet, 0, 0, 20);
    const [leased] = fleet.served.filter((one) => one.leased).map((one) => one.leased);
    if (!leased) throw new Error("nothing was leased");
    const call = { ...leased, callId: request("stranger").callId, lease: request("no-lease").callId };
    const end = { kind: "settle", said: settlement("stranger", 7, { costNanoUsd: 7 }) } as const;
    const before = (await stub.audit())?.operatorLossNanoUsd ?? 0;
    for (let time = 0; time < 2; time++) await stub.report({ calls: [{ call, end }], over: [], asks: [] });
    // One that claims more than its lease has is no better.
    const greedy = { ...leased, callId: request("greedy").callId, amountNanoUsd: 100_000 };
    const its = { kind: "settle", said: settlement("greedy", 5, { costNanoUsd: 5 }) } as const;
    await stub.report({ calls: [{ call: greedy, end: its }], over: [], asks: [] });
    expect(await stub.audit()).toMatchObject({ operatorLossNanoUsd: before + 12, problems: [] });
  });

  it("keeps its lease held where a return does not name it", async () => {
    const { stub, fleet } = await fleetOn(100_000);
    await heat(fleet, 0, 0, 20);
    const [leased] = fleet.served.flatMap((one) => (one.leased ? [one.leased] : []));
    if (!leased) throw new Error("nothing was leased");
    await stub.report({ calls: [], over: [{ id: leased.lease, admitted: 1 }], asks: [] });
    expect(await rows(stub, "SELECT state FROM holds WHERE lease IS NOT NULL")).toEqual([{ state: "open" }]);
  });
});

describe("a call whose end comes by the queue", () => {
  it("is charged once and closes its lease, though that was returned before: nothing is lost", async () => {
    const { stub, fleet } = await fleetOn(100_000);
    await heat(fleet, 0, 0, 20);
    const [served] = fleet.served.filter((one) => one.leased);
    const leased = served?.leased;
    if (!served || !leased) throw new Error("nothing was leased");
    for (const one of fleet.served) if (one !== served) await fleet.end(one, 1);
    const end = { kind: "settle", said: settlement(served.id, 7, { costNanoUsd: 7 }) } as const;
    const said = { calls: [{ call: leased, end }], over: [], asks: [] };
    await stub.report({ calls: [], over: [{ id: leased.lease, admitted: 1 }], asks: [] });
    expect(await stub.audit()).toMatchObject({ openLeases: 1 });
    for (let time = 0; time < 3; time++) await stub.report(said);
    expect(await stub.audit()).toMatchObject({ openLeases: 0, openHolds: 0, heldNanoUsd: 0, problems: [] });
    expect((await chargesOf(stub)).get(served.id)).toBe(7);
    advance(200_000);
    await stub.report(said);
    expect(await stub.audit()).toMatchObject({ operatorLossNanoUsd: 0, problems: [] });
  });
});

describe("revoked under leases", () => {
  it("a call that runs on is charged when it ends, and so is one of which a report was lost", async () => {
    const { stub, fleet } = await fleetOn(100_000);
    await heat(fleet, 0, 0, 20);
    await fleet.call(0, 0, 20);
    const [first, second] = fleet.served.filter((one) => one.leased);
    if (!first || !second) throw new Error("nothing was leased");
    await fleet.end(first, 5);
    const revoked = manager(stub).revokeKey(keyId("k"));
    await fleet.report(0, "lost");
    advance(1_200);
    await revoked;
    await fleet.report(0, "heard");
    await fleet.report(0, "heard");
    await evictDurableObject(stub);
    await fleet.end(second, 20);
    await fleet.finish(advance);
    const charges = await chargesOf(stub);
    expect([charges.get(first.id), charges.get(second.id)]).toEqual([5, 20]);
    expect(await stub.audit()).toMatchObject({ openHolds: 0, operatorLossNanoUsd: 0, problems: [] });
  });

  it(
    "no isolate admits a call after the answer, in random runs of four",
    async () => {
      const runs = Math.max(6, HISTORIES.numRuns);
      const { stub, fleet } = await fleetOn(10_000_000);
      for (let run = 0; run < runs; run++) {
        const name = `r${run}`;
        await addKey(stub, name);
        KEYS.push(name);
        const key = KEYS.length - 1;
        for (let isolate = 0; isolate < 4; isolate++) if ((run + isolate) % 3 > 0) await heat(fleet, isolate, key);
        advance((run * 137) % 1_100);
        let answered = false;
        const revoked = manager(stub)
          .revokeKey(keyId(name))
          .then(() => {
            answered = true;
          });
        while (!answered) {
          await pause(5);
          if (!answered) advance(100);
        }
        await revoked;
        for (let isolate = 0; isolate < 4; isolate++)
          expect(fleet.admitsByItself(isolate, digest(key), key)).toBe(false);
        expect(await fleet.call(0, key, 1)).toBeNull();
      }
      await fleet.finish(advance);
      await expectSound(stub);
    },
    HISTORIES_TIMEOUT_MS,
  );

  it("the answer comes at once where no lease is out", async () => {
    const { stub } = await fleetOn(1_000);
    const sinceMs = performance.now();
    await manager(stub).revokeKey(keyId("k"));
    expect(performance.now() - sinceMs).toBeLessThan(await allowedMs(500));
  });
});

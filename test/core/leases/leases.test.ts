import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AdmitRequest, Settlement } from "../../../src/core/account/hold.ts";
import type { Lease } from "../../../src/core/account/lease.ts";
import { asId, type CallId, type KeyDigest, type KeyId } from "../../../src/core/ids.ts";
import { LeaseHolder } from "../../../src/core/leases/lease-holder.ts";
import { LEASE_MS, lifeUntil, sliceOf } from "../../../src/core/leases/slice.ts";
import { NO_PLAN } from "../../../src/core/pricing/prices.ts";
import { Fleet, type Step, steps } from "../../support/lease-fleet.ts";
import { PlainAccount } from "../../support/plain-account.ts";

const START_MS = 1_700_000_000_123;
const digestOf = (key: number) => asId<KeyDigest>(`digest-${key}`);
const perToken = { input_tokens: 1_000_000, output_tokens: 1_000_000 };
const ROW = { model: "m", kind: "chat", fromMs: 0, costNanoUsd: perToken, priceNanoUsd: {}, free: false } as const;

const request = (id: string, key: number, tokens: number): AdmitRequest => ({
  callId: asId<CallId>(id),
  keyDigest: digestOf(key),
  endpoint: "chat.completions",
  access: { scope: "inference", role: "member" },
  limits: [],
  model: "m",
  alias: null,
  row: ROW,
  bound: { fixed: { input_tokens: tokens } },
  owned: [],
  startedAtMs: START_MS,
});
const settlement = (id: string, tokens: number): Settlement => ({
  callId: asId<CallId>(id),
  outcome: "completed",
  status: 200,
  reading: { source: "exact", usage: { input_tokens: tokens } },
  servedBy: { upstream: "u", model: "m", region: null },
  costNanoUsd: 0,
  latencyMs: 1,
  firstByteMs: null,
  lostTries: 0,
});

describe("a lease gets", () => {
  const some = fc.oneof(fc.integer({ min: -5, max: 100 }), fc.integer({ min: 0, max: 2 ** 52 }), fc.constant(Infinity));
  const room = fc.record({ requests: some, tokens: some, slots: some, nanoUsd: some });
  const wish = fc.integer({ min: 1, max: 1_000_000 });
  const wanted = fc.record({ requests: wish, tokens: wish, nanoUsd: fc.nat(2 ** 40) });

  it("at most an eighth of any room, and something of each sort, or nothing at all", () => {
    fc.assert(
      fc.property(room, wanted, fc.integer({ min: 1, max: 2 ** 40 }), (left, asked, most) => {
        const slice = sliceOf({ wanted: asked }, left, most);
        const short = [left.requests, left.tokens, left.slots].some((one) => one < 8);
        if (short) expect(slice).toBeNull();
        if (!slice) return;
        for (const sort of ["requests", "tokens", "slots", "nanoUsd"] as const) {
          expect(Number.isSafeInteger(slice[sort])).toBe(true);
          expect(slice[sort]).toBeLessThanOrEqual(left[sort] / 8);
        }
        expect(slice.nanoUsd).toBeLessThanOrEqual(most);
        expect(slice.requests).toBeGreaterThan(0);
        expect(slice.slots).toBeGreaterThan(0);
      }),
    );
  });

  it("no life past the end of a key, a budget's window or a plan", () => {
    expect(lifeUntil([null, null], START_MS)).toBe(LEASE_MS);
    expect(lifeUntil([START_MS + 700, null], START_MS)).toBe(600);
    expect(lifeUntil([START_MS + 300], START_MS)).toBeNull();
  });
});

const LEASE: Lease = {
  id: asId<CallId>("lease"),
  keyId: asId<KeyId>("key"),
  keyDigest: digestOf(0),
  slice: { requests: 5, tokens: 100, slots: 2, nanoUsd: 100 },
  livesMs: LEASE_MS,
  key: { scopes: ["inference"], role: "member", models: ["m"] },
  plan: NO_PLAN,
  holds: { livesMs: 120_000, longestCallMs: 3_600_000, onDisconnect: "cancel" },
  rates: { requests: { limit: 60, remaining: 40, resetMs: 1_000 } },
};
let ids = 0;
const newId = () => asId<CallId>(`id-${++ids}`);

/** A holder with that lease, asked for at `START_MS`. */
function holderWith(some: Partial<Lease> = {}): LeaseHolder {
  const holder = new LeaseHolder();
  const wanted = { requests: 3, tokens: 3, nanoUsd: 3 };
  holder.answered({ id: LEASE.id, keyDigest: digestOf(0), wanted }, { ...LEASE, ...some }, START_MS);
  return holder;
}
const admit = (holder: LeaseHolder, atMs: number, tokens = 10, some: Partial<AdmitRequest> = {}) =>
  holder.admit(digestOf(0), { ...request(newId(), 0, tokens), ...some }, atMs);

describe("an isolate admits", () => {
  it("from the moment at which it asked, until the lease's end, by its own clock", () => {
    expect(admit(holderWith(), START_MS - 1)).toBeNull();
    expect(admit(holderWith(), START_MS)).not.toBeNull();
    expect(admit(holderWith(), START_MS + LEASE_MS - 1)).not.toBeNull();
    expect(admit(holderWith(), START_MS + LEASE_MS)).toBeNull();
    expect(admit(holderWith({ livesMs: 300 }), START_MS + 300)).toBeNull();
  });

  it("nothing after four reports, though its clock was set back", () => {
    const holder = holderWith();
    for (let tick = 0; tick < 5; tick++) holder.report(newId, START_MS);
    expect(admit(holder, START_MS)).toBeNull();
  });

  it("no more at once than the slots, and no more than the money, the tokens and the requests", () => {
    const slots = holderWith();
    expect([admit(slots, START_MS), admit(slots, START_MS), admit(slots, START_MS)].filter(Boolean)).toHaveLength(2);
    expect(admit(holderWith(), START_MS, 101)).toBeNull();
    expect(admit(holderWith({ slice: { ...LEASE.slice, tokens: 9 } }), START_MS)).toBeNull();
    expect(admit(holderWith({ slice: { ...LEASE.slice, requests: 0 } }), START_MS)).toBeNull();
  });

  it("what the key may call, and leaves the rest to the object", () => {
    expect(admit(holderWith(), START_MS, 1, { model: "other" })).toBeNull();
    expect(admit(holderWith(), START_MS, 1, { access: { scope: "compute", role: "member" } })).toBeNull();
    expect(admit(holderWith(), START_MS, 1, { access: { scope: null, role: "owner" } })).toBeNull();
    expect(admit(holderWith(), START_MS, 1, { row: { ...ROW, costNanoUsd: {} } })).toBeNull();
  });

  it("with the whole output cap that was not named, or not at all", () => {
    const bound = (cap: number) => ({ fixed: { input_tokens: 1 }, output: { cap, choices: 1, lowerable: true } });
    expect(admit(holderWith(), START_MS, 1, { bound: bound(50) })?.call.outputCap).toBe(50);
    expect(admit(holderWith(), START_MS, 1, { bound: bound(500) })).toBeNull();
  });

  it("with the limits that the object last told, less what it took since", () => {
    const holder = holderWith();
    admit(holder, START_MS);
    expect(admit(holder, START_MS)?.rates.requests).toMatchObject({ limit: 60, remaining: 38 });
  });
});

describe("an isolate reports", () => {
  it("each ended call until the object has it, and returns the lease with the count of what it admitted", () => {
    const holder = holderWith();
    const [first, second] = [admit(holder, START_MS), admit(holder, START_MS + 1)];
    if (!first || !second) throw new Error("not admitted");
    let known = 0;
    holder.ended(first.call, { kind: "settle", said: settlement(first.call.callId, 3) }, () => known++);
    const said = holder.report(newId, START_MS + 250);
    expect(said?.report).toMatchObject({ calls: [{ call: first.call }], over: [] });
    // No answer came: the next one has it still.
    expect(holder.report(newId, START_MS + 500)?.report.calls).toHaveLength(1);
    expect(known).toBe(0);
    if (said) holder.confirmed(said, { leases: [] });
    expect(known).toBe(1);
    const last = holder.report(newId, START_MS + LEASE_MS);
    expect(last?.report).toMatchObject({ calls: [{ call: second.call, end: null }], over: [{ admitted: 2 }] });
    if (last) holder.confirmed(last, { leases: [] });
    expect(holder.idle).toBe(true);
  });

  it("all at once where somebody reads, and what crosses the report under way counts once", () => {
    const holder = holderWith();
    const [first, second] = [admit(holder, START_MS), admit(holder, START_MS + 1)];
    if (!first || !second) throw new Error("not admitted");
    let known = 0;
    holder.ended(first.call, { kind: "settle", said: settlement(first.call.callId, 3) }, () => known++);
    const underWay = holder.report(newId, START_MS + 250);
    const said = holder.returnAll(START_MS + 300);
    expect(said?.report).toMatchObject({
      calls: [{ call: first.call }, { call: second.call, end: null }],
      over: [{ admitted: 2 }],
      asks: [],
    });
    // What is returned admits nothing more.
    expect(admit(holder, START_MS + 301)).toBeNull();
    if (said) holder.confirmed(said, { leases: [] });
    if (underWay) holder.confirmed(underWay, { leases: [] });
    expect([known, holder.idle]).toEqual([1, true]);
    expect(holder.returnAll(START_MS + 400)).toBeNull();
    // The one that ran on ends as a hold of its own.
    holder.ended(second.call, { kind: "settle", said: settlement(second.call.callId, 3) }, () => known++);
    expect(holder.report(newId, START_MS + 500)?.report).toMatchObject({ calls: [{ call: second.call }], over: [] });
  });

  it("a lease of which no answer came as one that admitted nothing", () => {
    const holder = new LeaseHolder();
    for (let call = 0; call < 3; call++) holder.admitted(digestOf(0), 1, 1, START_MS);
    const ask = holder.ask(digestOf(0), newId, START_MS);
    if (!ask) throw new Error("not hot");
    expect(holder.ask(digestOf(0), newId, START_MS)).toBeUndefined();
    holder.answered(ask, undefined, START_MS);
    expect(holder.report(newId, START_MS)?.report.over).toEqual([{ id: ask.id, admitted: 0 }]);
  });

  it("a lease that a lost answer may have granted as one that admitted nothing, where the repeated report got none", () => {
    const holder = holderWith();
    for (let call = 0; call < 3; call++) holder.admitted(digestOf(0), 1, 1, START_MS + 600);
    const said = holder.report(newId, START_MS + 600);
    const [ask] = said?.report.asks ?? [];
    if (!said || !ask) throw new Error("nothing asked");
    holder.failed(said, START_MS + 610);
    holder.confirmed(said, { leases: [null] });
    expect(holder.report(newId, START_MS + 700)?.report.over).toContainEqual({ id: ask.id, admitted: 0 });
  });

  it("by one sender at a time: the next one begins where the last is silent, or has sent for long", () => {
    const holder = holderWith();
    const first = holder.beginSending(START_MS);
    expect([holder.isSent(START_MS + 5_999), holder.isSent(START_MS + 6_000)]).toEqual([true, false]);
    expect(holder.sends(first, START_MS + 5_000)).toBe(true);
    expect([holder.isSent(START_MS + 9_999), holder.isSent(START_MS + 10_000)]).toEqual([true, false]);
    holder.beginSending(START_MS + 10_000);
    expect(holder.sends(first, START_MS + 10_001)).toBe(false);
  });
});

it("sums over leases, holds and charges never pass a limit or the balance, and each call is charged once", async () => {
  let local = 0;
  const bounds = fc.record({
    balance: fc.constantFrom(400, 3_000, 100_000),
    rpm: fc.constantFrom(20, 60, 10_000),
    tpm: fc.constantFrom(600, 5_000, 1_000_000),
    parallel: fc.constantFrom(16, 60, 1_000),
  });
  await fc.assert(
    fc.asyncProperty(bounds, steps(2, 40), async ({ balance, rpm, tpm, parallel }, history: Step[]) => {
      let nowMs = START_MS;
      const limits = { rpm_limit: rpm, tpm_limit: tpm, max_parallel_requests: parallel };
      const account = new PlainAccount(balance, limits, () => nowMs);
      const fleet = new Fleet(account, { request, settlement, now: () => nowMs, prefix: "c" });
      const advance = (ms: number) => {
        nowMs += ms;
      };
      for (const step of history) {
        await fleet.take(step, advance, async () => undefined);
        expect(account.leftNanoUsd).toBeGreaterThanOrEqual(0);
        const minute = fleet.served.filter(({ atMs }) => atMs > nowMs - 60_000);
        expect(minute.length).toBeLessThanOrEqual(rpm);
        const tokens = minute.map((one) => Math.min(one.used ?? one.tokens, one.tokens));
        expect(tokens.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(tpm);
        expect(fleet.running.length).toBeLessThanOrEqual(parallel);
      }
      await fleet.finish(advance);
      for (const { id, used, tokens, lost } of fleet.served) {
        if (!lost) expect([id, account.charges.get(id)]).toEqual([id, Math.min(used ?? 0, tokens)]);
      }
      local += fleet.served.filter(({ leased }) => leased).length;
    }),
    { numRuns: 300 },
  );
  expect(local).toBeGreaterThan(1_000);
}, 60_000);

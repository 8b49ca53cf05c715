/** Leased calls that were over when they were reported: they have no hold, and count as if they had one. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { CallEnd, LeasedCall } from "../../src/core/account/hold.ts";
import type { LeaseReport, ReportedCall } from "../../src/core/account/lease.ts";
import {
  breakStorage,
  call,
  digestOf,
  expectSound,
  heldClock,
  limits,
  newAccount,
  perToken,
  releaseOf,
  request,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";
import { HISTORIES, HISTORIES_TIMEOUT_MS } from "../support/worker/histories.ts";

const advance = heldClock();

const LIMITS = limits({
  rpm_limit: 100_000,
  tpm_limit: 10_000_000,
  rpd_limit: 100_000,
  maxBudgetNanoUsd: 5_000_000,
  budgetDuration: "day",
});
const leasing = async () =>
  (
    await newAccount({
      balance: 10_000_000,
      account: { limits: LIMITS },
      team: { limits: LIMITS },
      key: { limits: LIMITS },
    })
  ).stub;

const ask = (id: string, requests: number) => ({
  id: call(id),
  keyDigest: digestOf("k"),
  wanted: { requests, tokens: requests * 100, nanoUsd: requests * 100 },
});
const report = (stub: Stub, some: Partial<LeaseReport>) => stub.report({ calls: [], over: [], asks: [], ...some });

const leased = (id: string, tokens: number, offsetMs = 0, lease = "lease"): LeasedCall => ({
  callId: call(id),
  endpoint: "chat.completions",
  model: "m",
  alias: null,
  amountNanoUsd: tokens,
  countedTokens: tokens,
  outputCap: undefined,
  prices: perToken(1),
  priceRule: "standard",
  startedAtMs: Date.now(),
  lease: call(lease),
  offsetMs,
});
const settled = (id: string, tokens: number, lostTries = 0): CallEnd => ({
  kind: "settle",
  said: settlement(id, tokens, { costNanoUsd: tokens, lostTries }),
});

/** All that the account's books say, and what its limits leave. Accounts differ by their name alone. */
async function booksOf(stub: Stub, probe: string) {
  const entries = "SELECT id, kind, amount_nano_usd, balance_nano_usd, at_ms, call_id, key_id, team_id FROM entries";
  const events = await rows(stub, "SELECT event FROM outbox ORDER BY seq");
  // A lease for all that is wanted tells what room is left of each sort.
  const { leases } = await report(stub, { asks: [ask(probe, 1_000_000)] });
  await report(stub, { over: [{ id: call(probe), admitted: 0 }] });
  return {
    entries: await rows(stub, `${entries} WHERE kind = 'charge' ORDER BY id`),
    events: events.map(({ event }) => String(event).replaceAll(/acc-\d+|evt_[0-9a-f-]+/gu, "")),
    operator: await rows(stub, "SELECT * FROM operator_book ORDER BY call_id, kind"),
    audit: await stub.audit(),
    slice: leases[0]?.slice,
    rates: leases[0]?.rates,
  };
}

interface Ended {
  readonly tokens: number;
  readonly percent: number;
  readonly fate: "settled" | "released" | "lost try";
  readonly report: number;
  readonly offsetMs: number;
}
const REPORTS = 3;
const ended: fc.Arbitrary<Ended> = fc.record({
  tokens: fc.integer({ min: 1, max: 60 }),
  percent: fc.constantFrom(0, 10, 100, 100, 140),
  fate: fc.constantFrom("settled" as const, "settled" as const, "released" as const, "lost try" as const),
  report: fc.nat({ max: REPORTS - 1 }),
  offsetMs: fc.integer({ min: 0, max: 1_300 }),
});

function reportedCall({ tokens, percent, fate, offsetMs }: Ended, index: number): ReportedCall {
  const id = `c${index}`;
  const lost = fate === "lost try" ? 1 : 0;
  const end: CallEnd =
    fate === "released"
      ? { kind: "release", said: releaseOf(id, index % 2) }
      : settled(id, Math.floor((tokens * percent) / 100), lost);
  return { call: leased(id, tokens, offsetMs), end };
}

it(
  "are in the same books as calls that were reported first as running and then as ended",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(ended, { minLength: 1, maxLength: 40 }), fc.boolean(), async (calls, restarts) => {
        const [atOnce, inTwo] = [await leasing(), await leasing()];
        for (const stub of [atOnce, inTwo]) {
          const { leases } = await report(stub, { asks: [ask("lease", 60)] });
          expect(leases[0]).not.toBeNull();
        }
        const all = calls.map((one, index) => ({ said: reportedCall(one, index), report: one.report }));
        for (let number = 0; number < REPORTS; number++) {
          advance(250);
          const said = all.filter((one) => one.report === number).map((one) => one.said);
          await report(inTwo, { calls: said.map(({ call: its }) => ({ call: its, end: null })) });
          for (const stub of [atOnce, inTwo]) await report(stub, { calls: said });
          // Said again it changes nothing.
          for (const stub of [atOnce, inTwo]) await report(stub, { calls: said });
          if (restarts) await evictDurableObject(atOnce);
          await expectSound(atOnce);
        }
        expect(await rows(atOnce, "SELECT count(*) AS n FROM holds")).toEqual([{ n: 1 }]);
        expect(await rows(inTwo, "SELECT count(*) AS n FROM holds")).toEqual([{ n: 1 + calls.length }]);
        const over = [{ id: call("lease"), admitted: calls.length }];
        for (const stub of [atOnce, inTwo]) await report(stub, { over });
        const books = await booksOf(inTwo, "probe");
        expect(await booksOf(atOnce, "probe")).toEqual(books);
        // The same once more out of the rows, and after all was said again of a lease that is closed.
        await evictDurableObject(atOnce);
        await report(atOnce, { calls: all.map(({ said }) => said), over });
        expect(await booksOf(atOnce, "probe-2")).toEqual(books);
        expect(books.audit).toMatchObject({ openHolds: 0, openLeases: 0, heldNanoUsd: 0, problems: [] });
      }),
      HISTORIES,
    );
  },
  HISTORIES_TIMEOUT_MS,
);

it("count in the requests of a day, over the roll-up of their sums and a restart", async () => {
  const stub = await leasing();
  await report(stub, { asks: [ask("lease", 1_000)] });
  const many = (from: number, count: number) =>
    Array.from({ length: count }, (_, at) => {
      const id = `d${from + at}`;
      return { call: leased(id, 1), end: settled(id, 1) };
    });
  await report(stub, { calls: many(0, 300) });
  await report(stub, { calls: many(300, 100), over: [{ id: call("lease"), admitted: 400 }] });
  advance(120_000);
  const before = await booksOf(stub, "probe");
  // The minute is over: what is left is the day's room.
  expect(before.slice?.requests).toBe(Math.floor((100_000 - 400) / 8));
  await evictDurableObject(stub);
  expect(await booksOf(stub, "probe-2")).toEqual(before);
});

it("leave everything as it was where the report cannot be written, and count once when it comes again", async () => {
  const stub = await leasing();
  await report(stub, { asks: [ask("lease", 60)] });
  const calls = [1, 2, 3].map((at) => ({ call: leased(`c${at}`, 10), end: settled(`c${at}`, 7) }));
  const mend = await breakStorage(stub, (query) => query.includes("lease_calls ="));
  const broken = runInDurableObject(stub, (object) => object.report({ calls, over: [], asks: [] }));
  await expect(broken).rejects.toThrow("disk is full");
  await mend();
  expect(await rows(stub, "SELECT count(*) AS n FROM entries WHERE kind = 'charge'")).toEqual([{ n: 0 }]);
  for (let time = 0; time < 2; time++) await report(stub, { calls, over: [{ id: call("lease"), admitted: 3 }] });
  expect(await stub.audit()).toMatchObject({ balanceNanoUsd: 10_000_000 - 21, openHolds: 0, problems: [] });
});

it("are known after their lease has expired, and its row stays for a day", async () => {
  const stub = await leasing();
  await report(stub, { asks: [ask("lease", 60)] });
  const known = { call: leased("known", 10), end: settled("known", 7) };
  await report(stub, { calls: [known] });
  advance(130_000);
  const expired = await stub.audit();
  expect(expired).toMatchObject({ openLeases: 0, balanceNanoUsd: 10_000_000 - 7 });
  const missed = { call: leased("missed", 10), end: settled("missed", 7) };
  await report(stub, { calls: [known, missed] });
  expect(await stub.audit()).toEqual(expired);
});

it("are found by the audit if their entry is another one's", async () => {
  const stub = await leasing();
  await report(stub, { asks: [ask("lease", 60)] });
  await report(stub, { calls: [{ call: leased("one", 10), end: settled("one", 7) }] });
  await expectSound(stub);
  await rows(stub, "UPDATE entries SET call_id = 'other' WHERE call_id = 'one'");
  expect((await stub.audit())?.problems).toEqual(["a leased call has not the entry that its lease names: one"]);
  await rows(stub, "UPDATE entries SET call_id = 'one' WHERE call_id = 'other'");
  await rows(stub, "UPDATE holds SET lease_calls = lease_calls || ',' || lease_calls WHERE lease IS NOT NULL");
  expect((await stub.audit())?.problems).toContain("a leased call stands twice in leases, or in a hold too: one");
});

it("and a call by the object beside them: one request is counted for each", async () => {
  const stub = await leasing();
  await report(stub, { asks: [ask("lease", 60)] });
  await report(stub, {
    calls: [{ call: leased("one", 10), end: settled("one", 10) }],
    over: [{ id: call("lease"), admitted: 1 }],
  });
  const admitted = await stub.admit(request("two", 5));
  expect(admitted).toMatchObject({ ok: true, rates: { requests: { remaining: 100_000 - 2 } } });
});

/** Leases beside rentals: a turn that is short of leased room alone waits for it, and nothing is leased meanwhile. */
import { runDurableObjectAlarm } from "cloudflare:test";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  call,
  digestOf,
  expectSound,
  heldClock,
  newAccount,
  request,
  row,
  rows,
  type Stub,
} from "../support/worker/account-support.ts";
import { HISTORIES, HISTORIES_TIMEOUT_MS } from "../support/worker/histories.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** Nano-USD of a day of one GPU. */
const A_DAY = 24_000_000;
const INSTANCE = 7_001;

const advance = heldClock();

const begin = (stub: Stub) =>
  stub.beginHourly({
    instanceId: INSTANCE,
    hourly: { gpuType: "H100", gpuCount: 1, replicas: 1 },
    upstream: "u1",
    gpuRow: row({ model: "gpu/H100", kind: "gpu", costNanoUsd: { gpu_hours: A_DAY / 24 } }),
    stored: true,
  });

async function rented(balance: number): Promise<Stub> {
  const { stub } = await newAccount({ balance });
  // The second time the operator's books have it.
  for (let time = 0; time < 2; time++) expect(await begin(stub)).toMatchObject({ kind: "begun" });
  return stub;
}

let leases = 0;
/** Asks for a lease of so much money; null where none is granted. Gives what returns it. */
async function lease(stub: Stub, nanoUsd: number) {
  const id = call(`lease-${++leases}`);
  const ask = { id, keyDigest: digestOf("k"), wanted: { requests: 1, tokens: 1, nanoUsd } };
  const answer = await stub.report({ calls: [], over: [], asks: [ask] });
  if (!answer.leases[0]) return null;
  return { giveBack: () => stub.report({ calls: [], over: [{ id, admitted: 0 }], asks: [] }) };
}

async function later(stub: Stub, ms: number): Promise<void> {
  advance(ms);
  await runDurableObjectAlarm(stub);
}

const charged = async (stub: Stub): Promise<number> =>
  Number(
    (await rows(stub, "SELECT coalesce(-sum(amount_nano_usd), 0) AS sum FROM entries WHERE kind = 'charge'"))[0]?.sum,
  );
const held = async (stub: Stub): Promise<number> => Number((await stub.audit())?.heldNanoUsd);

it("a turn that has all the money it needs is taken beside a lease", async () => {
  const stub = await rented(3 * A_DAY);
  advance(DAY - 500);
  expect(await lease(stub, 1_000)).not.toBeNull();
  await later(stub, 500);
  expect(await charged(stub)).toBe(A_DAY);
  expect(await lease(stub, 1_000)).not.toBeNull();
  await expectSound(stub);
});

it("one that is short of leased money alone waits until it is back, and then pays for all", async () => {
  const stub = await rented(2 * A_DAY);
  advance(DAY - 500);
  const out = await lease(stub, 100_000);
  await later(stub, 500);
  expect([await charged(stub), await held(stub)]).toEqual([0, A_DAY + 150_000]);
  expect(await lease(stub, 1_000)).toBeNull();
  await out?.giveBack();
  await later(stub, 200);
  expect([await charged(stub), await held(stub)]).toEqual([A_DAY, A_DAY]);
  await expectSound(stub);
});

it("a lease that nobody returns is waited for no longer than it may be out", async () => {
  const stub = await rented(2 * A_DAY);
  advance(DAY - 100);
  expect(await lease(stub, 100_000)).not.toBeNull();
  let waitedMs = 0;
  for (await later(stub, 100); (await charged(stub)) === 0 && waitedMs < 5_000; waitedMs += 200) await later(stub, 200);
  expect(waitedMs).toBeLessThanOrEqual(1_600);
  // What is missing is paid once the lease has expired.
  for (let minutes = 0; minutes < 3; minutes++) await later(stub, 60_000);
  expect(await held(stub)).toBe(A_DAY);
  await expectSound(stub);
});

it("calls of an instance that is unpaid for leased money alone wait for it, and are not refused", async () => {
  const stub = await rented(A_DAY + 10_000);
  await later(stub, 2 * DAY);
  const asked = (id: string) => request(id, 1, { hourly: [INSTANCE], row: row({ free: true }) });
  expect(await stub.admit(asked("unpaid"))).toMatchObject({ ok: false, refusal: { kind: "instance_unpaid" } });
  await stub.credit({ kind: "top_up", amountNanoUsd: 990_000, reference: "nearly an hour", note: null });
  const out = await lease(stub, 50_000);
  expect(out).not.toBeNull();
  await stub.credit({ kind: "top_up", amountNanoUsd: 10_000, reference: "an hour", note: null });
  const admitted = stub.admit(asked("paid"));
  expect(await Promise.race([admitted, new Promise((resolve) => setTimeout(() => resolve("waits"), 100))])).toBe(
    "waits",
  );
  await out?.giveBack();
  expect(await admitted).toMatchObject({ ok: true });
  await expectSound(stub);
});

type Step =
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "lease"; readonly nanoUsd: number }
  | { readonly do: "return"; readonly which: number };
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant("wait" as const),
    ms: fc.constantFrom(50, 400, 1_000, 10_000, HOUR, 6 * HOUR, DAY - 700),
  }),
  fc.record({ do: fc.constant("lease" as const), nanoUsd: fc.integer({ min: 1, max: A_DAY }) }),
  fc.record({ do: fc.constant("return" as const), which: fc.nat({ max: 9 }) }),
);

it(
  "whatever is leased, returned or lost, a rental is paid as it is without leases",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 10, max: 35 }), fc.array(step, { maxLength: 30 }), async (tenths, history) => {
        const balance = (A_DAY / 10) * tenths;
        const [beside, alone] = [await rented(balance), await rented(balance)];
        const out: { giveBack(): Promise<unknown> }[] = [];
        for (const one of history) {
          if (one.do === "wait") advance(one.ms);
          for (const stub of [beside, alone]) await runDurableObjectAlarm(stub);
          if (one.do === "lease") {
            const granted = await lease(beside, one.nanoUsd);
            if (granted) out.push(granted);
          }
          if (one.do === "return") await out.splice(one.which, 1)[0]?.giveBack();
          await expectSound(beside);
        }
        // Leases expire, and what was paid in part is paid whole.
        for (let minutes = 0; minutes < 4; minutes++) {
          advance(60_000);
          for (const stub of [beside, alone]) await runDurableObjectAlarm(stub);
        }
        const stands = async (stub: Stub) => (await charged(stub)) + (await held(stub));
        // Each period is rounded up by less than one nano-USD, and a stretch begins when it is turned.
        const slackNanoUsd = 30 + Math.ceil((A_DAY * 1_600) / DAY) * history.length;
        expect(Math.abs((await stands(beside)) - (await stands(alone)))).toBeLessThanOrEqual(slackNanoUsd);
        const state = "SELECT json_extract(row, '$.rental.phase.at') AS at FROM resources";
        expect(await rows(beside, state)).toEqual(await rows(alone, state));
        await expectSound(beside);
      }),
      HISTORIES,
    );
  },
  HISTORIES_TIMEOUT_MS,
);

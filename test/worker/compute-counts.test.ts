/**
 * What rented machines make the objects do, counted: calls between them, rows written, alarms, calls upstream. The
 * figures are today's and a ceiling: whoever needs more has to say so here, whoever needs less lowers them. Calls are
 * exact on any machine; rows and alarms vary by a few, with how soon the queue confirms the usage that was shipped.
 */
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Account } from "../../src/platform/account/object.ts";
import { Broker } from "../../src/platform/broker/broker.ts";
import { Fleet, type Renter } from "../support/worker/fleet.ts";
import { IN_FULL } from "../support/worker/in-full.ts";
import { done, settled } from "../support/worker/operator.ts";

const HOUR_MS = 3_600_000;
const PRICE_USD = 3.6;

interface Counts {
  /** Calls of the account object and of the broker, by whomever. */
  readonly rpcs: number;
  readonly rowsWritten: number;
  readonly alarms: number;
  readonly upstreamCalls: number;
}

const CEILING = {
  // The regions, the launch; lists every 5 s until it runs, each told to the account while it is in transition.
  "a launch, until it is seen running": { rpcs: 7, rowsWritten: 56, alarms: 3, upstreamCalls: 5 },
  // A list a minute that changes nothing and wakes nobody, the upstream's balance, and one turn of the money.
  "an hour of running": { rpcs: 1, rowsWritten: 515, alarms: 65, upstreamCalls: 120 },
  // The lists are the same for all of them.
  "an hour of 10 at rest": { rpcs: 1, rowsWritten: 640, alarms: 70, upstreamCalls: 120 },
  "a day of 100 at rest": { rpcs: 24, rowsWritten: 50_000, alarms: 3_000, upstreamCalls: 2_880 },
} satisfies Record<string, Counts>;

let fleet: Fleet;
let renter: Renter;
let spies: { readonly mock: { readonly calls: readonly unknown[] } }[];
let cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[];
let rowsBefore = 0;
let made = 0;

beforeEach(async () => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  fleet = new Fleet();
  made += 1;
  await fleet.region(`counts-${made}`, 2, 3.6);
  await fleet.seat(`counts-seat-${made}`, false);
  renter = await fleet.renter(`counts-${made}`, `counts-seat-${made}`, 100_000);
  // What is read first and told first is not counted.
  await fleet.launch(renter, `counts-${made}`);
  await fleet.until("running", async () => (await fleet.instance(renter, 1000)).status === "running", 30_000);
  expect((await fleet.call(renter, "POST", "/gpu-instances/1000/terminate")).status).toBe(202);
  await fleet.run(130_000);
  await settled();
  await fleet.run(10_000);
  spies = [
    vi.spyOn(Account.prototype, "compute"),
    vi.spyOn(Account.prototype, "observed"),
    vi.spyOn(Broker.prototype, "send"),
    vi.spyOn(Broker.prototype, "watch"),
    vi.spyOn(Broker.prototype, "market"),
  ];
  cursors = [];
  rowsBefore = 0;
  for (const stub of [fleet.accountStub(renter), fleet.brokerStub(renter.seat)]) await watchRows(stub as never);
});
afterEach(async () => {
  await settled();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

async function watchRows(stub: DurableObjectStub<undefined>): Promise<void> {
  await runInDurableObject(stub, (_, { storage: { sql } }) => {
    const exec = sql.exec.bind(sql);
    const value = (query: string, ...given: unknown[]) => {
      const cursor = exec(query, ...given);
      cursors.push(cursor);
      if (cursors.length >= MOST_CURSORS) takeUpRows();
      return cursor;
    };
    Object.defineProperty(sql, "exec", { configurable: true, value });
  });
}

/** Cursors are read once they are many: three days have millions. */
const MOST_CURSORS = 10_000;

function takeUpRows(): void {
  // The newest may not have been carried out yet.
  const newest = cursors.pop();
  for (const cursor of cursors) rowsBefore += cursor.rowsWritten;
  cursors = newest ? [newest] : [];
}

function total(): Counts {
  takeUpRows();
  return {
    rpcs: spies.reduce((sum, { mock }) => sum + mock.calls.length, 0),
    rowsWritten: rowsBefore + cursors.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0),
    alarms: fleet.fired,
    upstreamCalls: fleet.service.calls.length,
  };
}

async function expectWithin(name: keyof typeof CEILING, work: () => Promise<unknown>): Promise<void> {
  const before = total();
  await work();
  const after = total();
  const ceiling: Counts = CEILING[name];
  const counts = Object.fromEntries(
    Object.entries(after).map(([what, count]) => [what, count - before[what as keyof Counts]]),
  );
  expect(counts.upstreamCalls, "something is counted").toBeGreaterThan(0);
  const over = Object.entries(counts).filter(([what, count]) => (count ?? 0) > ceiling[what as keyof Counts]);
  expect(Object.fromEntries(over), `${name}: ${JSON.stringify(counts)}`).toEqual({});
}

it("a launch, and an hour of running, make others do no more than that", async () => {
  await expectWithin("a launch, until it is seen running", async () => {
    expect((await fleet.launch(renter, `counts-${made}`)).status).toBe(202);
    await fleet.run(8_000);
  });
  await fleet.run(120_000);
  await expectWithin("an hour of running", () => fleet.run(HOUR_MS));
});

const REST = IN_FULL
  ? ({ machines: 100, hours: 24, name: "a day of 100 at rest" } as const)
  : ({ machines: 10, hours: 1, name: "an hour of 10 at rest" } as const);

it(`${REST.machines} machines at rest cost the lists of one, and a turn an hour each`, async () => {
  for (let minute = 0; minute < REST.machines / 10; minute++) {
    const answers = await Promise.all(Array.from({ length: 10 }, () => fleet.launch(renter, `counts-${made}`)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
    await fleet.run(60_500);
  }
  await fleet.run(60_000);
  await expectWithin(REST.name, () => fleet.run(REST.hours * HOUR_MS));
  const runs = fleet.service.executions(renter.seat).filter(({ state }) => state === "running");
  expect(runs).toHaveLength(REST.machines);
}, 600_000);

/**
 * Machines on one shared upstream, and for how long they run: in full under `npm run proof`. Most calls of objects come
 * when all are stopped at once: lists are told every 5 s then, to each account whose stops still wait for a call.
 */
const SCALE = IN_FULL
  ? { accounts: 100, each: 10, hours: 72, ceiling: { rpcs: 30_000, rowsWritten: 1_200_000, upstreamCalls: 13_000 } }
  : { accounts: 3, each: 10, hours: 0.25, ceiling: { rpcs: 200, rowsWritten: 3_000, upstreamCalls: 280 } };

it(`${SCALE.accounts * SCALE.each} machines of ${SCALE.accounts} accounts stay within the upstream's calls, and pay what they ran`, async () => {
  const { accounts, each, hours } = SCALE;
  const seat = `counts-shared-${made}`;
  fleet.service.keepsShown = false;
  await fleet.seat(seat, true, 1_000_000_000);
  const renters: Renter[] = [];
  for (let n = 0; n < accounts; n++) {
    renters.push(await fleet.renter(`counts-${made}-${n}`, seat, PRICE_USD * each * (hours + 8)));
  }
  await watchRows(fleet.brokerStub(seat) as never);
  for (const one of renters) await watchRows(fleet.accountStub(one) as never);
  const before = total();
  for (const one of renters) {
    const launches = Array.from({ length: each }, () => fleet.launch(one, `counts-${made}`));
    expect((await Promise.all(launches)).map(({ status }) => status)).toEqual(Array(each).fill(202));
    await fleet.run(60_500);
  }
  await fleet.run(hours * HOUR_MS);
  const runs = () => fleet.service.executions(seat).filter(({ state }) => state === "running");
  expect(runs()).toHaveLength(accounts * each);
  const askedMs = new Map<string, number>();
  for (const one of renters) {
    askedMs.set(one.account, fleet.nowMs);
    expect((await done("POST", `/accounts/${one.account}/compute/stop`)).stopping).toHaveLength(each);
  }
  await fleet.until("all have ended", () => runs().length === 0, 2 * HOUR_MS, 60_000);
  await fleet.run(700_000);

  const calls = fleet.service.calls.filter(({ account }) => account === seat);
  expect(mostAMinute(calls.map(({ atMs }) => atMs))).toBeLessThanOrEqual(55);
  expect(calls.filter(({ status }) => status !== 200 && status !== 202)).toEqual([]);
  for (const one of renters) {
    const own = fleet.service.executions(seat).filter(({ name }) => name?.split("-")[1] === String(one.number));
    const ms = own.reduce((sum, { started_ms }) => sum + (askedMs.get(one.account) ?? 0) - (started_ms ?? 0), 0);
    const audit = await fleet.accountStub(one).audit();
    expect(audit).toMatchObject({ ok: true, problems: [], openHolds: 0 });
    const paid = PRICE_USD * 1e9 * each * (hours + 8) - (audit?.balanceNanoUsd ?? 0);
    expect(paid).toBe(((PRICE_USD * 1e9) / HOUR_MS) * ms);
  }
  const after = total();
  const counts = Object.fromEntries(
    Object.entries(after).map(([what, count]) => [what, count - before[what as keyof Counts]]),
  );
  const over = Object.entries(SCALE.ceiling).filter(([what, most]) => (counts[what] ?? 0) > most);
  expect(Object.fromEntries(over), JSON.stringify(counts)).toEqual({});
}, 3_600_000);

/** The most of these times that lie within a minute. */
function mostAMinute(times: readonly number[]): number {
  const sorted = [...times].sort((one, other) => one - other);
  let from = 0;
  let most = 0;
  for (const [to, atMs] of sorted.entries()) {
    while ((sorted[from] ?? 0) <= atMs - 60_000) from += 1;
    most = Math.max(most, to - from + 1);
  }
  return most;
}

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
import { settled } from "../support/worker/operator.ts";

const HOUR_MS = 3_600_000;

interface Counts {
  /** Calls of the account object and of the broker, by whomever. */
  readonly rpcs: number;
  readonly rowsWritten: number;
  readonly alarms: number;
  readonly upstreamCalls: number;
}

const CEILING = {
  // The regions, the launch; lists every 5 s until it runs, each told to the account while it is in transition.
  "a launch, until it is seen running": { rpcs: 7, rowsWritten: 52, alarms: 3, upstreamCalls: 5 },
  // A list a minute that changes nothing and wakes nobody, the upstream's balance, and one turn of the money.
  "an hour of running": { rpcs: 1, rowsWritten: 515, alarms: 65, upstreamCalls: 120 },
  // The lists are the same for all of them.
  "an hour of 30 at rest": { rpcs: 1, rowsWritten: 840, alarms: 78, upstreamCalls: 120 },
} satisfies Record<string, Counts>;

let fleet: Fleet;
let renter: Renter;
let spies: { readonly mock: { readonly calls: readonly unknown[] } }[];
let cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[];
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
      return cursor;
    };
    Object.defineProperty(sql, "exec", { configurable: true, value });
  });
}

const total = (): Counts => ({
  rpcs: spies.reduce((sum, { mock }) => sum + mock.calls.length, 0),
  rowsWritten: cursors.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0),
  alarms: fleet.fired,
  upstreamCalls: fleet.service.calls.length,
});

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

it("30 machines at rest cost the lists of one, and a turn an hour each", async () => {
  for (let minute = 0; minute < 3; minute++) {
    const answers = await Promise.all(Array.from({ length: 10 }, () => fleet.launch(renter, `counts-${made}`)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
    await fleet.run(60_500);
  }
  await fleet.run(60_000);
  await expectWithin("an hour of 30 at rest", () => fleet.run(HOUR_MS));
  expect(fleet.service.executions(renter.seat).filter(({ state }) => state === "running")).toHaveLength(30);
});

/**
 * The gateway killed with -9 at each named point of a rented machine's way, and started again on the same state: no
 * machine is doubled, none is forgotten, and what was charged is what ran until its end was asked for. `PROOF=1` kills
 * at every point, else at a few.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Mortal, type Span } from "../../support/compute/mortal.ts";
import { PRICE, type Renter } from "../../support/compute/renter.ts";
import { eventually } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { usageEventsOf } from "../../support/joined-books.ts";
import type { RentalPoint } from "../../support/kill-points.ts";

/** An hour of money; a cluster of two GPUs costs a whole number of nano-USD a ms. */
const HOUR_MS = 6_000;
const NANO_PER_MS = (PRICE * 1e9) / HOUR_MS;
/** What `Renter` has upstream rent a GPU for. */
const COST = 2;
const HOURS = 40;
const MORE_HOURS = 2;
/** Each restart takes seconds. */
const TIMEOUT_MS = 120_000;

/** Where the gateway is killed at each of a cluster's four calls; null: it is not made. */
interface Life {
  readonly launch: RentalPoint;
  readonly extend: RentalPoint | null;
  readonly scale: RentalPoint | null;
  readonly end: RentalPoint;
}
const SHORT: readonly Life[] = [{ launch: "sent", extend: null, scale: null, end: "sent" }];
/** Each call at each point. */
const WHOLE: readonly Life[] = [
  { launch: "held", extend: "sent", scale: "answered", end: "applied" },
  { launch: "sent", extend: "answered", scale: "applied", end: "held" },
  { launch: "answered", extend: "applied", scale: "held", end: "sent" },
  { launch: "applied", extend: "held", scale: "sent", end: "answered" },
];
/** While nobody calls: as it is first seen running, or in a turn; then at the stop that its alarm sends at zero. */
const ALONE: readonly (readonly [RentalPoint, RentalPoint])[] = [
  ["listed", "repeating"],
  ["told", "sent"],
  ["turning", "answered"],
];

let mortal: Mortal;

beforeAll(async () => {
  mortal = await Mortal.start({ hourMs: HOUR_MS, dayMs: 24 * HOUR_MS });
});
afterAll(() => mortal?.stop());

interface Shown {
  readonly id: number;
  readonly status: string;
}
type Kind = "/gpu-instances" | "/gpu-clusters";

const listed = async (renter: Renter, kind: Kind): Promise<readonly Shown[]> =>
  (await renter.send<readonly Shown[]>("GET", kind)).body;

function untilShown(renter: Renter, kind: Kind, what: string, isSo: (newest: Shown) => boolean): Promise<Shown> {
  const probe = async () => {
    const newest = [...(await listed(renter, kind))].sort((one, other) => other.id - one.id)[0];
    return newest && isSo(newest) ? newest : undefined;
  };
  return eventually(what, probe, { withinMs: 40_000, everyMs: 1_200 });
}

const launchCluster = (renter: Renter) =>
  renter.send("POST", "/gpu-clusters", {
    region_id: renter.region,
    gpu_count: 1,
    replicas: 2,
    container_image: "img:1",
    estimated_duration_hours: HOURS,
  });

/** Upstream has made the change, and the gateway has seen it: nothing of it is sent again. */
async function untilDone(renter: Renter, change: { readonly hours: number; readonly replicas: number }): Promise<void> {
  await eventually(
    `upstream shows ${JSON.stringify(change)}`,
    async () => {
      const [ran] = await renter.sandbox.executions(renter.seat);
      return ran?.hours === change.hours && ran.replicas === change.replicas;
    },
    { withinMs: 30_000 },
  );
  await mortal.operator.call("POST", `/compute/${renter.seat}/reconcile`);
  await untilShown(renter, "/gpu-clusters", "it runs", ({ status }) => status === "running");
}

/** It is charged to the ms of a moment in `asked`. */
async function expectExact(renter: Renter, gpus: number, asked: Span): Promise<void> {
  const { ran, chargedNano } = await booked(renter);
  const chargedMs = chargedNano / (NANO_PER_MS * gpus);
  const startedMs = ran?.started_ms ?? 0;
  expect(ran).toMatchObject({ state: "stopped", gpus });
  expect(Number.isInteger(chargedMs), `${chargedNano}`).toBe(true);
  expect(chargedMs).toBeGreaterThanOrEqual(asked.fromMs - startedMs);
  expect(chargedMs).toBeLessThanOrEqual(asked.toMs - startedMs);
  expect(chargedMs).toBeLessThanOrEqual(ran?.ms ?? 0);
}

/** Once nothing is under way: the one machine that ran, and what was charged, by ledger and reports alike. */
async function booked(renter: Renter) {
  const { tenant } = renter;
  const audit = await eventually(
    "everything is booked and reported",
    async () => {
      const now = await tenant.audit();
      return now.open_holds === 0 && now.outbox === 0 && now;
    },
    { withinMs: 20_000 },
  );
  expect(audit).toMatchObject({ ok: true, problems: [], held_usd: 0 });
  const [ran, ...others] = await renter.sandbox.executions(renter.seat);
  expect(others).toEqual([]);
  const entries = (await tenant.ledger()).filter(({ kind }) => kind !== "top_up");
  const chargedNano = entries.reduce((sum, { amount_usd }) => sum - Math.round(amount_usd * 1e9), 0);
  await eventually(`${chargedNano} is reported`, () => {
    const events = usageEventsOf(mortal.process.stateDir, tenant.account);
    return events.reduce((all, { price_nano_usd }) => all + price_nano_usd, 0) === chargedNano;
  });
  return { ran, chargedNano, audit };
}

test.each(IN_FULL ? WHOLE : SHORT)(
  "a cluster's life, killed at %o",
  async ({ launch, extend, scale, end }) => {
    const renter = await mortal.renter(1_000);
    await mortal.killed(launch, () => launchCluster(renter));
    const first = await untilShown(renter, "/gpu-clusters", "it runs or failed", ({ status }) =>
      ["running", "failed"].includes(status),
    );
    expect(first.status === "failed", "only what was never sent has failed").toBe(launch === "held");
    if (launch === "held") {
      expect(await renter.sandbox.executions(renter.seat)).toEqual([]);
      expect(await renter.tenant.audit()).toMatchObject({ open_holds: 0, balance_usd: 1_000 });
      await launchCluster(renter);
    }
    const { id } = await untilShown(renter, "/gpu-clusters", "it runs", ({ status }) => status === "running");
    const path = `/gpu-clusters/${id}`;

    if (extend !== null) {
      await mortal.killed(extend, () => renter.send("POST", `${path}/extend`, { hours: MORE_HOURS }));
      await untilDone(renter, { hours: HOURS + MORE_HOURS, replicas: 2 });
    }
    if (scale !== null) {
      await mortal.killed(scale, () => renter.send("POST", `${path}/scale`, { replicas: 3 }));
      await untilDone(renter, { hours: HOURS + MORE_HOURS, replicas: 3 });
    }
    const asked = await mortal.killed(end, () => renter.send("DELETE", path));
    await untilShown(renter, "/gpu-clusters", "it has stopped", ({ status }) => status === "stopped");
    await expectExact(renter, 2, asked);
  },
  TIMEOUT_MS,
);

test.runIf(IN_FULL).each(ALONE)(
  "an instance by the hour, killed %s, and %s when its money is used up",
  async (early, late) => {
    const hours = 3.5;
    const renter = await mortal.renter(PRICE * hours);
    const running = await mortal.killed(early, () => renter.launch());
    expect(running.toMs).toBeGreaterThan(running.fromMs);
    await mortal.killed(late, () => renter.send("GET", "/gpu-instances"));
    await untilShown(renter, "/gpu-instances", "it is stopped", ({ status }) => status === "terminated");
    const { ran, chargedNano, audit } = await booked(renter);
    expect(ran).toMatchObject({ state: "stopped", gpus: 1 });
    expect(chargedNano).toBe(PRICE * hours * 1e9);
    const lostMs = (ran?.ms ?? 0) - hours * HOUR_MS;
    expect(lostMs).toBeGreaterThanOrEqual(0);
    expect(audit).toMatchObject({
      balance_usd: 0,
      operator_loss_usd: Math.ceil((COST * 1e9 * lostMs) / HOUR_MS) / 1e9,
    });
  },
  TIMEOUT_MS,
);

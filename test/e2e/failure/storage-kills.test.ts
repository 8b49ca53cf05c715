/**
 * The gateway killed with -9 at each named point of a drive's way, and started again on the same state: one drive
 * upstream, each day that began charged once, and what upstream kept beyond that is the operator's loss, to the day.
 * `PROOF=1` kills at every point, else at a few.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Mortal } from "../../support/compute/mortal.ts";
import type { Renter, StorageShown } from "../../support/compute/renter.ts";
import { eventually, sleep } from "../../support/eventually.ts";
import { IN_FULL } from "../../support/in-full.ts";
import { usageEventsOf } from "../../support/joined-books.ts";
import type { RentalPoint } from "../../support/kill-points.ts";

/** Longer than a restart. */
const DAY_MS = 10_000;
/** 50 GB at these prices a GB and day: whole dollars a day, for the tenant and for the operator. */
const PRICE = 0.04;
const COST = 0.02;
const TIMEOUT_MS = 180_000;

/** Where the gateway is killed at each step; null: the step is not taken. */
interface Life {
  readonly create: RentalPoint;
  /** At the launch that attaches it and makes a filesystem. */
  readonly attach: RentalPoint | null;
  /** In the alarm that charges a day. */
  readonly day: RentalPoint | null;
  readonly end: RentalPoint;
}
const SHORT: readonly Life[] = [{ create: "sent", attach: null, day: null, end: "sent" }];
const WHOLE: readonly Life[] = [
  { create: "held", attach: "sent", day: "turning", end: "applied" },
  { create: "sent", attach: "answered", day: null, end: "held" },
  { create: "answered", attach: "applied", day: "turning", end: "sent" },
  { create: "applied", attach: "held", day: null, end: "answered" },
];
/** While nobody calls: when it is suspended, and at the delete that the alarm sends after the grace. */
const UNPAID: readonly (readonly [RentalPoint, RentalPoint])[] = [
  ["turning", "repeating"],
  ["turning", "sent"],
  ["turning", "answered"],
  ["turning", "listed"],
];

let mortal: Mortal;

beforeAll(async () => {
  mortal = await Mortal.start({ hourMs: 60_000, dayMs: DAY_MS });
  for (const kind of ["drive", "filesystem"]) {
    const prices = { storage_gb_days: { cost_usd: COST, price_usd: PRICE } };
    await mortal.operator.call("PUT", `/models/storage%2F${kind}`, { kind: "storage", prices });
  }
});
afterAll(() => mortal?.stop());

type Path = "/cloud-drives" | "/shared-filesystems";

/** The newest of the kind, once it is so. */
function untilNewest(renter: Renter, path: Path, statuses: readonly string[]): Promise<StorageShown> {
  const probe = async () => {
    const { body } = await renter.send<StorageShown[]>("GET", path);
    const newest = [...body].sort((one, other) => other.id - one.id)[0];
    return newest && statuses.includes(newest.status) ? newest : undefined;
  };
  return eventually(`${path}: ${statuses}`, probe, { withinMs: 60_000, everyMs: 1_500 });
}

/** Until a day has just begun and what it brought is done: the next alarm is that of the next day. */
async function midday(createdMs: number): Promise<void> {
  const inDay = (Date.now() - createdMs) % DAY_MS;
  await sleep((DAY_MS * 1.5 - inDay) % DAY_MS);
}

/** Until no day begins within a restart: which day upstream took the delete in is known then. */
async function earlyInDay(createdMs: number): Promise<void> {
  const inDay = (Date.now() - createdMs) % DAY_MS;
  if (inDay < DAY_MS * 0.05 || inDay > DAY_MS * 0.45) await sleep((DAY_MS * 1.05 - inDay) % DAY_MS);
}

/** Days charged and days lost come to the days that upstream kept, and nothing is left open. */
async function expectExact(renter: Renter, drives: number): Promise<{ charged: number; lost: number }> {
  const { tenant, seat, sandbox } = renter;
  const audit = await eventually(
    "everything is booked and reported",
    async () => {
      const now = await tenant.audit();
      return now.open_holds === 0 && now.outbox === 0 && now;
    },
    { withinMs: 30_000 },
  );
  expect(audit).toMatchObject({ ok: true, problems: [], held_usd: 0 });
  const kept = await sandbox.storage(seat);
  expect(kept).toHaveLength(drives);
  expect(kept.every(({ state }) => state === "deleted")).toBe(true);
  const amounts = (await tenant.charges()).map(({ amount_usd }) => amount_usd);
  const days = amounts.filter((amount) => amount === -50 * PRICE).length;
  // A machine that was stopped may have its own loss, of the time until its stop landed.
  const lostNano = usageEventsOf(mortal.process.stateDir, tenant.account)
    .filter(({ endpoint }) => ["compute.drive", "compute.filesystem"].includes(endpoint))
    .reduce((sum, { loss_nano_usd }) => sum + loss_nano_usd, 0);
  const lost = lostNano / (50 * COST * 1e9);
  expect(days + lost).toBe(kept.reduce((sum, { days_charged }) => sum + days_charged, 0));
  return { charged: days, lost };
}

/** Launches with the drive and a new filesystem, killed; then ends the machine and deletes the filesystem. */
async function attached(renter: Renter, drive: number, point: RentalPoint): Promise<number> {
  const launch = () =>
    renter.launch({
      cloud_drives: [{ id: drive, mount_path: "/disk" }],
      new_shared_filesystems: [{ name: "data", size_gb: 50, mount_path: "/data" }],
    });
  await mortal.killed(point, launch);
  if (point === "held") {
    // Never sent: the launch and its filesystem fail, the drive is free again.
    const [failed] = (await renter.send<{ id: number }[]>("GET", "/gpu-instances")).body;
    await renter.until(failed?.id ?? 0, "failed");
    await untilNewest(renter, "/shared-filesystems", ["lost"]);
    expect((await renter.storage("/cloud-drives", drive))?.status).toBe("available");
    return 0;
  }
  const probe = async () => {
    const { body } = await renter.send<{ id: number; status: string }[]>("GET", "/gpu-instances");
    return body.find(({ status }) => status === "running");
  };
  const { id } = await eventually("it runs", probe, { withinMs: 40_000, everyMs: 1_200 });
  const data = await untilNewest(renter, "/shared-filesystems", ["in_use"]);
  expect((await renter.send("DELETE", `/cloud-drives/${drive}`)).status).toBe(409);
  expect((await renter.send("POST", `/gpu-instances/${id}/terminate`)).status).toBe(202);
  await renter.until(id, "terminated");
  expect(await renter.sandbox.executions(renter.seat)).toHaveLength(1);
  expect((await renter.send("DELETE", `/shared-filesystems/${data.id}`)).status).toBe(202);
  await renter.untilStorage("/shared-filesystems", data.id, "deleted");
  return 1;
}

test.each(IN_FULL ? WHOLE : SHORT)(
  "a drive's life, killed at %o",
  async ({ create, attach, day, end }) => {
    const renter = await mortal.renter(1_000);
    await mortal.killed(create, () => renter.drive());
    const first = await untilNewest(renter, "/cloud-drives", ["available", "lost"]);
    expect(first.status === "lost", "only what was never sent is lost").toBe(create === "held");
    if (create === "held") {
      expect(await renter.sandbox.storage(renter.seat)).toEqual([]);
      expect(await renter.tenant.audit()).toMatchObject({ open_holds: 0, balance_usd: 1_000 });
      await renter.drive();
    }
    const { id, created_at } = await untilNewest(renter, "/cloud-drives", ["available"]);
    const made = attach === null ? 0 : await attached(renter, id, attach);
    if (day !== null) {
      await midday(Date.parse(created_at));
      await mortal.killed(day);
    }
    await earlyInDay(Date.parse(created_at));
    const asked = await mortal.killed(end, () => renter.send("DELETE", `/cloud-drives/${id}`));
    await renter.untilStorage("/cloud-drives", id, "deleted");
    const { charged } = await expectExact(renter, 1 + made);
    const least = Math.floor((asked.fromMs - Date.parse(created_at) - 1_000) / DAY_MS) + 1;
    expect(charged).toBeGreaterThanOrEqual(least);
  },
  TIMEOUT_MS,
);

test.runIf(IN_FULL).each(UNPAID)(
  "an unpaid drive, killed %s as it is suspended, and %s as it is deleted after the grace",
  async (early, late) => {
    const renter = await mortal.renter(50 * PRICE);
    await mortal.operator.call("PATCH", `/accounts/${renter.tenant.account}`, { storage_grace_days: 3 });
    await renter.drive();
    const { id, created_at } = await untilNewest(renter, "/cloud-drives", ["available"]);
    await midday(Date.parse(created_at));
    await mortal.killed(early);
    await untilNewest(renter, "/cloud-drives", ["suspended"]);
    // The second warning is a day before the deletion: what is sent after it is the delete.
    const told = (event: string) =>
      mortal.process.output.split("\n").filter((line) => line.includes(`"${event}"`) && line.includes(renter.seat));
    await eventually("it is warned twice", () => told("storage.deleting").length >= 2, { withinMs: 60_000 });
    await mortal.killed(late);
    await renter.untilStorage("/cloud-drives", id, "deleted");
    expect(await expectExact(renter, 1)).toMatchObject({ charged: 1 });
    expect([told("storage.suspended").length, told("storage.deleting").length]).toEqual([1, 2]);
    expect(await renter.tenant.audit()).toMatchObject({ balance_usd: 0 });
  },
  TIMEOUT_MS,
);

test.runIf(IN_FULL)(
  "an inference instance by the hour, killed as it begins and in its turns, and unpaid at last: its hours are charged once",
  async () => {
    const [id, gpus, usd] = [4_711, 4, 0.25];
    const dayUsd = 24 * gpus * usd;
    const { operator } = mortal;
    const prices = { gpu_hours: { cost_usd: 0.1, price_usd: usd } };
    await operator.call("PUT", "/models/gpu%2FH100", { kind: "gpu", prices });
    await operator.sandbox.addInstance(id, "llama-7b");
    const tenant = await operator.tenant({ balance_usd: 2.5 * dayUsd });
    const hourly = { gpu_type: "H100", gpu_count: 2, replicas: 2 };
    const body = { account: tenant.account, name: "llama-7b", upstreams: ["sandbox"], hourly };
    const put = () => operator.ask("PUT", `/instances/${id}`, body);
    const fromMs = Date.now();
    await mortal.killed("begun", put);
    expect((await operator.ask("GET", `/instances/${id}`)).status).toBe(404);
    expect(await tenant.audit()).toMatchObject({ open_holds: 1, held_usd: dayUsd });
    expect((await put()).status).toBe(200);
    expect(await tenant.audit()).toMatchObject({ open_holds: 1, held_usd: dayUsd });
    for (let turn = 0; turn < 2; turn++) {
      await midday(fromMs);
      await mortal.killed("turning");
    }
    await eventually("it is unpaid", async () => (await tenant.audit()).balance_usd === 0, { withinMs: 60_000 });
    const paid = async () => (await tenant.charges()).reduce((sum, { amount_usd }) => sum - amount_usd, 0);
    expect(await paid()).toBeCloseTo(2.5 * dayUsd, 9);
    expect((await operator.ask("DELETE", `/instances/${id}`)).status).toBe(200);
    expect(await paid()).toBeCloseTo(2.5 * dayUsd, 9);
    const audit = await tenant.audit();
    expect(audit).toMatchObject({ ok: true, problems: [], open_holds: 0, held_usd: 0, balance_usd: 0 });
    // What ran on unpaid until it was deleted.
    const unpaidMs = Date.now() - fromMs - 2.5 * DAY_MS;
    expect(audit.operator_loss_usd).toBeGreaterThan(0);
    expect(audit.operator_loss_usd).toBeLessThan((24 * gpus * 0.1 * (unpaidMs + 1_000)) / DAY_MS);
  },
  TIMEOUT_MS,
);

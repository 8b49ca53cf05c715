/**
 * Rented machines on a clock of the test's own, while lists lie, clocks jump, what objects know is lost, and many calls
 * come at once.
 */
import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { rows } from "../support/worker/account-support.ts";
import { IN_FULL } from "../support/worker/in-full.ts";
import { call, done } from "../support/worker/operator.ts";
import {
  audit,
  changes,
  fleet,
  HOUR_MS,
  NANO,
  PRICE,
  priceOf,
  ranMs,
  region,
  renting,
  running,
  untilEnded,
  withFleet,
} from "../support/worker/simulated-rentals.ts";

withFleet();

describe("upstream is away", () => {
  it("with lists that omit everything: what runs goes on running and is charged, and is read by id once a minute", async () => {
    const renter = await renting(100);
    const id = await running(renter);
    fleet.service.omit(renter.seat, "all");
    const from = fleet.service.calls.length;
    await fleet.run(3 * HOUR_MS);
    expect((await fleet.instance(renter, id)).status).toBe("running");
    const reads = fleet.service.calls.slice(from).filter(({ path }) => /gpu-instances\/\d+$/.test(path));
    expect(reads.length).toBeGreaterThanOrEqual(25);
    expect(reads.length).toBeLessThanOrEqual(31);
    expect(changes(renter)).toHaveLength(1);
    fleet.service.omit(renter.seat, null);
    await fleet.call(renter, "POST", `/gpu-instances/${id}/terminate`);
    await untilEnded(renter, id);
    expect(100 * NANO - ((await audit(renter))?.balanceNanoUsd ?? 0)).toBe((ranMs(renter) / HOUR_MS) * PRICE * NANO);
  });

  it("what vanished after hours at rest is charged to the last list that showed it, found missing by a list or by a stop", async () => {
    const renter = await renting(100);
    const ids = [await running(renter), await running(renter)];
    await fleet.run(5 * HOUR_MS);
    const ran = fleet.service.executions(renter.seat);
    for (const { id } of ran) fleet.service.force(id, "lost");
    await fleet.call(renter, "POST", `/gpu-instances/${ids[1]}/terminate`);
    const over = async () =>
      (await Promise.all(ids.map((id) => fleet.instance(renter, id)))).map(({ status }) => status);
    await fleet.until("over", async () => (await over()).join() === "failed,terminated", 300_000, 7_000);
    const lists = fleet.service.calls.filter(({ path }) => path === "/gpu-instances");
    const seenMs = ran.map(({ id, started_ms }) => {
      const last = lists.filter(({ shown }) => shown.has(id)).at(-1);
      return (last?.atMs ?? 0) - (started_ms ?? 0);
    });
    const spent = 100 * NANO - ((await audit(renter))?.balanceNanoUsd ?? 0);
    expect(spent).toBe(priceOf(seenMs.reduce((sum, ms) => sum + ms, 0)));
  });

  it("with lists that omit everything: storage of a launch that lives is not given up; what is, is found an hour later", async () => {
    for (const kind of ["drive", "filesystem"]) {
      const prices = { storage_gb_days: { cost_usd: 0.01, price_usd: 0.02 } };
      await done("PUT", `/models/storage%2F${kind}`, { kind: "storage", prices });
    }
    const renter = await renting(100);
    fleet.service.omit(renter.seat, "all");
    const made = { new_shared_filesystems: [{ name: "data", size_gb: 50, mount_path: "/data" }] };
    expect((await fleet.launch(renter, region(), made)).status).toBe(202);
    fleet.service.fault(renter.seat, "lost_answer", 1, (method, path) => method === "POST" && path === "/cloud-drives");
    const drive = { name: "disk", region_id: region(), size_gb: 50 };
    expect((await fleet.call(renter, "POST", "/cloud-drives", drive)).status).toBe(202);
    await fleet.run(HOUR_MS / 2);
    const status = async (path: string) => (await fleet.call(renter, "GET", path)).body[0].status;
    expect([await status("/shared-filesystems"), await status("/cloud-drives")]).toEqual(["pending", "lost"]);
    await fleet.evictAccount(renter);
    fleet.service.omit(renter.seat, null);
    // Nothing else of its kind is there: it is looked for all the same.
    const kept = () => fleet.service.storage().filter(({ account }) => account === renter.seat);
    const of = (kind: string) => kept().find((one) => one.kind === kind);
    await fleet.until("the drive is deleted", () => of("drive")?.state === "deleted", 300_000, 10_000);
    expect(await status("/shared-filesystems")).toBe("in_use");
    const loss = (await audit(renter))?.operatorLossNanoUsd;
    expect(loss).toBe((of("drive")?.days_charged ?? 0) * 0.01 * 50 * NANO);
    // The operator's stop of all that runs keeps tenants' data.
    const { stopping } = await done("POST", `/accounts/${renter.account}/compute/stop`);
    expect(stopping).toEqual([1000]);
    await fleet.until(
      "it is unmounted",
      async () => (await status("/shared-filesystems")) === "available",
      300_000,
      7_000,
    );
  });

  it("what a correction gives back is free in the key's budget again, and a machine runs to the end of that", async () => {
    const renter = await renting(100, {}, { max_budget: 6 });
    const id = await running(renter);
    await fleet.run(HOUR_MS / 2);
    fleet.service.fault(renter.seat, "reset", Number.POSITIVE_INFINITY, (method) => method === "GET");
    fleet.service.force(fleet.service.executions(renter.seat)[0]?.id ?? 0, "lost");
    await fleet.run(HOUR_MS * 0.6);
    fleet.service.clearFaults();
    await fleet.until("failed", async () => (await fleet.instance(renter, id)).status === "failed", 300_000, 7_000);
    expect(await audit(renter)).toMatchObject({ ok: true, problems: [], openHolds: 0 });
    const again = await fleet.launch(renter, region());
    expect(again.status).toBe(202);
    await fleet.evictAccount(renter);
    await fleet.until(
      "stopped",
      () => fleet.service.executions(renter.seat)[1]?.state === "stopped",
      3 * HOUR_MS,
      60_000,
    );
    await fleet.run(10_000);
    expect(await fleet.instance(renter, again.body.id)).toMatchObject({ termination_reason: "credit_depleted" });
    expect((await audit(renter))?.balanceNanoUsd).toBe((100 - 6) * NANO);
  });
});

describe("objects evicted between all steps", () => {
  it("a broker that lost what it was told is told again: a launch without an answer is found", async () => {
    const renter = await renting(100);
    fleet.service.fault(renter.seat, "lost_answer", 1);
    const { body } = await fleet.launch(renter, region());
    await runInDurableObject(fleet.brokerStub(renter.seat), (_, { storage }) => {
      storage.sql.exec("DELETE FROM watches");
    });
    // Nobody asks.
    await fleet.run(140_000);
    expect((await fleet.instance(renter, body.id)).status).toBe("running");
  });

  it("a tenant's poll makes the broker be told sooner", async () => {
    const renter = await renting(100);
    fleet.service.fault(renter.seat, "lost_answer", 1);
    const { body } = await fleet.launch(renter, region());
    await runInDurableObject(fleet.brokerStub(renter.seat), (_, { storage }) => {
      storage.sql.exec("DELETE FROM watches");
    });
    await fleet.until("running", async () => (await fleet.instance(renter, body.id)).status === "running", 30_000);
  });

  it("a machine whose row a restored state lacks is left alone", async () => {
    const renter = await renting(100);
    await running(renter);
    await running(renter);
    const before = changes(renter).length;
    await rows(fleet.accountStub(renter), "DELETE FROM holds WHERE rental = 1001");
    await rows(fleet.accountStub(renter), "DELETE FROM resources WHERE id = 1001");
    await fleet.evictAccount(renter);
    await fleet.run(130_000);
    await call("POST", `/compute/${renter.seat}/reconcile`);
    expect(changes(renter)).toHaveLength(before);
    expect(fleet.service.executions(renter.seat).map(({ state }) => state)).toEqual(["running", "running"]);
  });
});

describe("limits, exactly, under calls at once and evictions", () => {
  it("60 calls a minute of a key", async () => {
    const renter = await renting(100);
    const poll = () => fleet.call(renter, "GET", "/gpu-instances").then(({ status }) => status);
    const first = await Promise.all(Array.from({ length: 30 }, poll));
    await fleet.evictAccount(renter);
    const second = await Promise.all(Array.from({ length: 64 }, poll));
    expect([...first, ...second].filter((status) => status === 200)).toHaveLength(60);
    await fleet.evictAccount(renter);
    expect(await poll()).toBe(429);
    await fleet.run(61_000);
    expect(await poll()).toBe(200);
  });

  it("10 launches a minute of an account", async () => {
    const renter = await renting(1_000);
    const launch = () => fleet.launch(renter, region()).then(({ status }) => status);
    const first = await Promise.all(Array.from({ length: 4 }, launch));
    await fleet.evictAccount(renter);
    const second = await Promise.all(Array.from({ length: 16 }, launch));
    const all = [...first, ...second];
    expect(all.filter((status) => status === 202)).toHaveLength(10);
    expect(all.filter((status) => status === 429)).toHaveLength(10);
    expect(fleet.service.executions(renter.seat)).toHaveLength(10);
  });

  it("`max_gpus`", async () => {
    const renter = await renting(1_000, { max_gpus: 5 });
    const launch = () => fleet.launch(renter, region(), { gpu_count: 2 }).then(({ status }) => status);
    const first = await launch();
    await fleet.evictAccount(renter);
    const rest = await Promise.all(Array.from({ length: 6 }, launch));
    expect([first, ...rest].filter((status) => status === 202)).toHaveLength(2);
    expect(fleet.service.executions(renter.seat)).toHaveLength(2);
    await done("PATCH", `/accounts/${renter.account}`, { max_gpus: 6 });
    expect(await launch()).toBe(202);
  });

  it("the budgets of the key that launched and of the one that extends", async () => {
    const renter = await renting(1_000, {}, { max_budget: 3 * PRICE });
    const id = await running(renter, { estimated_duration_hours: 2 });
    const extend = async (fields: object, hours: number) => {
      const other = { name: "other", scopes: ["compute"], ...fields };
      const { key } = await done("POST", `/accounts/${renter.account}/keys`, other);
      return (await fleet.call({ ...renter, key }, "POST", `/gpu-instances/${id}/extend`, { hours })).status;
    };
    expect([await extend({ max_budget: 2 }, 1), await extend({}, 2), await extend({}, 1)]).toEqual([429, 429, 200]);
  });
});

describe("our clock, ahead by hours and set back", () => {
  const DAY_MS = 12 * HOUR_MS;

  it.each(IN_FULL ? [10_000, 3 * HOUR_MS, 2 * DAY_MS] : [10_000, 2 * DAY_MS])(
    "by %i ms: what runs goes on, lists and stops too, and the tenant pays what ran",
    async (aheadMs) => {
      const renter = await renting(200);
      const id = await running(renter);
      await fleet.run(HOUR_MS / 4);
      fleet.jump(aheadMs);
      await fleet.run(HOUR_MS / 4);
      fleet.jump(0 - aheadMs);
      const fromMs = fleet.nowMs;
      const lists = () =>
        fleet.service.calls.filter(
          ({ path, atMs }) => path === "/gpu-instances" && atMs >= fromMs && atMs <= fleet.nowMs,
        );
      // A tenant's call wakes the account, which wakes the broker.
      expect((await fleet.instance(renter, id)).status).toBe("running");
      await fleet.run(130_000);
      expect(lists().length).toBeGreaterThanOrEqual(2);
      await fleet.evictAccount(renter);
      const askedMs = fleet.nowMs;
      expect((await fleet.call(renter, "POST", `/gpu-instances/${id}/terminate`)).status).toBe(202);
      await untilEnded(renter, id, 20_000);
      const startedMs = fleet.service.executions(renter.seat)[0]?.started_ms ?? 0;
      const books = await audit(renter);
      expect(200 * NANO - (books?.balanceNanoUsd ?? 0)).toBe(priceOf(askedMs - startedMs));
      expect(books).toMatchObject({ ok: true, problems: [], openHolds: 0, operatorLossNanoUsd: 0 });
    },
  );

  it("calls and launches of a minute count a minute, and a stop is not kept back by what was sent", async () => {
    const renter = await renting(200);
    fleet.jump(3 * HOUR_MS);
    for (let launch = 0; launch < 10; launch++) await fleet.launch(renter, region());
    const poll = () => fleet.call(renter, "GET", "/gpu-instances").then(({ status }) => status);
    while ((await poll()) === 200);
    fleet.jump(-3 * HOUR_MS);
    expect([await poll(), (await fleet.launch(renter, region())).status]).toEqual([429, 429]);
    await fleet.run(61_000);
    expect(await poll()).toBe(200);
    // The broker has learned of it by that call.
    await fleet.run(61_000);
    expect((await fleet.launch(renter, region())).status).toBe(202);
    expect((await fleet.call(renter, "POST", "/gpu-instances/1000/terminate")).status).toBe(202);
    await untilEnded(renter, 1000, 20_000);
    expect(await audit(renter)).toMatchObject({ ok: true, problems: [] });
  });

  it("what it ended for want of money while it was ahead pays to its true end", async () => {
    const renter = await renting(1.5 * PRICE);
    const id = await running(renter);
    await fleet.run(HOUR_MS / 4);
    fleet.jump(5 * HOUR_MS);
    await fleet.until("ended", () => fleet.service.executions(renter.seat)[0]?.state === "stopped", 60_000);
    await fleet.run(10_000);
    fleet.jump(-5 * HOUR_MS);
    const shown = await fleet.instance(renter, id);
    expect([shown.status, shown.termination_reason]).toEqual(["terminated", "credit_depleted"]);
    const spent = 1.5 * PRICE * NANO - ((await audit(renter))?.balanceNanoUsd ?? 0);
    expect(spent).toBeLessThanOrEqual(priceOf(ranMs(renter)));
    expect(spent).toBeGreaterThanOrEqual(priceOf(HOUR_MS / 4 - 10_000));
    expect(await audit(renter)).toMatchObject({ ok: true, problems: [], openHolds: 0 });
  });
});

import { describe, expect, it } from "vitest";
import { setAccount } from "../../sandbox/compute/forced.ts";
import { IN_FULL } from "../support/worker/in-full.ts";
import { done } from "../support/worker/operator.ts";
import {
  audit,
  COST,
  changes,
  events,
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

/** Each hour is a stop a minute, ten of them. */
const HOURS_AWAY = IN_FULL ? 3 : 1;

describe("upstream is away", () => {
  it("for hours when the money runs out: stops are sent until one lands, the operator pays what ran on", async () => {
    const renter = await renting(1.5 * PRICE);
    const id = await running(renter);
    const startedMs = fleet.service.executions(renter.seat)[0]?.started_ms ?? 0;
    const paidUntilMs = startedMs + 1.5 * HOUR_MS;
    await fleet.run(paidUntilMs - 60_000 - fleet.nowMs);
    const before = changes(renter).length;
    fleet.service.fault(renter.seat, "reset", Number.POSITIVE_INFINITY, () => true);
    // Past the last notice also where each came a step late, and far from the next.
    await fleet.run(60_000 + HOURS_AWAY * HOUR_MS + 120_000);
    expect((await fleet.instance(renter, id)).status).toBe("terminating_low_balance");
    const sentMs = changes(renter)
      .slice(before)
      .map(({ atMs }) => atMs);
    expect((sentMs[0] ?? 0) - paidUntilMs).toBeLessThanOrEqual(2_000);
    const gaps = sentMs.slice(1).map((atMs, index) => atMs - (sentMs[index] ?? 0));
    // A minute, and the steps in which this clock moves.
    expect(Math.max(...gaps)).toBeLessThanOrEqual(75_000);
    // One every five minutes.
    expect(events("stop_overdue")).toHaveLength(2 * HOURS_AWAY);

    fleet.service.clearFaults();
    await untilEnded(renter, id);
    expect((await fleet.instance(renter, id)).termination_reason).toBe("credit_depleted");
    const lostMs = ranMs(renter) - 1.5 * HOUR_MS;
    expect(lostMs).toBeGreaterThanOrEqual(HOURS_AWAY * HOUR_MS);
    expect(await audit(renter)).toMatchObject({
      ok: true,
      balanceNanoUsd: 0,
      openHolds: 0,
      operatorLossNanoUsd: Math.ceil((COST * NANO * lostMs) / HOUR_MS),
    });
  });

  it("with its credential revoked: stops go on, launches are 503 and cost nothing, then it lands", async () => {
    const renter = await renting(100);
    const id = await running(renter);
    const key = { key: `key-${renter.seat}`, state: "revoked" as const };
    setAccount(fleet.service.world, { account: renter.seat, keys: [key] });
    expect((await fleet.call(renter, "POST", `/gpu-instances/${id}/terminate`)).status).toBe(202);
    const askedMs = fleet.nowMs;
    expect((await fleet.launch(renter, region())).status).toBe(503);
    await fleet.run(HOURS_AWAY * HOUR_MS);
    const calls = fleet.service.calls.filter(({ path }) => path.endsWith("/terminate"));
    expect(calls.length).toBeGreaterThan(10 * HOURS_AWAY);
    setAccount(fleet.service.world, { account: renter.seat, keys: [{ ...key, state: "live" }] });
    await untilEnded(renter, id);
    const startedMs = fleet.service.executions(renter.seat)[0]?.started_ms ?? 0;
    const books = await audit(renter);
    expect(100 * NANO - (books?.balanceNanoUsd ?? 0)).toBe(priceOf(askedMs - startedMs));
    expect(books).toMatchObject({ ok: true, openHolds: 0 });
    expect(books?.operatorLossNanoUsd).toBeGreaterThan(HOURS_AWAY * COST * NANO);
  });

  it("without money of the operator's: no launch, and what it stops is the operator's doing, not the tenant's", async () => {
    const renter = await renting(100);
    const id = await running(renter);
    fleet.service.balance(renter.seat, 0);
    await fleet.run(70_000);
    expect((await fleet.launch(renter, region())).status).toBe(503);
    expect(events("upstream_balance_low").length).toBeGreaterThan(0);
    await untilEnded(renter, id, 2 * HOUR_MS);
    expect((await fleet.instance(renter, id)).termination_reason).toBe("admin");
    const books = await audit(renter);
    expect(100 * NANO - (books?.balanceNanoUsd ?? 0)).toBe(priceOf(ranMs(renter)));
    expect(books).toMatchObject({ ok: true, openHolds: 0, operatorLossNanoUsd: 0 });
  });
});

describe("objects evicted between all steps", () => {
  it("launch, extend, PATCH, terminate: one machine, charged what ran", async () => {
    const renter = await renting(100);
    const evict = async () => {
      await fleet.evictAccount(renter);
      await fleet.evictBroker(renter.seat);
    };
    const { body } = await fleet.launch(renter, region(), { estimated_duration_hours: 1 });
    const path = `/gpu-instances/${body.id}`;
    const steps: readonly (() => Promise<{ status: number }>)[] = [
      () => fleet.call(renter, "POST", `${path}/extend`, { hours: 2 }),
      () => fleet.call(renter, "PATCH", path, { container_image: "img:2" }),
      () => fleet.call(renter, "POST", `${path}/extend`, { hours: 1 }),
      () => fleet.call(renter, "POST", `${path}/terminate`),
    ];
    for (const step of steps) {
      await evict();
      await fleet.run(3_000);
      await evict();
      await fleet.until("running", async () => (await fleet.instance(renter, body.id)).status === "running", 30_000);
      await evict();
      expect((await step()).status).toBeLessThan(300);
    }
    await evict();
    await untilEnded(renter, body.id);
    expect(await fleet.instance(renter, body.id)).toMatchObject({
      container_image: "img:2",
      estimated_duration_hours: 4,
    });
    expect(fleet.service.executions(renter.seat)).toHaveLength(1);
    const spent = 100 * NANO - ((await audit(renter))?.balanceNanoUsd ?? 0);
    expect(spent).toBe(priceOf(ranMs(renter)));
    expect(await audit(renter)).toMatchObject({ ok: true, openHolds: 0, operatorLossNanoUsd: 0 });
  });

  it("a cluster: launch, scale, extend, delete", async () => {
    const renter = await renting(100);
    const launch = {
      region_id: region(),
      gpu_count: 1,
      replicas: 2,
      container_image: "img:1",
      estimated_duration_hours: 1,
    };
    const { body } = await fleet.call(renter, "POST", "/gpu-clusters", launch);
    const path = `/gpu-clusters/${body.id}`;
    const shown = async () => (await fleet.call(renter, "GET", path)).body;
    const steps: readonly (() => Promise<{ status: number }>)[] = [
      () => fleet.call(renter, "POST", `${path}/scale`, { replicas: 4 }),
      () => fleet.call(renter, "POST", `${path}/extend`, { hours: 1 }),
      () => fleet.call(renter, "DELETE", path),
    ];
    for (const step of steps) {
      await fleet.evictBroker(renter.seat);
      await fleet.until("running", async () => (await shown()).status === "running", 30_000);
      await fleet.evictAccount(renter);
      expect((await step()).status).toBeLessThan(300);
    }
    await fleet.until("stopped", async () => (await shown()).status === "stopped", 300_000, 7_000);
    expect(await shown()).toMatchObject({ replicas: 4, estimated_duration_hours: 2 });
    const spent = 100 * NANO - ((await audit(renter))?.balanceNanoUsd ?? 0);
    expect(spent).toBe(2 * priceOf(ranMs(renter)));
  });

  it("a broker whose clock is an hour ahead is believed as of now: what its next lists show counts", async () => {
    const renter = await renting(100);
    const id = await running(renter);
    const [ran] = fleet.service.executions(renter.seat);
    const document = JSON.stringify({ id: ran?.id, name: ran?.name, status: "running" });
    const ahead = { kind: "instance", documents: [{ document, sameUntilMs: null }], absent: [] } as const;
    const askedAtMs = fleet.nowMs + HOUR_MS;
    await fleet.accountStub(renter).observed({ upstream: renter.seat, ...ahead, askedAtMs });
    fleet.service.force(ran?.id ?? 0, "failed");
    await fleet.until("failed", async () => (await fleet.instance(renter, id)).status === "failed", 130_000, 7_000);
    expect(await audit(renter)).toMatchObject({ ok: true, problems: [], openHolds: 0 });
  });

  it("an end that is seen before the turn of its hour is paid to that end", async () => {
    const renter = await renting(100);
    await running(renter);
    const [ran] = fleet.service.executions(renter.seat);
    const startedMs = ran?.started_ms ?? 0;
    await fleet.run(startedMs + HOUR_MS - 5_000 - fleet.nowMs);
    // The alarm is late.
    fleet.jump(20_000);
    const endedMs = fleet.nowMs - 2_000;
    const at = (ms: number) => new Date(ms).toISOString();
    const times = { started_at: at(startedMs), terminated_at: at(endedMs), termination_reason: "failed" };
    const document = JSON.stringify({ id: ran?.id, name: ran?.name, status: "failed", ...times });
    const shown = { kind: "instance", documents: [{ document, sameUntilMs: null }], absent: [] } as const;
    await fleet.accountStub(renter).observed({ upstream: renter.seat, ...shown, askedAtMs: fleet.nowMs });
    const books = await audit(renter);
    expect(books).toMatchObject({ ok: true, problems: [], openHolds: 0 });
    expect(100 * NANO - (books?.balanceNanoUsd ?? 0)).toBe(priceOf(endedMs - startedMs));
  });
});

describe("calls at once for one machine", () => {
  it("are each done once or 409; of those under one Idempotency-Key one is done, and each hour is paid once", async () => {
    const renter = await renting(200);
    const id = await running(renter, { estimated_duration_hours: 2 });
    const send = async (verb: string, body?: object, headers = {}) =>
      (await fleet.call(renter, "POST", `/gpu-instances/${id}/${verb}`, body, headers)).status;
    const ran = () => fleet.service.executions(renter.seat)[0];
    const same = { "idempotency-key": "k" };
    expect(new Set(await Promise.all(Array.from({ length: 8 }, () => send("extend", { hours: 1 }, same))))).toEqual(
      new Set([200]),
    );
    expect([await send("extend", { hours: 2 }, same), await send("extend", { hours: 1 }, same)]).toEqual([409, 200]);
    expect(ran()?.hours).toBe(3);
    const extended = await Promise.all(Array.from({ length: 5 }, () => send("extend", { hours: 1 })));
    const taken = extended.filter((status) => status === 200).length;
    expect(extended.filter((status) => status === 409)).toHaveLength(5 - taken);
    expect(ran()?.hours).toBe(3 + taken);
    const askedMs = fleet.nowMs;
    const ends = await Promise.all([send("terminate"), send("extend", { hours: 1 }), send("terminate")]);
    expect(ends.filter((status) => status === 202)).toHaveLength(1);
    await untilEnded(renter, id, 20_000);
    const books = await audit(renter);
    expect(books).toMatchObject({ ok: true, problems: [], openHolds: 0 });
    expect(200 * NANO - (books?.balanceNanoUsd ?? 0)).toBe(priceOf(askedMs - (ran()?.started_ms ?? 0)));
  });
});

it("what ended is listed for 7 days, unless it is hidden, and read by its id ever after", async () => {
  const renter = await renting(100);
  const ids = [await running(renter), await running(renter)];
  for (const id of ids) await fleet.call(renter, "POST", `/gpu-instances/${id}/terminate`);
  for (const id of ids) await untilEnded(renter, id);
  const listed = async () =>
    (await fleet.call(renter, "GET", "/gpu-instances")).body.map(({ id }: { id: number }) => id);
  expect(await listed()).toEqual([...ids].reverse());
  expect((await fleet.call(renter, "DELETE", `/gpu-instances/${ids[1]}`)).status).toBe(204);
  const endedMs = Date.parse((await fleet.instance(renter, ids[0] ?? 0)).terminated_at);
  fleet.jump(endedMs + 7 * 86_400_000 - 1_000 - fleet.nowMs);
  expect(await listed()).toEqual([ids[0]]);
  fleet.jump(1_000);
  expect(await listed()).toEqual([]);
  for (const id of ids) expect((await fleet.instance(renter, id)).status).toBe("terminated");
});

it("storage unpaid while it is mounted is suspended when its machine ends, and paid by the next credit at once", async () => {
  const prices = { storage_gb_days: { cost_usd: 0.01, price_usd: 0.02 } };
  await done("PUT", "/models/storage%2Ffilesystem", { kind: "storage", prices });
  // A day, an hour of a machine, and half a day.
  const renter = await renting(1 + PRICE + 0.5);
  const made = await fleet.call(renter, "POST", "/shared-filesystems", { name: "d", region_id: region(), size_gb: 50 });
  expect(made.status).toBe(202);
  const status = async () => (await fleet.call(renter, "GET", "/shared-filesystems")).body[0].status;
  await fleet.run(11.5 * HOUR_MS);
  const attached = { shared_filesystems: [{ id: made.body.id, mount_path: "/d" }], estimated_duration_hours: 1 };
  const id = await running(renter, attached);
  await fleet.run(HOUR_MS * 0.9);
  expect(await status()).toBe("in_use");
  await untilEnded(renter, id);
  expect(await status()).toBe("suspended");
  await done("POST", `/accounts/${renter.account}/credits`, { amount_usd: 1, reference: "more" });
  expect(await status()).toBe("available");
  expect(await audit(renter)).toMatchObject({ ok: true, problems: [], openHolds: 0, balanceNanoUsd: 0.5 * NANO });
});

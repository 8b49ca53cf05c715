/** An upstream that lies about rented machines, on a clock of the test's own: who pays, and what the books say. */
import { describe, expect, it } from "vitest";
import type { Renter } from "../support/worker/fleet.ts";
import { IN_FULL } from "../support/worker/in-full.ts";
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
  region,
  renting,
  running,
  untilEnded,
  withFleet,
} from "../support/worker/simulated-rentals.ts";

withFleet();

describe("an upstream that tells another", () => {
  const HOURS_MS = 3_600_000;
  const iso = (ms: number) => new Date(ms).toISOString();

  it.each([
    ["a clock two hours behind", -2 * HOURS_MS],
    ["a clock a year ahead", 366 * 24 * HOURS_MS],
  ])("time, with %s: a machine is charged between its launch and the request that ends it", async (_, byMs) => {
    const renter = await renting(100);
    fleet.service.lie = ({ started_at, terminated_at, ...machine }) => [
      {
        ...machine,
        started_at: started_at && iso(Date.parse(started_at) + byMs),
        terminated_at: terminated_at && iso(Date.parse(terminated_at) + byMs),
      },
    ];
    const launchedMs = fleet.nowMs;
    const id = await running(renter);
    const seenMs = fleet.nowMs;
    await fleet.run(HOUR_MS * 1.7 + 7_000);
    const askedMs = fleet.nowMs;
    await fleet.call(renter, "POST", `/gpu-instances/${id}/terminate`);
    await untilEnded(renter, id);
    const books = await audit(renter);
    const spent = 100 * NANO - (books?.balanceNanoUsd ?? 0);
    expect(spent).toBeLessThanOrEqual(priceOf(askedMs - launchedMs));
    // At rest it was last seen to run a minute ago at most.
    expect(spent).toBeGreaterThanOrEqual(priceOf(askedMs - 61_000 - seenMs));
    expect(books).toMatchObject({ ok: true, problems: [], openHolds: 0 });
  });

  it("cost, GPU type, name or id twice changes no price; the cost that it showed first is the operator's", async () => {
    const renter = await renting(100);
    const id = await running(renter);
    await fleet.run(HOUR_MS / 2);
    fleet.service.lie = (machine) => [
      { ...machine, hourly_rate_usd: 0.01, gpu_type: "B300", gpu_count: 8, estimated_duration_hours: 1 },
      { ...machine, status: "terminated", terminated_at: machine.started_at },
      { ...machine, id: machine.id + 500_000, status: "failed" },
      { ...machine, id: machine.id + 600_000, name: "somebody's", status: "running" },
      { status: "running" },
    ];
    await fleet.run(1.2 * HOUR_MS);
    const before = changes(renter).length;
    expect(await fleet.instance(renter, id)).toMatchObject({
      status: "running",
      gpu_type: `GPU ${region()}`,
      gpu_count: 1,
      hourly_rate_usd: PRICE,
      estimated_duration_hours: null,
    });
    expect(changes(renter)).toHaveLength(before);
    expect(events("compute_cost_differs")).toHaveLength(0);
    fleet.service.lie = (machine) => [machine];
    const askedMs = fleet.nowMs;
    await fleet.call(renter, "POST", `/gpu-instances/${id}/terminate`);
    await untilEnded(renter, id);
    const startedMs = fleet.service.executions(renter.seat)[0]?.started_ms ?? 0;
    const books = await audit(renter);
    expect(100 * NANO - (books?.balanceNanoUsd ?? 0)).toBe(priceOf(askedMs - startedMs));
    expect(books).toMatchObject({ ok: true, problems: [], operatorLossNanoUsd: 0 });
  });
});

/** Ends it honestly, and looks at the books: charged from its start to the request, whatever was said meanwhile. */
async function expectHonestEnd(renter: Renter, id: number, balanceUsd: number) {
  fleet.service.lie = (machine) => [machine];
  fleet.service.forge = () => undefined;
  const askedMs = fleet.nowMs;
  expect((await fleet.call(renter, "POST", `/gpu-instances/${id}/terminate`)).status).toBe(202);
  await untilEnded(renter, id);
  const ran = fleet.service.executions(renter.seat).filter(({ state }) => state === "stopped");
  expect(ran).toHaveLength(1);
  const books = await audit(renter);
  expect(balanceUsd * NANO - (books?.balanceNanoUsd ?? 0)).toBe(priceOf(askedMs - (ran[0]?.started_ms ?? 0)));
  expect(books).toMatchObject({ ok: true, problems: [], openHolds: 0 });
}

const json = (body: unknown, status = 200) => Response.json(body, { status });
const isList = ({ method, path }: { method: string; path: string }) => method === "GET" && path === "/gpu-instances";

it("that says it has ended though it runs: charged to that end, found again and stopped, at the operator's cost", async () => {
  const renter = await renting(100);
  const id = await running(renter);
  await fleet.run(HOUR_MS / 2);
  const [ran] = fleet.service.executions(renter.seat);
  fleet.service.lie = (machine) => [{ ...machine, status: "terminated", terminated_at: null }];
  await fleet.until("ended", async () => (await fleet.instance(renter, id)).status === "terminated", 130_000, 7_000);
  await fleet.run(HOUR_MS);
  fleet.service.lie = (machine) => [machine];
  // Nothing else of the account is there: lists are read all the same.
  await fleet.until("stopped", () => fleet.service.executions(renter.seat)[0]?.state === "stopped", 130_000, 7_000);
  await fleet.run(HOUR_MS);
  const books = await audit(renter);
  const spent = 100 * NANO - (books?.balanceNanoUsd ?? 0);
  expect(spent).toBeLessThanOrEqual(priceOf((ran?.ms ?? 0) + 61_000));
  expect(spent).toBeGreaterThanOrEqual(priceOf(HOUR_MS / 2 - 61_000));
  expect(events("ended_runs")).toHaveLength(1);
  expect(books).toMatchObject({ ok: true, problems: [], openHolds: 0 });
  expect(books?.operatorLossNanoUsd).toBeGreaterThanOrEqual((COST * NANO * (HOUR_MS - 61_000)) / HOUR_MS);
});

it("that gives two tenants' machines each other's tags ends and charges neither for the other", async () => {
  const one = await renting(100);
  await fleet.seat(`lies-${one.account}`, true);
  const two = [
    await fleet.renter(`lies-${one.account}-1`, `lies-${one.account}`, 100),
    await fleet.renter(`lies-${one.account}-2`, `lies-${one.account}`, 100),
  ];
  const ids: number[] = [];
  for (const renter of two) ids.push(await running(renter));
  const names = fleet.service.executions(two[0]?.seat).map(({ name }) => name);
  const other = (name: string) => names.find((one) => one !== name);
  fleet.service.lie = (machine) => [{ ...machine, name: other(machine.name), status: "terminated" }];
  await fleet.run(HOUR_MS * 1.5);
  fleet.service.lie = (machine) => [machine];
  for (const [index, renter] of two.entries()) {
    expect((await fleet.instance(renter, ids[index] ?? 0)).status).toBe("running");
  }
  const launches = fleet.service.calls.filter(({ method }) => method !== "GET").map(({ path }) => path);
  expect(launches.filter((path) => path.endsWith("/terminate"))).toEqual([]);
  const [first, second] = two as [Renter, Renter];
  await fleet.call(first, "POST", `/gpu-instances/${ids[0]}/terminate`);
  await untilEnded(first, ids[0] ?? 0);
  expect((await fleet.instance(second, ids[1] ?? 0)).status).toBe("running");
  expect(
    fleet.service
      .executions(first.seat)
      .map(({ state }) => state)
      .sort(),
  ).toEqual(["running", "stopped"]);
});

const NONSENSE: readonly [string, () => Response][] = [
  ["things of no sense", () => json([null, 7, "x", [], { id: -1, name: "" }, { id: 1e300, name: "tg" }])],
  ["a text", () => new Response("<html>hello</html>")],
  ["null", () => json(null)],
  ["an object", () => json({ data: [] })],
  ["nothing", () => new Response(null, { status: 204 })],
];
it.each(IN_FULL ? NONSENSE : NONSENSE.slice(0, 2))(
  "whose lists are %s: what runs goes on, and is charged what it ran",
  async (_, forged) => {
    const renter = await renting(100);
    const id = await running(renter);
    fleet.service.forge = (call) => (isList(call) ? forged() : undefined);
    await fleet.run(HOUR_MS * 1.2);
    expect((await fleet.instance(renter, id)).status).toBe("running");
    await expectHonestEnd(renter, id, 100);
  },
);

it("whose lists never end holds up neither turns nor stops", async () => {
  const renter = await renting(PRICE * 1.5);
  await running(renter);
  fleet.service.forge = (call, _, signal) => {
    if (!isList(call)) return undefined;
    const endless = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("["));
        signal?.addEventListener("abort", () => controller.error(signal.reason));
      },
    });
    return new Response(endless);
  };
  await fleet.run(HOUR_MS * 1.45);
  await fleet.until(
    "a stop is sent",
    () => changes(renter).some(({ path }) => path.endsWith("/terminate")),
    HOUR_MS * 2,
  );
  const [ran] = fleet.service.executions(renter.seat);
  expect(fleet.nowMs - (ran?.started_ms ?? 0)).toBeLessThanOrEqual(HOUR_MS * 1.5 + 5_000);
  fleet.service.forge = () => undefined;
  await untilEnded(renter, 1000);
  expect(await audit(renter)).toMatchObject({ ok: true, problems: [], openHolds: 0, balanceNanoUsd: 0 });
});

it("whose answer to a launch is 20 MB, or another's machine, has made one all the same: it is found by its tag", async () => {
  const long = { junk: "x".repeat(20_000_000), hourly_rate_usd: 900 };
  for (const forged of [long, { id: 1, name: "somebody's", status: "running" }]) {
    const renter = await renting(100);
    fleet.service.forge = ({ method, path }, text) =>
      method === "POST" && path === "/gpu-instances" ? json({ ...JSON.parse(text ?? ""), ...forged }, 202) : undefined;
    const id = await running(renter);
    expect(fleet.service.executions(renter.seat)).toHaveLength(1);
    // Nothing of such an answer is read.
    expect(events("compute_cost_differs")).toEqual([]);
    await fleet.run(HOUR_MS / 3);
    await expectHonestEnd(renter, id, 100);
  }
});

it("that shows a hundred thousand pods of a cluster is answered 503, and nothing of it is kept", async () => {
  const renter = await renting(1_000);
  const body = {
    region_id: region(),
    gpu_count: 1,
    replicas: 2,
    container_image: "img:1",
    estimated_duration_hours: 5,
  };
  const { id } = (await fleet.call(renter, "POST", "/gpu-clusters", body)).body;
  const shown = () => fleet.call(renter, "GET", `/gpu-clusters/${id}`);
  await fleet.until("running", async () => (await shown()).body.status === "running", 60_000, 3_000);
  const pods = () => fleet.call(renter, "GET", `/gpu-clusters/${id}/replicas`);
  const many = Array.from({ length: 100_000 }, (_, n) => ({ name: `p${n}`, status: "Running", node: "n" }));
  fleet.service.forge = ({ path }) => (path.endsWith("/replicas") ? json(many) : undefined);
  expect((await pods()).status).toBe(503);
  fleet.service.forge = () => undefined;
  await fleet.run(6_000);
  expect(await pods()).toMatchObject({ status: 200, body: [{ status: "Running" }, { status: "Running" }] });
});

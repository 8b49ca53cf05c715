/** Answers of upstream that come after our deadline, or never, on a clock of the test's own, for each verb. */
import { describe, expect, it } from "vitest";
import type { Renter } from "../support/worker/fleet.ts";
import { IN_FULL } from "../support/worker/in-full.ts";
import {
  audit,
  COST,
  events,
  fleet,
  HOUR_MS,
  NANO,
  priceOf,
  region,
  renting,
  withFleet,
} from "../support/worker/simulated-rentals.ts";

withFleet();

/** What is rented first, the call whose answer is late, and what becomes of it. */
interface Late {
  readonly kind: "instance" | "cluster";
  readonly method: string;
  /** After the machine's own path. */
  readonly path: string;
  readonly body?: object;
  /** Which of upstream's calls is late, by its path. */
  readonly upstream: RegExp;
  readonly becomes: object;
}
const LATE: Readonly<Record<string, Late>> = {
  extend: {
    kind: "instance",
    method: "POST",
    path: "/extend",
    body: { hours: 4 },
    upstream: /extend$/,
    becomes: { hours: 9 },
  },
  PATCH: {
    kind: "instance",
    method: "PATCH",
    path: "",
    body: { container_image: "img:2" },
    upstream: /instances.\d+$/,
    becomes: { image: "img:2" },
  },
  "terminate of an instance": {
    kind: "instance",
    method: "POST",
    path: "/terminate",
    upstream: /terminate$/,
    becomes: { state: "stopped" },
  },
  scale: {
    kind: "cluster",
    method: "POST",
    path: "/scale",
    body: { replicas: 5 },
    upstream: /scale$/,
    becomes: { replicas: 5 },
  },
  "extend of a cluster": {
    kind: "cluster",
    method: "POST",
    path: "/extend",
    body: { hours: 4 },
    upstream: /extend$/,
    becomes: { hours: 9 },
  },
  "end of a cluster": {
    kind: "cluster",
    method: "DELETE",
    path: "",
    upstream: /clusters.\d+$/,
    becomes: { state: "stopped" },
  },
};
const pathOf = (kind: "instance" | "cluster") => (kind === "instance" ? "/gpu-instances" : "/gpu-clusters");
const launchOf = (renter: Renter, kind: "instance" | "cluster") =>
  kind === "instance"
    ? fleet.launch(renter, region(), { estimated_duration_hours: 5 })
    : fleet.call(renter, "POST", "/gpu-clusters", {
        region_id: region(),
        gpu_count: 1,
        replicas: 2,
        container_image: "img:1",
        estimated_duration_hours: 5,
      });
const shown = async (renter: Renter, kind: "instance" | "cluster") => {
  const { body } = await fleet.call(renter, "GET", `${pathOf(kind)}/1000`);
  return body.instance ?? body;
};
const untilRuns = (renter: Renter, kind: "instance" | "cluster") =>
  fleet.until("runs", async () => (await shown(renter, kind)).status === "running", 300_000, 4_000);

/** Ends it, unless it has, and looks at the books: it is charged from its start to the request that ended it. */
async function expectPaid(renter: Renter, kind: "instance" | "cluster", endAskedMs: number | null) {
  let askedMs = endAskedMs;
  if (askedMs === null) {
    askedMs = fleet.nowMs;
    const [method, verb] = kind === "instance" ? ["POST", "/terminate"] : ["DELETE", ""];
    expect((await fleet.call(renter, method ?? "", `${pathOf(kind)}/1000${verb}`)).status).toBe(202);
  }
  const over = kind === "instance" ? "terminated" : "stopped";
  await fleet.until(over, async () => (await shown(renter, kind)).status === over, 300_000, 4_000);
  const [ran, ...others] = fleet.service.executions(renter.seat);
  expect(others).toEqual([]);
  const gpus = kind === "instance" ? 1 : 2;
  const lostMs = Math.max(0, (ran?.ended_ms ?? 0) - askedMs);
  const books = await audit(renter);
  expect(200 * NANO - (books?.balanceNanoUsd ?? 0)).toBe(gpus * priceOf(askedMs - (ran?.started_ms ?? 0)));
  expect(books).toMatchObject({ ok: true, problems: [], openHolds: 0 });
  expect(books?.operatorLossNanoUsd).toBe(Math.ceil((COST * NANO * gpus * lostMs) / HOUR_MS));
}

/** Each verb with each fault in full; in short each verb with one. */
const SHORT = {
  parked: ["PATCH", "terminate of an instance", "scale"],
  slow: ["extend", "end of a cluster"],
  lost_answer: ["extend of a cluster"],
};

describe.each([
  ["at once", "parked"],
  ["only then", "slow"],
  ["and lost at once", "lost_answer"],
] as const)("an answer that comes after our deadline, to what upstream did %s", (_, fault) => {
  it.each(Object.entries(LATE).filter(([what]) => IN_FULL || SHORT[fault].includes(what)))(
    "%s: it is done once, and the books are right",
    async (_, late) => {
      const { kind, method, path, body, upstream, becomes } = late;
      const renter = await renting(200);
      expect((await launchOf(renter, kind)).status).toBe(202);
      await untilRuns(renter, kind);
      fleet.service.fault(renter.seat, fault, 1, (of, to) => of === method && upstream.test(to));
      const fromMs = fleet.nowMs;
      expect((await fleet.call(renter, method, `${pathOf(kind)}/1000${path}`, body)).status).toBeLessThan(300);
      expect(fleet.nowMs - fromMs).toBeLessThanOrEqual(26_000);
      // While one is under way no other is sent for it.
      const early = fleet.service.calls.filter(({ atMs, path: to }) => upstream.test(to) && atMs >= fromMs);
      const sent = early.filter(({ atMs, method: of }) => of === method && atMs < fromMs + 20_000);
      if (fault === "parked") expect(sent).toHaveLength(1);
      await fleet.run(15_000);
      fleet.service.letGo();
      await fleet.run(150_000);
      expect(fleet.service.executions(renter.seat)).toMatchObject([becomes]);
      const isEnd = "state" in becomes;
      if (!isEnd) await untilRuns(renter, kind);
      if ("hours" in becomes) expect((await shown(renter, kind)).estimated_duration_hours).toBe(9);
      await expectPaid(renter, kind, isEnd ? fromMs : null);
    },
  );

  it.each(IN_FULL ? (["instance", "cluster"] as const) : (["instance"] as const))(
    "launch of one %s: it is found by its tag",
    async (kind) => {
      const renter = await renting(200);
      fleet.service.fault(renter.seat, fault, 1, (method, path) => method === "POST" && path === pathOf(kind));
      const fromMs = fleet.nowMs;
      // Seen in a list by its tag before the answer is given up, it runs already.
      const status = expect.stringMatching(/^(pending|running)$/);
      expect(await launchOf(renter, kind)).toMatchObject({ status: 202, body: { status } });
      expect(fleet.nowMs - fromMs).toBeLessThanOrEqual(26_000);
      fleet.service.letGo();
      await untilRuns(renter, kind);
      await expectPaid(renter, kind, null);
    },
  );

  it.runIf(IN_FULL || fault === "parked")(
    "lists, reads and the market: what runs is charged, a launch waits 15 s for the regions and is 503",
    async () => {
      const renter = await renting(200);
      expect((await launchOf(renter, "instance")).status).toBe(202);
      await untilRuns(renter, "instance");
      fleet.service.fault(renter.seat, fault, Number.POSITIVE_INFINITY, (method) => method === "GET");
      await fleet.run(2 * HOUR_MS);
      fleet.service.letGo();
      const fromMs = fleet.nowMs;
      expect((await fleet.launch(renter, region())).status).toBe(503);
      expect(fleet.nowMs - fromMs).toBeLessThanOrEqual(16_000);
      expect((await shown(renter, "instance")).status).toBe("running");
      expect(await audit(renter)).toMatchObject({ ok: true, openHolds: 1 });
      fleet.service.clearFaults();
      await expectPaid(renter, "instance", null);
    },
  );
});

/** An answer whose body comes at a time of the test's clock. */
const answerAt = (atMs: number, text: string | null) =>
  new Response(
    new ReadableStream({
      async pull(body) {
        while (Date.now() < atMs) await new Promise((resolve) => setTimeout(resolve, 2));
        body.enqueue(new TextEncoder().encode(text ?? ""));
        body.close();
      },
    }),
  );

it("a launch that waited for the regions waits less for its answer: it comes before the gateway gives up", async () => {
  const renter = await renting(200);
  const regionsMs = fleet.nowMs + 13_000;
  fleet.service.forge = ({ path }, text) => (path.endsWith("/availability") ? answerAt(regionsMs, text) : undefined);
  fleet.service.fault(renter.seat, "parked", 1, (method) => method === "POST");
  const fromMs = fleet.nowMs;
  expect((await launchOf(renter, "instance")).status).toBe(202);
  expect(fleet.nowMs - fromMs).toBeGreaterThanOrEqual(23_000);
  expect(fleet.nowMs - fromMs).toBeLessThanOrEqual(27_000);
  fleet.service.forge = () => undefined;
  fleet.service.letGo();
  await untilRuns(renter, "instance");
  await expectPaid(renter, "instance", null);
});

it("a launch that upstream carries out after it was given up is stopped, at the operator's cost", async () => {
  const renter = await renting(200);
  fleet.service.fault(renter.seat, "slow", 1, (method) => method === "POST");
  expect((await launchOf(renter, "instance")).status).toBe(202);
  await fleet.until("failed", async () => (await shown(renter, "instance")).status === "failed", 300_000, 7_000);
  fleet.service.letGo();
  // Nobody waits for it any more: something else has the list read.
  await fleet.launch(renter, region());
  const ran = () => fleet.service.executions(renter.seat)[0];
  await fleet.until("stopped", () => ran()?.state === "stopped", 300_000, 7_000);
  await fleet.run(70_000);
  expect(events("late_orphan")).toHaveLength(1);
  const books = await audit(renter);
  const [, other] = fleet.service.executions(renter.seat);
  expect(other?.state).toBe("running");
  expect(books).toMatchObject({ ok: true, balanceNanoUsd: 200 * NANO, openHolds: 1 });
  expect(books?.operatorLossNanoUsd).toBe(Math.ceil((COST * NANO * (ran()?.ms ?? 0)) / HOUR_MS));
});

it("a launch that is first seen when it is over pays each hour that it ran", async () => {
  const renter = await renting(200);
  fleet.service.fault(renter.seat, "lost_answer", 1, (method) => method === "POST");
  const { status, body } = await fleet.launch(renter, region());
  expect(status).toBe(202);
  fleet.service.fault(renter.seat, "reset", Number.POSITIVE_INFINITY, (method) => method === "GET");
  await fleet.run(1.5 * HOUR_MS);
  fleet.service.force(fleet.service.executions(renter.seat)[0]?.id ?? 0, "failed");
  fleet.service.clearFaults();
  const seen = async () => (await fleet.instance(renter, body.id)).status === "failed";
  await fleet.until("failed", seen, 300_000, 7_000);
  const [ran] = fleet.service.executions(renter.seat);
  expect(ran?.ms).toBeGreaterThan(HOUR_MS * 1.4);
  const books = await audit(renter);
  expect(books).toMatchObject({ ok: true, problems: [], openHolds: 0, operatorLossNanoUsd: 0 });
  expect(200 * NANO - (books?.balanceNanoUsd ?? 0)).toBe(priceOf(ran?.ms ?? 0));
});

it.each(["extend", "scale"])("%s that upstream did not take is sent anew under its Idempotency-Key", async (verb) => {
  const renter = await renting(200);
  await launchOf(renter, "cluster");
  await untilRuns(renter, "cluster");
  fleet.service.fault(renter.seat, "refused", 1, (method) => method === "POST");
  const body = verb === "extend" ? { hours: 4 } : { replicas: 4 };
  const again = () => fleet.call(renter, "POST", `/gpu-clusters/1000/${verb}`, body, { "idempotency-key": "once" });
  expect((await again()).status).toBe(503);
  const [hours, replicas] = verb === "extend" ? [9, 2] : [5, 4];
  for (let time = 0; time < 3; time++) {
    expect((await again()).status).toBe(200);
    expect(fleet.service.executions(renter.seat)).toMatchObject([{ hours, replicas }]);
  }
  expect(await shown(renter, "cluster")).toMatchObject({ estimated_duration_hours: hours, replicas });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ClusterLaunch, InstanceLaunch, InstancePatch } from "../../../src/core/compute/bodies.ts";
import {
  endMachine,
  extendMachine,
  hideInstance,
  patchInstance,
  scaleCluster,
  stopMachine,
} from "../../../src/core/compute/changes.ts";
import { controlOf } from "../../../src/core/compute/control-calls.ts";
import { clusterDocument, instanceDocument } from "../../../src/core/compute/documents.ts";
import type { Decision, Facts } from "../../../src/core/compute/facts.ts";
import { launchCluster, launchInstance } from "../../../src/core/compute/launches.ts";
import { observed } from "../../../src/core/compute/observe.ts";
import { gpusOf, isMachine, type MachineRow } from "../../../src/core/compute/resource.ts";
import { wrappedInstance } from "../../../src/core/compute/row-documents.ts";
import { parseTag } from "../../../src/core/compute/tag.ts";
import { next } from "../../../src/core/compute/wants.ts";
import { toHttp } from "../../../src/core/http-refusal.ts";
import type { AccountNumber, KeyId, TeamId } from "../../../src/core/ids.ts";
import { LENGTHS, launchedRow, SENT, shows } from "../../support/compute/rows.ts";

const usd = (amount: number) => amount * 1_000_000_000;
const BY = { keyId: "key_1" as KeyId, teamId: "team_1" as TeamId, user: 3 };
const ROOTS = { ours: "https://us.example", upstream: "https://up.example" };

function factsOf(over: Partial<Facts> = {}): Facts {
  return {
    ...LENGTHS,
    nowMs: SENT + 60_000,
    account: 7 as AccountNumber,
    shared: false,
    registered: [],
    deployment: "abcdef",
    by: BY,
    nextId: 1001,
    random: "abc234",
    sshFingerprint: null,
    rows: [],
    maxGpus: { key: null, team: null, account: null },
    money: { balanceNanoUsd: usd(100), heldNanoUsd: 0, floorNanoUsd: 0 },
    budgets: [],
    regions: [{ id: "eu-1", gpuType: "H100 SXM", gpusPerNode: 4 }],
    storageRegions: [],
    storagePrices: new Map(),
    gpuPrices: new Map([["H100 SXM", { price: { gpu_hours: usd(2) }, cost: { gpu_hours: usd(1) } }]]),
    ...over,
  };
}
const INSTANCE = { region_id: "eu-1", gpu_type: "H100 SXM", gpu_count: 2, container_image: "platform/ssh:1" };
const CLUSTER = { region_id: "eu-1", gpu_count: 2, replicas: 3, container_image: "img:1", estimated_duration_hours: 4 };
const instance = (body: object = {}, over: Partial<Facts> = {}) =>
  launchInstance(factsOf(over), InstanceLaunch.parse({ ...INSTANCE, ...body }));
const cluster = (body: object = {}, over: Partial<Facts> = {}) =>
  launchCluster(factsOf(over), ClusterLaunch.parse({ ...CLUSTER, ...body }));

function made(decision: Decision): MachineRow {
  if (!decision.ok) throw new Error(JSON.stringify(decision.refusal));
  if (!isMachine(decision.row)) throw new Error("no machine");
  return decision.row;
}
/** Status and text of a refusal. */
function no(decision: Decision): string {
  if (decision.ok) return "ok";
  const { status, message } = toHttp(decision.refusal);
  expect(message).toMatch(/\.$/);
  return `${status} ${message}`;
}
const running = (row: MachineRow): MachineRow =>
  observed(
    row,
    { kind: "found", document: { ...shows("running"), tag: row.tag, hours: row.rental.hours }, sameUntilMs: null },
    row.createdAtMs + 2_000,
    row.createdAtMs + 2_000,
    LENGTHS,
  ).row;

describe("a launch", () => {
  it("makes row, tag and hold, and a create without the tenant's name", () => {
    const decision = instance({ name: "secret project", startup_command: "sleep 9" });
    const row = made(decision);
    expect(parseTag(row.tag)).toEqual({ deployment: "abcdef", account: 7, id: 1001, random: "abc234" });
    expect(decision).toMatchObject({
      acts: [{ act: "hold", n: 1, amountNanoUsd: usd(4) }],
      call: { verb: "create" },
    });
    const request = controlOf(row, { verb: "create" });
    expect(request).toMatchObject({ cls: "create", method: "POST", path: "/gpu-instances", needsNanoUsd: usd(2) });
    expect(JSON.parse(request.body ?? "")).toEqual({ ...INSTANCE, name: row.tag, startup_command: "sleep 9" });
    expect(instanceDocument(row, ROOTS)).toMatchObject({
      id: 1001,
      name: "secret project",
      status: "pending",
      hourly_rate_usd: 4,
      estimated_duration_hours: null,
      created_by_user_id: 3,
    });
  });

  it("of a fixed run or a cluster holds all of it", () => {
    expect(instance({ estimated_duration_hours: 5 })).toMatchObject({ acts: [{ amountNanoUsd: usd(20) }] });
    const decision = cluster();
    expect(decision).toMatchObject({ acts: [{ amountNanoUsd: usd(48) }] });
    expect(controlOf(made(decision), { verb: "create" })).toMatchObject({
      path: "/gpu-clusters",
      needsNanoUsd: usd(24),
    });
    expect(clusterDocument(made(decision), ROOTS)).toMatchObject({
      replicas: 3,
      hourly_rate_usd: 12,
      status: "pending",
    });
  });

  it.each<[object, string]>([
    [{ region_id: "mars" }, "400 `region_id` is not a region"],
    [{ gpu_type: "A100" }, "400 `gpu_type` is not offered in this region"],
    [{ gpu_count: 5 }, "400 `gpu_count` must be at most 4"],
    [{ interruptible: true }, "400 `interruptible` is not sold"],
    [{ ssh_enabled: true }, "400 `ssh_public_key` is required"],
  ])("that means nothing is 400: %j", (body, text) => {
    expect(no(instance(body))).toContain(text);
  });

  it("of a type without a price is 400, without room 402 with what it needs, beyond a budget 429", () => {
    expect(no(instance({}, { gpuPrices: new Map() }))).toContain("400 `gpu_type` has no price yet");
    const money = { balanceNanoUsd: usd(9), heldNanoUsd: usd(6), floorNanoUsd: 0 };
    expect(no(instance({}, { money }))).toContain(
      "402 The balance is insufficient: this needs a hold of 4 USD and 3 USD",
    );
    expect(no(instance({}, { money: { ...money, heldNanoUsd: usd(5) } }))).toBe("ok");
    const use = { level: "team", budgetNanoUsd: usd(5), duration: "total", endsAtMs: null, heldNanoUsd: 0 } as const;
    expect(no(instance({}, { budgets: [{ ...use, spentNanoUsd: usd(2) }] }))).toContain("429 The team's budget");
  });

  it("beyond max_gpus of key, team or account is 429, before money; what ended or was refused does not count", () => {
    const mine = launchedRow(null, { by: BY });
    const theirs = launchedRow(null, { id: 5, by: { ...BY, keyId: "key_2" as KeyId } });
    const rows = [mine, theirs, { ...mine, create: "refused" } as MachineRow];
    const limits = { key: null, team: null, account: null };
    const broke = { balanceNanoUsd: 0, heldNanoUsd: 0, floorNanoUsd: 0 };
    const max = (over: object) =>
      no(instance({}, { rows, maxGpus: { ...limits, ...over }, money: broke })).slice(0, 40);
    expect(max({ key: 3 })).toContain("402");
    expect(max({ key: 2 })).toContain("429 The key may have 2 GPUs");
    expect(max({ team: 3 })).toContain("429 The team may have 3 GPUs");
    expect(max({ account: 3 })).toContain("429 The account may have 3 GPUs");
    expect(max({ account: 4 })).toContain("402");
  });
});

describe("changes", () => {
  const row = running(made(instance({ estimated_duration_hours: 5 })));
  const facts = factsOf({ rows: [row], nowMs: row.createdAtMs + 60_000 });
  const withRow = (over: Partial<MachineRow>) => ({ ...facts, rows: [{ ...row, ...over }] });

  it("another kind's, an unknown and a refused row's id are one 404", () => {
    const texts = [
      no(endMachine(facts, "instance", 4)),
      no(endMachine(withRow({ kind: "cluster" }), "instance", row.id)),
      no(endMachine(withRow({ create: "refused" }), "instance", row.id)),
    ];
    expect(new Set(texts).size).toBe(1);
    expect(texts[0]).toContain("404 No GPU instance with this id");
  });

  it("an end stops the charge and is sent; twice, pending, preempted and rebuilding are 409", () => {
    const decision = endMachine(facts, "instance", row.id);
    expect(decision).toMatchObject({ call: { verb: "stop" }, row: { rental: { phase: { at: "ending" } } } });
    expect(controlOf(made(decision), { verb: "stop" })).toMatchObject({
      cls: "stop",
      path: "/gpu-instances/501/terminate",
      body: null,
    });
    const state = (name: MachineRow["seen"]["state"]) => withRow({ seen: { ...row.seen, state: name } });
    const again = { ...facts, rows: [made(decision)] };
    expect(no(endMachine(again, "instance", row.id))).toContain("409 This GPU instance is being terminated");
    expect(no(endMachine(state("pending"), "instance", row.id))).toContain("still pending");
    expect(no(endMachine(state("preempted"), "instance", row.id))).toContain("preempted");
    expect(no(endMachine(state("ended"), "instance", row.id))).toContain("not running");
    const rebuilding = withRow({ wants: { ...row.wants, rebuild: { answeredMs: 5 } } });
    expect(no(endMachine(rebuilding, "instance", row.id))).toContain("being rebuilt");
    const stop = stopMachine({ ...row, seen: { ...row.seen, state: "pending" } }, facts.nowMs);
    expect([stop.call, stop.row.wants.end?.reason]).toEqual([{ verb: "stop" }, "admin"]);
  });

  it("an extension holds its hours; without an end time it is 400, without room 402, while one is under way 409", () => {
    const decision = extendMachine(facts, "instance", row.id, 3);
    expect(decision).toMatchObject({ acts: [{ act: "resize", amountNanoUsd: usd(32) }], call: { hours: 3 } });
    expect(controlOf(row, { verb: "extend", hours: 3 })).toMatchObject({ body: '{"hours":3}', needsNanoUsd: usd(4.5) });
    expect(no(extendMachine({ ...facts, rows: [made(decision)] }, "instance", row.id, 1))).toContain("409");
    const poor = { ...facts, money: { balanceNanoUsd: usd(30), heldNanoUsd: usd(20), floorNanoUsd: 0 } };
    expect(no(extendMachine(poor, "instance", row.id, 3))).toContain("402");
    const hourly = running(made(instance()));
    expect(no(extendMachine({ ...facts, rows: [hourly] }, "instance", hourly.id, 3))).toContain(
      "400 `hours` cannot be added",
    );
  });

  it("an extension sends upstream only what its run is too short for", () => {
    const bought = row.rental.hours ?? 0;
    const shows = (more: number) => ({ ...facts, rows: [{ ...row, seen: { ...row.seen, hours: bought + more } }] });
    const decided = (more: number) => extendMachine(shows(more), "instance", row.id, 3);
    expect(decided(0)).toMatchObject({ call: { verb: "extend", hours: 3 } });
    expect(decided(2)).toMatchObject({ call: { verb: "extend", hours: 1 }, acts: [{ act: "resize" }] });
    const none = decided(3);
    expect(none).toMatchObject({ call: null, acts: [{ act: "resize", amountNanoUsd: usd(32) }] });
    expect(made(none)).toMatchObject({ sending: null, rental: { hours: bought + 3 } });
    expect(next(made(none), facts.nowMs)).toEqual({ do: "none" });
  });

  it("a PATCH keeps what it does not name, and is sent whole", () => {
    const decision = patchInstance(facts, row.id, InstancePatch.parse({ service_port: 80 }));
    expect(made(decision).wants.setup).toMatchObject({ containerImage: "platform/ssh:1", servicePort: 80 });
    expect(instanceDocument(made(decision), ROOTS)).toMatchObject({
      status: "pending",
      endpoint_url: `https://us.example/gpu-instances/${row.id}/service/`,
    });
    expect(InstancePatch.safeParse({}).success).toBe(false);
  });

  it("a scale counts its GPUs, keeps rate and hold, and to the same number sends nothing", () => {
    const up = running(made(cluster()));
    const its = { ...facts, rows: [up], maxGpus: { key: null, team: null, account: 8 } };
    expect(no(scaleCluster(its, up.id, 5))).toContain("429");
    const decision = scaleCluster(its, up.id, 4);
    expect([gpusOf(made(decision)), made(decision).rental]).toEqual([8, up.rental]);
    expect(scaleCluster(its, up.id, 3)).toMatchObject({ ok: true, call: null });
  });

  it("only what ended is hidden; it is read by its id all the same", () => {
    expect(no(hideInstance(facts, row.id))).toContain("409 This GPU instance has not ended");
    const ended: MachineRow = { ...row, seen: { ...row.seen, state: "ended", reason: "user", endedAtMs: facts.nowMs } };
    const hidden = made(hideInstance({ ...facts, rows: [ended] }, row.id));
    expect(hidden.hiddenAtMs).toBe(facts.nowMs);
    expect(wrappedInstance(hidden, [], ROOTS, []).instance.status).toBe("terminated");
  });
});

it("no document has an id, name, cost or URL of upstream", () => {
  const url = fc.constantFrom(
    "https://up.example/gpu-instances/501/service/lab",
    "https://up.example/gpu-instances/777/x",
    "https://up.example",
    "https://jupyter.example/lab",
  );
  fc.assert(
    fc.property(url, fc.boolean(), (jupyterUrl, hourly) => {
      const row = running(made(instance(hourly ? {} : { estimated_duration_hours: 3 })));
      const shown = JSON.stringify(wrappedInstance({ ...row, seen: { ...row.seen, jupyterUrl } }, [], ROOTS, []));
      for (const secret of [row.tag, "up.example", ":501", "/501", "777", '"hourly_rate_usd":2,']) {
        expect(shown).not.toContain(secret);
      }
      expect(shown.includes("https://jupyter.example/lab")).toBe(jupyterUrl === "https://jupyter.example/lab");
    }),
  );
});

import { describe, expect, it } from "vitest";
import { ClusterLaunch, InstanceLaunch, NewDrive, NewFilesystem } from "../../../src/core/compute/bodies.ts";
import { controlOf } from "../../../src/core/compute/control-calls.ts";
import type { Decision, Facts } from "../../../src/core/compute/facts.ts";
import { launchCluster, launchInstance } from "../../../src/core/compute/launches.ts";
import { isMachine, isStorage, type ResourceRow, type StorageRow } from "../../../src/core/compute/resource.ts";
import { documentOf, wrappedInstance } from "../../../src/core/compute/row-documents.ts";
import { attachedTo, mountedBy, storageObserved } from "../../../src/core/compute/storage-life.ts";
import { createStorage, deleteStorage, endStorage } from "../../../src/core/compute/storage-rules.ts";
import { toHttp } from "../../../src/core/http-refusal.ts";
import type { AccountNumber, KeyId } from "../../../src/core/ids.ts";
import { DAY, LENGTHS, SENT } from "../../support/compute/rows.ts";

const usd = (amount: number) => amount * 1_000_000_000;
const NOW = SENT + 60_000;
const ROOTS = { ours: "https://us.example", upstream: "https://up.example" };

function factsOf(over: Partial<Facts> = {}): Facts {
  return {
    ...LENGTHS,
    nowMs: NOW,
    account: 7 as AccountNumber,
    shared: false,
    registered: [],
    deployment: "abcdef",
    by: { keyId: "key_1" as KeyId, teamId: null, user: 3 },
    nextId: 1001,
    random: "abc234",
    sshFingerprint: null,
    rows: [],
    maxGpus: { key: null, team: null, account: null },
    money: { balanceNanoUsd: usd(100), heldNanoUsd: 0, floorNanoUsd: 0 },
    budgets: [],
    regions: [{ id: "eu-1", gpuType: "H100", gpusPerNode: 8 }],
    storageRegions: ["eu-1", "us-1"],
    gpuPrices: new Map([["H100", { price: { gpu_hours: usd(2) }, cost: { gpu_hours: usd(1) } }]]),
    storagePrices: new Map([
      ["drive", { price: { storage_gb_days: usd(0.02) }, cost: { storage_gb_days: usd(0.01) } }],
      ["filesystem", { price: { storage_gb_days: usd(0.04) }, cost: { storage_gb_days: usd(0.03) } }],
    ]),
    ...over,
  };
}

const drive = (body: object = {}, over: Partial<Facts> = {}) => {
  const parsed = NewDrive.parse({ name: "disk", region_id: "eu-1", size_gb: 50, ...body });
  return createStorage(factsOf(over), "drive", { ...parsed, mount_path: undefined });
};
const filesystem = (body: object = {}, over: Partial<Facts> = {}) =>
  createStorage(
    factsOf(over),
    "filesystem",
    NewFilesystem.parse({ name: "data", region_id: "eu-1", size_gb: 100, ...body }),
  );
const launch = (body: object = {}, over: Partial<Facts> = {}) =>
  launchInstance(
    factsOf({ nextId: 1500, ...over }),
    InstanceLaunch.parse({ region_id: "eu-1", gpu_type: "H100", gpu_count: 1, container_image: "img:1", ...body }),
  );

function rows(decision: Decision): [ResourceRow, ...ResourceRow[]] {
  if (!decision.ok) throw new Error(JSON.stringify(decision.refusal));
  return [decision.row, ...(decision.also ?? []).map(({ row }) => row)];
}
function made(decision: Decision): StorageRow {
  const [row] = rows(decision);
  if (!isStorage(row)) throw new Error("no storage");
  return row;
}
/** Status and text of a refusal. */
function no(decision: Decision): string {
  if (decision.ok) return "ok";
  const { status, message } = toHttp(decision.refusal);
  expect(message).toMatch(/\.$/);
  expect(message).not.toMatch(/tgabcdef|501/);
  return `${status} ${message}`;
}
/** As upstream shows it once it is there. */
const available = (row: StorageRow, upstreamId = 501): StorageRow => {
  const times = { createdAtMs: null, updatedAtMs: null };
  const document = { ...times, upstreamId, tag: row.tag, state: "available" } as const;
  const found = { kind: "found", document, sameUntilMs: null } as const;
  return storageObserved(row, found, NOW + 1_000, NOW + 1_000, LENGTHS).row;
};
/** Rows of one kind, available, with ids and names of their own. */
const many = (kind: "drive" | "filesystem", count: number): StorageRow[] =>
  Array.from({ length: count }, (_, index) => {
    const create = kind === "drive" ? drive : filesystem;
    return available(made(create({ name: `${kind}-${index}` }, { nextId: 1001 + index })), 501 + index);
  });
const sold = (row: ResourceRow) => (isStorage(row) ? row.rental.rate : null);

describe("POST of a drive or filesystem", () => {
  it("holds its first day, keeps the tenant's name here and sends a tag, size and a path of our own", () => {
    const decision = filesystem({ name: "my data", mount_path: "/data" });
    const row = made(decision);
    expect(decision).toMatchObject({ ok: true, acts: [{ act: "hold", n: 1, amountNanoUsd: usd(4) }] });
    expect(sold(row)).toEqual({ unit: "storage_gb_days", size: 100, priceNanoUsd: usd(4), costNanoUsd: usd(3) });
    const call = controlOf(row, { verb: "create" });
    expect(call).toMatchObject({ cls: "call", method: "POST", path: "/shared-filesystems", needsNanoUsd: usd(3) });
    const body = { name: "tgabcdef-7-1001-abc234", region_id: "eu-1", size_gb: 100, mount_path: "/mnt/1001" };
    expect(JSON.parse(call.body ?? "")).toEqual(body);
    expect(documentOf(row, ROOTS, false)).toEqual({
      id: 1001,
      name: "my data",
      region_id: "eu-1",
      size_gb: 100,
      mount_path: "/data",
      status: "pending",
      created_at: new Date(NOW).toISOString(),
      updated_at: new Date(NOW).toISOString(),
    });
    expect(documentOf(made(drive()), ROOTS, false)).not.toHaveProperty("mount_path");
    expect(documentOf(made(filesystem()), ROOTS, false)).toMatchObject({ mount_path: "/mnt/1001" });
  });

  it("has the sizes of the contract alone, and absolute paths", () => {
    for (const size_gb of [50, 100, 200, 300, 400, 500]) expect(no(drive({ size_gb }))).toBe("ok");
    for (const size_gb of [0, 49, 51, 150, 501, 600]) expect(NewDrive.safeParse({ size_gb }).success).toBe(false);
    for (const mount_path of [
      "data",
      "/",
      "/a b",
      "/a\u0000b",
      "/a\u007f",
      "",
      "/..",
      "/a/../b",
      "/a/.",
      "/./a",
      `/${"a".repeat(500)}`,
    ]) {
      const body = { name: "a", region_id: "eu-1", size_gb: 50, mount_path };
      expect(NewFilesystem.safeParse(body).success, mount_path).toBe(false);
    }
    for (const mount_path of ["/.cache", "/a/..b/...", "/a.b/c.", "/mnt//data/"]) {
      const body = { name: "a", region_id: "eu-1", size_gb: 50, mount_path };
      expect(NewFilesystem.safeParse(body).success, mount_path).toBe(true);
    }
  });

  it("says what is wrong, in the contract's order", () => {
    const poor = { money: { balanceNanoUsd: usd(10), heldNanoUsd: usd(9.5), floorNanoUsd: 0 } };
    expect([
      no(drive({}, { shared: true })),
      no(drive({ region_id: "mars" }, poor)),
      no(drive({}, { storagePrices: new Map() })),
      no(drive({}, poor)),
      no(drive({}, { money: { balanceNanoUsd: usd(1), heldNanoUsd: 0, floorNanoUsd: 0 } })),
    ]).toEqual([
      "400 Cloud drives and shared filesystems are not offered on this account.",
      "400 `region_id` is not a region that offers storage. GET /storage/availability lists them.",
      "400 `size_gb` has no price yet: storage/drive is not sold.",
      "402 The balance is insufficient: this needs a hold of 1 USD and 0.5 USD is available (9.5 USD is held). Top up first.",
      "ok",
    ]);
  });

  it("gives 8 of each kind, and no ninth; the other kind has its own 8", () => {
    expect(no(drive({}, { rows: many("drive", 7), nextId: 1100 }))).toBe("ok");
    const full = { rows: many("drive", 8), nextId: 1100 };
    expect(no(drive({}, full))).toBe("409 This account has 8 cloud drives, the most it may have. Delete one first.");
    expect(no(filesystem({}, full))).toBe("ok");
    const [gone, ...rest] = many("drive", 8);
    const ended = { ...gone, seen: { ...gone?.seen, state: "ended" } } as StorageRow;
    expect(no(drive({}, { rows: [ended, ...rest], nextId: 1100 }))).toBe("ok");
  });

  it("keeps names unique of a kind, and paths of filesystems, however they are written", () => {
    const taken = { rows: [made(drive()), made(filesystem({ mount_path: "/data" }))], nextId: 1100 };
    expect(no(drive({}, taken))).toBe(
      "409 A cloud drive with this name already exists. Use another, or delete that one.",
    );
    expect(no(filesystem({ name: "disk" }, taken))).toBe("ok");
    for (const mount_path of ["/data", "/data/", "//data"]) {
      expect(no(filesystem({ name: "other", mount_path }, taken))).toBe(
        "409 A shared filesystem with this mount path already exists. Use another, or delete that one.",
      );
    }
    expect(no(filesystem({ name: "other", mount_path: "/data/x" }, taken))).toBe("ok");
  });
});

describe("attached at a launch", () => {
  const disk = available(made(drive()));
  const data = available(made(filesystem({ mount_path: "/data" }, { nextId: 1002 })), 502);
  const own = { rows: [disk, data] };

  it("existing ones go up by upstream's ids, new ones by tags, each at the tenant's path", () => {
    const decision = launch(
      {
        cloud_drives: [{ id: 1001, mount_path: "/disk" }],
        shared_filesystems: [{ id: 1002 }],
        new_cloud_drives: [{ name: "fresh", size_gb: 50, mount_path: "/fresh" }],
        new_shared_filesystems: [{ name: "wide", size_gb: 100 }],
      },
      own,
    );
    const [machine, fresh, wide] = rows(decision);
    if (!isMachine(machine)) throw new Error("no machine");
    expect([machine.id, fresh?.id, wide?.id]).toEqual([1500, 1501, 1502]);
    expect([fresh, wide]).toMatchObject([
      { kind: "drive", launch: 1500, tag: "tgabcdef-7-1501-abc234", create: "unknown" },
      { kind: "filesystem", launch: 1500, tag: "tgabcdef-7-1502-abc234", asked: { mountPath: "/mnt/1502" } },
    ]);
    expect(decision).toMatchObject({
      acts: [{ act: "hold", amountNanoUsd: usd(2) }],
      also: [{ acts: [{ act: "hold", n: 1, amountNanoUsd: usd(1) }] }, { acts: [{ amountNanoUsd: usd(4) }] }],
    });
    const call = controlOf(machine, { verb: "create" });
    expect(call.needsNanoUsd).toBe(usd(1 + 0.5 + 3));
    expect(JSON.parse(call.body ?? "")).toMatchObject({
      cloud_drives: [{ id: 501, mount_path: "/disk" }],
      shared_filesystems: [{ id: 502, mount_path: "/data" }],
      new_cloud_drives: [{ name: "tgabcdef-7-1501-abc234", size_gb: 50, mount_path: "/fresh" }],
      new_shared_filesystems: [{ name: "tgabcdef-7-1502-abc234", size_gb: 100, mount_path: "/mnt/1502" }],
    });
    const shown = wrappedInstance(machine, [disk, data], ROOTS, [1001, 1002]);
    expect(shown).toMatchObject({
      cloud_drives: [{ id: 1001, status: "in_use", mount_path: "/disk" }],
      shared_filesystems: [{ id: 1002, status: "in_use", mount_path: "/data" }],
    });
  });

  it("a cluster takes filesystems and no drives", () => {
    const body = { region_id: "eu-1", gpu_count: 1, replicas: 2, container_image: "i", estimated_duration_hours: 1 };
    const parsed = ClusterLaunch.parse({ ...body, cloud_drives: [], shared_filesystems: [{ id: 1002 }] });
    for (const field of ["cloud_drives", "new_cloud_drives"]) {
      for (const value of [[{ id: 1 }], [{ name: "a", size_gb: 50 }], {}, "1", 0]) {
        const { error } = ClusterLaunch.safeParse({ ...body, [field]: value });
        expect(error?.issues[0]?.message).toContain("Use a shared filesystem");
      }
    }
    const [cluster] = rows(launchCluster(factsOf({ ...own, nextId: 1500 }), parsed));
    if (!cluster) throw new Error("no cluster");
    const sent = JSON.parse(controlOf(cluster, { verb: "create" }).body ?? "");
    expect(sent).toMatchObject({ shared_filesystems: [{ id: 502, mount_path: "/data" }] });
    expect(sent).not.toHaveProperty("cloud_drives");
  });

  it("says what is wrong: 400, then 404, then 409, then 402", () => {
    const fresh = (name: string, mount_path = `/${name}`) => ({ name, size_gb: 50, mount_path });
    const away = available(made(drive({ region_id: "us-1", name: "away" }, { nextId: 1003 })), 503);
    const pending = made(drive({ name: "pending" }, { nextId: 1004 }));
    const unpaid = { ...disk, id: 1005, rental: { ...disk.rental, unpaid: [2] } };
    const deleting = { ...disk, id: 1006, wants: { end: { reason: "user", askedMs: NOW } } } as const;
    const all = { rows: [disk, data, away, pending, unpaid, deleting] };
    const attach = (...ids: number[]) => launch({ cloud_drives: ids.map((id) => ({ id, mount_path: `/${id}` })) }, all);
    expect(no(launch({ cloud_drives: [{ id: 1001 }] }, { ...all, shared: true }))).toBe(
      "400 Cloud drives and shared filesystems are not offered on this account.",
    );
    expect(no(attach(1001, 1001))).toBe("400 The same storage is attached twice.");
    expect(no(attach(1003))).toMatch(/^400 `cloud_drives` names storage of another region/);
    expect(no(launch({ new_cloud_drives: [fresh("a", "/x"), fresh("b", "/x/")] }))).toMatch(/^400 `mount_path` must/);
    // A filesystem's id names no drive, as a random one or another account's.
    expect(no(attach(1002))).toBe(no(attach(999_999)));
    expect(no(attach(1002))).toBe("404 No cloud drive with this id is on this account. GET /cloud-drives lists them.");
    for (const id of [1004, 1006]) expect(no(attach(id))).toMatch(/^409 This cloud drive is not available/);
    expect(no(attach(1005))).toMatch(/^409 This cloud drive is suspended because a day of it is unpaid/);
    expect(no(launch({ new_cloud_drives: [fresh("disk")] }, all))).toMatch(/^409 A cloud drive with this name/);
    expect(no(launch({ new_cloud_drives: [fresh("a"), fresh("a", "/b")] }, all))).toMatch(/^409 A cloud drive with/);
    const eight = many("drive", 8);
    expect(no(launch({ new_cloud_drives: [fresh("n")] }, { rows: eight.slice(1) }))).toBe("ok");
    expect(no(launch({ new_cloud_drives: [fresh("n")] }, { rows: eight }))).toMatch(/^409 This account has 8/);
    // 2 for the hour and 1 for the day.
    const money = (amount: number) => ({ money: { balanceNanoUsd: usd(amount), heldNanoUsd: 0, floorNanoUsd: 0 } });
    expect(no(launch({ new_cloud_drives: [fresh("n")] }, money(3)))).toBe("ok");
    expect(no(launch({ new_cloud_drives: [fresh("n")] }, money(2.99)))).toMatch(/^402 /);
  });

  it("a drive is one machine's at a time; a filesystem is many machines'; neither can be deleted meanwhile", () => {
    const [machine] = rows(launch({ cloud_drives: [{ id: 1001 }], shared_filesystems: [{ id: 1002 }] }, own));
    if (!isMachine(machine)) throw new Error("no machine");
    const taken = { rows: [...own.rows, machine], nextId: 1600 };
    expect(no(launch({ cloud_drives: [{ id: 1001 }] }, taken))).toMatch(/^409 .*attached to another instance/);
    expect(no(launch({ shared_filesystems: [{ id: 1002 }] }, taken))).toBe("ok");
    const remove = (over: Partial<Facts>) => no(deleteStorage(factsOf({ ...over, nowMs: NOW + 9_000 }), "drive", 1001));
    expect(remove(taken)).toBe("409 This cloud drive is currently attached. Terminate what uses it first.");
    expect([attachedTo(machine, 1001), mountedBy(machine, 1001)]).toEqual([true, false]);
    for (const state of ["running", "degraded", "stopping"] as const) {
      expect(mountedBy({ ...machine, seen: { ...machine.seen, state } }, 1001), state).toBe(true);
    }
    const ended = { ...machine, seen: { ...machine.seen, state: "ended" } } as const;
    expect([attachedTo(ended, 1001), mountedBy(ended, 1001)]).toEqual([false, false]);
    expect(remove({ rows: [...own.rows, ended] })).toBe("ok");
    expect(remove({ rows: [...own.rows, { ...machine, create: "refused" }] })).toBe("ok");
  });
});

describe("DELETE", () => {
  const disk = available(made(drive()));
  const later = { nowMs: NOW + 2 * DAY };

  it("is sent to upstream's id; days that begin after it are not charged", () => {
    const decision = deleteStorage(factsOf({ rows: [disk], ...later }), "drive", 1001);
    const row = made(decision);
    expect(decision).toMatchObject({ ok: true, call: { verb: "stop" } });
    expect(row.rental.endMs).toBe(later.nowMs + 1);
    expect(controlOf(row, { verb: "stop" })).toMatchObject({
      cls: "stop",
      method: "DELETE",
      path: "/cloud-drives/501",
    });
    expect(documentOf(row, ROOTS, false)).toMatchObject({ status: "deleting" });
    expect(no(deleteStorage(factsOf({ rows: [row], ...later }), "drive", 1001))).toBe(
      "409 This cloud drive is deleted, or is being deleted. Its list shows when it is gone.",
    );
  });

  it("of one that is pending, another kind's or unknown is refused", () => {
    const pending = made(drive());
    const remove = (kind: "drive" | "filesystem", id: number) =>
      no(deleteStorage(factsOf({ rows: [pending], ...later }), kind, id));
    expect(remove("drive", 1001)).toMatch(/^409 This cloud drive is not available/);
    expect(remove("filesystem", 1001)).toBe(remove("filesystem", 5));
    expect(remove("filesystem", 5)).toMatch(/^404 No shared filesystem/);
  });

  it("of a suspended one is allowed", () => {
    const unpaid = { ...disk, rental: { ...disk.rental, unpaid: [2] } };
    expect(documentOf(unpaid, ROOTS, false)).toMatchObject({ status: "suspended" });
    expect(documentOf(unpaid, ROOTS, true)).toMatchObject({ status: "in_use" });
    expect(no(deleteStorage(factsOf({ rows: [unpaid], ...later }), "drive", 1001))).toBe("ok");
  });

  it("by the operator is wanted whatever its state, once", () => {
    const { row, call } = endStorage(disk, NOW + DAY);
    expect(call).toEqual({ verb: "stop" });
    expect(row.wants.end).toEqual({ reason: "admin", askedMs: NOW + DAY });
    expect(endStorage(row, NOW + 2 * DAY)).toEqual({ row, call: null });
    expect(endStorage(made(drive()), NOW + DAY).call).toBeNull();
  });
});

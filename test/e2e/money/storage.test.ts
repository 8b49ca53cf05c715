/** Drives and filesystems through the real process: each day that began is charged once, as the service counts it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Renter, type StorageShown } from "../../support/compute/renter.ts";
import { ComputeSandbox } from "../../support/compute-sandbox.ts";
import { eventually, sleep } from "../../support/eventually.ts";
import { Operator } from "../../support/operator.ts";
import { TollgateProcess } from "../../support/process.ts";

const DAY_MS = 2_500;

let gateway: TollgateProcess;
let operator: Operator;
let sandbox: ComputeSandbox;

beforeAll(async () => {
  gateway = await TollgateProcess.start({ env: { COMPUTE_HOUR_MS: "60000", COMPUTE_DAY_MS: String(DAY_MS) } });
  operator = new Operator(gateway);
  sandbox = new ComputeSandbox(gateway.sandboxUrl);
  for (const [kind, price_usd] of [
    ["drive", 0.02],
    ["filesystem", 0.04],
  ] as const) {
    const prices = { storage_gb_days: { cost_usd: 0.01, price_usd } };
    await operator.call("PUT", `/models/${encodeURIComponent(`storage/${kind}`)}`, { kind: "storage", prices });
  }
});
afterAll(() => gateway.stop());

const rent = (balanceUsd: number, fields: Record<string, unknown> = {}) =>
  Renter.make({ operator, sandboxUrl: gateway.sandboxUrl }, balanceUsd, fields);

const charged = async (renter: Renter): Promise<number[]> =>
  (await renter.tenant.charges()).map(({ amount_usd }) => amount_usd);

/** Waits for the middle of a day: the service counts its days from a moment later than we do. */
async function midday(renter: Renter): Promise<void> {
  const created = Date.parse((await renter.storage("/cloud-drives", 1000))?.created_at ?? "");
  const inDay = (Date.now() - created) % DAY_MS;
  await sleep((DAY_MS * 1.4 - inDay) % DAY_MS);
}

const sound = { ok: true, problems: [], open_holds: 0 };

/** Calls that change something upstream. */
const changes = async (renter: Renter) => (await sandbox.calls(renter.seat)).filter(({ method }) => method !== "GET");

describe.concurrent("a drive", () => {
  test("is held for, charged each day that begins, and no day after its deletion", async () => {
    const renter = await rent(20);
    const made = await renter.drive();
    expect(made).toMatchObject({ status: 202, body: { id: 1000, name: "disk", size_gb: 50, status: "pending" } });
    expect(await renter.tenant.audit()).toMatchObject({ open_holds: 1, held_usd: 1 });
    await renter.untilStorage("/cloud-drives", 1000, "available");
    await eventually("three days are charged", async () => (await charged(renter)).length >= 3, { withinMs: 20_000 });
    await midday(renter);
    expect(await renter.send("DELETE", "/cloud-drives/1000")).toMatchObject({
      status: 202,
      body: { status: "deleting" },
    });
    await renter.untilStorage("/cloud-drives", 1000, "deleted");
    const [kept] = await sandbox.storage(renter.seat);
    expect(kept).toMatchObject({
      state: "deleted",
      name: expect.stringMatching(/^tg[0-9a-f]{6}-\d+-1000-[a-z2-7]{6}$/),
    });
    const amounts = await charged(renter);
    expect(amounts).toEqual(Array(kept?.days_charged).fill(-1));
    expect(await renter.tenant.audit()).toMatchObject({ ...sound, balance_usd: 20 - amounts.length });
    expect((await renter.send("DELETE", "/cloud-drives/1000")).status).toBe(409);
  });

  test("that is unpaid is suspended, not attachable, and paid by the next credit, oldest day first", async () => {
    const renter = await rent(1);
    await renter.drive();
    await renter.untilStorage("/cloud-drives", 1000, "suspended");
    const refused = await renter.launch({ cloud_drives: [{ id: 1000, mount_path: "/disk" }] });
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([409, expect.stringContaining("suspended")]);
    await operator.call("POST", `/accounts/${renter.tenant.account}/credits`, { amount_usd: 30, reference: "more" });
    expect((await renter.storage("/cloud-drives", 1000))?.status).toBe("available");
    await midday(renter);
    await renter.send("DELETE", "/cloud-drives/1000");
    await renter.untilStorage("/cloud-drives", 1000, "deleted");
    const [kept] = await sandbox.storage(renter.seat);
    expect(await charged(renter)).toEqual(Array(kept?.days_charged).fill(-1));
    expect(await renter.tenant.audit()).toMatchObject(sound);
  });

  test("that stays unpaid is deleted after the grace; its days are the operator's loss", async () => {
    const renter = await rent(1.5);
    await operator.call("PATCH", `/accounts/${renter.tenant.account}`, { storage_grace_days: 3 });
    await renter.drive();
    await renter.untilStorage("/cloud-drives", 1000, "deleted");
    const [kept] = await sandbox.storage(renter.seat);
    expect(kept?.state).toBe("deleted");
    const audit = await eventually("the loss is booked", async () => {
      const now = await renter.tenant.audit();
      return now.operator_loss_usd > 0 ? now : undefined;
    });
    expect(audit).toMatchObject({ ...sound, balance_usd: 0.5 });
    expect(await charged(renter)).toEqual([-1]);
    // Cost of a day: 50 GB at 0.01. The service kept all days but the first for nothing.
    expect(Math.round(audit.operator_loss_usd * 2e9) / 1e9).toBe((kept?.days_charged ?? 0) - 1);
  });

  test("whose create got no answer is found by its tag: one drive", async () => {
    const renter = await rent(20);
    await sandbox.fault(renter.seat, { fault: "lost_answer", times: 1 }, { method: "POST" });
    expect((await renter.drive()).status).toBe(202);
    await renter.untilStorage("/cloud-drives", 1000, "available");
    expect(await sandbox.storage(renter.seat)).toHaveLength(1);
  });

  test("that upstream or the balance refuses costs nothing and is not shown", async () => {
    const renter = await rent(0.99);
    expect((await renter.drive()).status).toBe(402);
    expect(await changes(renter)).toEqual([]);
    await sandbox.fault(renter.seat, { fault: "status", status: 503, times: 1 }, { method: "POST" });
    const rich = await rent(50);
    await sandbox.region(rich.region, { gpu_type: `GPU ${rich.region}`, hourly_rate_usd: 2, drive_gb: 0 });
    expect((await rich.drive()).status).toBe(409);
    expect((await rich.send("GET", "/cloud-drives")).body).toEqual([]);
    expect(await rich.tenant.audit()).toMatchObject({ ...sound, held_usd: 0, balance_usd: 50 });
  });
});

describe.concurrent("attached", () => {
  test("a drive goes with one instance at a time; new ones come with the launch and stay after it", async () => {
    const renter = await rent(200);
    await renter.drive();
    await renter.untilStorage("/cloud-drives", 1000, "available");
    const launched = await renter.launch({
      cloud_drives: [{ id: 1000, mount_path: "/disk" }],
      new_cloud_drives: [{ name: "fresh", size_gb: 50, mount_path: "/fresh" }],
      new_shared_filesystems: [{ name: "data", size_gb: 50, mount_path: "/data" }],
    });
    expect(launched).toMatchObject({ status: 202, body: { id: 1001 } });
    const second = await renter.launch({ cloud_drives: [{ id: 1000, mount_path: "/disk" }] });
    expect([second.status, JSON.stringify(second.body)]).toEqual([409, expect.stringContaining("attached")]);
    await renter.until(1001, "running");
    const shown = await eventually(
      "its storage is in use",
      async () => {
        const { body } = await renter.send<{ cloud_drives: StorageShown[]; shared_filesystems: StorageShown[] }>(
          "GET",
          "/gpu-instances/1001",
        );
        const all = [...body.cloud_drives, ...body.shared_filesystems];
        return all.every(({ status }) => status === "in_use") && body;
      },
      { withinMs: 20_000, everyMs: 1_000 },
    );
    expect(shown).toMatchObject({
      cloud_drives: [
        { id: 1000, mount_path: "/disk" },
        { id: 1002, name: "fresh", mount_path: "/fresh" },
      ],
      shared_filesystems: [{ id: 1003, name: "data", mount_path: "/data" }],
    });
    const remove = await renter.send("DELETE", "/cloud-drives/1002");
    expect([remove.status, JSON.stringify(remove.body)]).toEqual([409, expect.stringContaining("currently attached")]);
    await renter.send("POST", "/gpu-instances/1001/terminate");
    await renter.until(1001, "terminated");
    expect((await renter.storage("/cloud-drives", 1002))?.status).toBe("available");
    const tags = (await sandbox.storage(renter.seat)).map(({ name }) => name.split("-")[2]);
    expect(tags).toEqual(["1000", "1002", "1003"]);
    expect(await renter.tenant.audit()).toMatchObject(sound);
  });

  test("a launch that upstream refuses makes no storage and lets its drive go", async () => {
    const renter = await rent(100);
    await sandbox.region(renter.region, { gpu_type: `GPU ${renter.region}`, hourly_rate_usd: 2, taken_gpus: 1_000 });
    await renter.drive();
    await renter.untilStorage("/cloud-drives", 1000, "available");
    const refused = await renter.launch({
      gpu_count: 8,
      cloud_drives: [{ id: 1000, mount_path: "/disk" }],
      new_cloud_drives: [{ name: "fresh", size_gb: 50, mount_path: "/fresh" }],
    });
    expect(refused.status).toBe(409);
    expect((await renter.send<StorageShown[]>("GET", "/cloud-drives")).body.map(({ id }) => id)).toEqual([1000]);
    expect(await renter.tenant.audit()).toMatchObject(sound);
    expect((await renter.send("DELETE", "/cloud-drives/1000")).status).toBe(202);
  });

  test("a cluster has its filesystem on all replicas, scales, extends, and leaves it behind", async () => {
    const renter = await rent(500);
    const body = {
      region_id: renter.region,
      gpu_count: 1,
      replicas: 2,
      container_image: "ubuntu:24",
      estimated_duration_hours: 1,
      name: "fleet",
      new_shared_filesystems: [{ name: "data", size_gb: 50, mount_path: "/data" }],
    };
    for (const [field, value] of [
      ["replicas", 1],
      ["replicas", 9],
      ["gpu_count", 3],
      ["estimated_duration_hours", 73],
    ]) {
      expect((await renter.send("POST", "/gpu-clusters", { ...body, [String(field)]: value })).status).toBe(400);
    }
    expect((await renter.send("POST", "/gpu-clusters", body)).status).toBe(202);
    expect((await renter.send("DELETE", "/gpu-clusters/1000")).status).toBe(409);
    const get = () => renter.send<{ status: string; replicas: number }>("GET", "/gpu-clusters/1000");
    await eventually("it runs", async () => (await get()).body.status === "running", {
      withinMs: 30_000,
      everyMs: 1_000,
    });
    const own = await eventually(
      "its filesystem is in use",
      async () => {
        const { body: list } = await renter.send<StorageShown[]>("GET", "/gpu-clusters/1000/shared-filesystems");
        return list[0]?.status === "in_use" && list;
      },
      { withinMs: 20_000, everyMs: 1_000 },
    );
    expect(own).toMatchObject([{ id: 1001, name: "data", mount_path: "/data" }]);
    const before = (await sandbox.calls(renter.seat)).filter(({ path }) => path.endsWith("/replicas")).length;
    const [pods] = await Promise.all(
      Array.from({ length: 4 }, () => renter.send<{ name: string }[]>("GET", "/gpu-clusters/1000/replicas")),
    );
    expect(pods?.body).toMatchObject([{ name: "cluster-1000-0", status: "Running" }, { name: "cluster-1000-1" }]);
    const [execution] = await sandbox.executions(renter.seat);
    expect(JSON.stringify(pods?.body)).not.toContain(`-${execution?.id}-`);
    const after = (await sandbox.calls(renter.seat)).filter(({ path }) => path.endsWith("/replicas")).length;
    expect(after - before).toBe(1);
    const held = (await renter.tenant.audit()).held_usd;
    expect(await renter.send("POST", "/gpu-clusters/1000/scale", { replicas: 8 })).toMatchObject({
      status: 200,
      body: { id: 1000, replicas: 8 },
    });
    for (const replicas of [0, 9]) {
      expect((await renter.send("POST", "/gpu-clusters/1000/scale", { replicas })).status).toBe(400);
    }
    // Scaled without a new price: two replicas' rate is held for the run, and one hour of it for the extension.
    expect((await renter.tenant.audit()).held_usd).toBeCloseTo(held, 6);
    expect((await renter.send("POST", "/gpu-clusters/1000/extend", { hours: 1 })).status).toBe(200);
    expect((await renter.tenant.audit()).held_usd).toBeCloseTo(held + 6, 6);
    expect((await renter.send("DELETE", "/shared-filesystems/1001")).status).toBe(409);
    expect((await renter.send("DELETE", "/gpu-clusters/1000")).status).toBe(202);
    await eventually("it is stopped", async () => (await get()).body.status === "stopped", {
      withinMs: 30_000,
      everyMs: 1_000,
    });
    expect((await renter.send("GET", "/gpu-clusters/1000/replicas")).body).toEqual([]);
    expect((await renter.storage("/shared-filesystems", 1001))?.status).toBe("available");
    expect((await renter.send("DELETE", "/shared-filesystems/1001")).status).toBe(202);
    expect(await renter.tenant.audit()).toMatchObject(sound);
  });
});

describe.concurrent("who may", () => {
  test("another tenant's storage is a random id's 404 in paths and bodies, and upstream hears nothing", async () => {
    const [one, other] = await Promise.all([rent(20), rent(20)]);
    await one.drive();
    await one.untilStorage("/cloud-drives", 1000, "available");
    const foreign = await other.send("DELETE", "/cloud-drives/1000");
    const random = await other.send("DELETE", "/cloud-drives/987654");
    expect([foreign.status, foreign.body]).toEqual([404, random.body]);
    const attach = (id: number) => other.launch({ cloud_drives: [{ id, mount_path: "/disk" }] });
    const attached = await attach(1000);
    expect([attached.status, attached.body]).toEqual([404, (await attach(987_654)).body]);
    expect(await changes(other)).toEqual([]);
    expect((await other.send("GET", "/cloud-drives")).body).toEqual([]);
    expect((await one.storage("/cloud-drives", 1000))?.status).toBe("available");
  });

  test("a member's key makes filesystems and does not delete them; an admin's does", async () => {
    const renter = await rent(40);
    const member = await operator.key(renter.tenant.account, { scopes: ["compute"], role: "member" });
    const admin = await operator.key(renter.tenant.account, { scopes: ["compute"], role: "admin" });
    await renter.filesystem();
    await renter.untilStorage("/shared-filesystems", 1000, "available");
    const remove = (key: string) =>
      fetch(`${gateway.url}/shared-filesystems/1000`, {
        method: "DELETE",
        headers: { authorization: `Bearer ${key}` },
      });
    const refused = await remove(member.key);
    expect([refused.status, await refused.text()]).toEqual([403, expect.stringContaining("role")]);
    expect((await remove(admin.key)).status).toBe(202);
  });

  test("eight of each kind, exactly, when twelve are asked for at once; a shared seat has none", async () => {
    const renter = await rent(200);
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => renter.drive({ name: `disk ${n}` })));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(8);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(4);
    expect(await renter.tenant.audit()).toMatchObject({ problems: [] });
    const shared = await rent(20, { shared: true });
    const none = await shared.drive();
    expect([none.status, JSON.stringify(none.body)]).toEqual([
      400,
      expect.stringContaining("not offered on this account"),
    ]);
    expect((await shared.send("GET", "/storage/availability")).body).toEqual({});
    expect((await shared.launch({ new_cloud_drives: [{ name: "a", size_gb: 50, mount_path: "/a" }] })).status).toBe(
      400,
    );
  });
});

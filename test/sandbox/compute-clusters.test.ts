/** GPU clusters, cloud drives and shared filesystems against the contract. */
import { beforeAll, describe, expect, test } from "vitest";
import { DAY_MS, HOUR_MS, listed, STARTED_MS, STOPPED_MS, Tenant } from "../support/worker/compute-client.ts";

let tenant: Tenant;
beforeAll(async () => {
  tenant = await Tenant.make({ balance_usd: 100_000, region: { node_count: 100 } });
  // The first call loads the whole sandbox.
});

const CLUSTER_FIELDS = [
  ...["id", "name", "region_id", "gpu_type", "gpu_count", "replicas", "container_image", "startup_command"],
  ...["service_port", "status", "hourly_rate_usd", "estimated_duration_hours", "endpoint_url", "created_at"],
  ...["started_at", "terminated_at"],
];

describe("clusters", () => {
  test("a launch holds the whole run; the rest comes back once the replicas stopped", async () => {
    const own = await Tenant.make();
    const { id: fs } = await own.filesystem();
    const { balance: before } = await own.money();
    const launched = await own.launchCluster({
      name: "fleet",
      gpu_count: 2,
      replicas: 3,
      estimated_duration_hours: 10,
      service_port: 8000,
      shared_filesystems: [{ id: fs, mount_path: "/data" }],
    });
    for (const field of CLUSTER_FIELDS) expect(launched).toHaveProperty(field);
    expect(launched).toMatchObject({ name: "fleet", status: "pending", gpu_type: own.gpuType, hourly_rate_usd: 12 });
    expect(launched.endpoint_url).toContain(`/gpu-clusters/${launched.id}/service/`);
    expect(await own.money()).toEqual({ balance: before, held: 120 });
    expect(
      (await own.get(`/gpu-clusters/${launched.id}/replicas`)).map(({ status }: { status: string }) => status),
    ).toEqual(["Pending", "Pending", "Pending"]);
    await own.refused(409, "DELETE", `/gpu-clusters/${launched.id}`);

    await own.advance(STARTED_MS);
    const replicas = await own.get(`/gpu-clusters/${launched.id}/replicas`);
    expect(replicas).toHaveLength(3);
    expect(replicas[0]).toEqual({ name: `cluster-${launched.id}-0`, status: "Running", node: expect.any(String) });
    const [mounted] = await own.get(`/gpu-clusters/${launched.id}/shared-filesystems`);
    expect(mounted).toMatchObject({ id: fs, mount_path: "/data", status: "in_use" });

    await own.advance(HOUR_MS);
    const ending = await own.send("DELETE", `/gpu-clusters/${launched.id}`, undefined, 202);
    expect(ending).toMatchObject({ id: launched.id, status: "running" });
    await own.refused(409, "DELETE", `/gpu-clusters/${launched.id}`);
    await own.advance(STOPPED_MS);
    const row = await own.machine(launched.id);
    expect(row).toMatchObject({ kind: "cluster", gpus: 6, reason: "user", held_usd: 0 });
    expect(row.charged_usd).toBe(Math.ceil((12e9 * row.ms) / HOUR_MS) / 1e9);
    expect(await own.money()).toEqual({ balance: Math.round((before - row.charged_usd) * 1e9) / 1e9, held: 0 });
    expect(await own.get(`/gpu-clusters/${launched.id}`)).toMatchObject({ status: "stopped" });
    expect(await own.get(`/gpu-clusters/${launched.id}/replicas`)).toEqual([]);
    expect(listed(await own.get("/shared-filesystems"), fs).status).toBe("available");
  });

  test("it stops by itself when its time is over", async () => {
    const own = await Tenant.make();
    const { id } = await own.runningCluster();
    await own.advance(2 * HOUR_MS + STOPPED_MS);
    expect((await own.get(`/gpu-clusters/${id}`)).status).toBe("stopped");
    expect(await own.machine(id)).toMatchObject({ reason: "duration_expired", ms: 2 * HOUR_MS, charged_usd: 8 });
    expect(listed(await own.get("/gpu-clusters"), id).status).toBe("stopped");
    await own.advance(7 * DAY_MS);
    expect(await own.get("/gpu-clusters")).toEqual([]);
  });

  test.each([
    ["1 replica", { replicas: 1 }],
    ["9 replicas", { replicas: 9 }],
    ["no replicas", { replicas: undefined }],
    ["3 GPUs a replica", { gpu_count: 3 }],
    ["16 GPUs a replica", { gpu_count: 16 }],
    ["no end time", { estimated_duration_hours: 0 }],
    ["no duration", { estimated_duration_hours: undefined }],
    ["73 hours", { estimated_duration_hours: 73 }],
    ["an unknown region", { region_id: "nowhere" }],
    ["no image", { container_image: undefined }],
  ])("a launch with %s is 400", async (_, fields) => {
    await tenant.nextMinute();
    await tenant.refused(400, "POST", "/gpu-clusters", tenant.cluster(fields));
    expect(await tenant.get("/gpu-clusters")).toEqual([]);
  });

  test.each([1, 2, 4, 8])("%i GPUs a replica, 2 and 8 replicas, 1 and 72 hours are sold", async (gpu_count) => {
    await tenant.nextMinute();
    for (const [replicas, estimated_duration_hours] of [
      [2, 72],
      [8, 1],
    ]) {
      const { id } = await tenant.launchCluster({ gpu_count, replicas, estimated_duration_hours });
      await tenant.force(id, "lost");
    }
  });

  test("402 if the hold cannot be taken, 409 if too few GPUs are free", async () => {
    const own = await Tenant.make({ balance_usd: 7.99 });
    await own.refused(402, "POST", "/gpu-clusters", own.cluster());
    await own.refused(409, "POST", "/gpu-clusters", own.cluster({ gpu_count: 4, replicas: 5 }));
    await own.set({ balance_usd: 8 });
    await own.launchCluster();
    const large = await Tenant.make();
    await large.launchCluster({ gpu_count: 8, replicas: 2 });
  });

  test("scale takes 1 to 8 replicas, needs free GPUs, and changes neither rate nor hold", async () => {
    const own = await Tenant.make({ region: { node_count: 1 } });
    const { id } = await own.launchCluster();
    await own.refused(409, "POST", `/gpu-clusters/${id}/scale`, { replicas: 3 });
    await own.advance(STARTED_MS);
    for (const replicas of [0, 9, 1.5, "2", undefined]) {
      await own.refused(400, "POST", `/gpu-clusters/${id}/scale`, { replicas });
    }
    expect(await own.post(`/gpu-clusters/${id}/scale`, { replicas: 8 }, 200)).toEqual({ id, replicas: 8 });
    const statuses = async () =>
      (await own.get(`/gpu-clusters/${id}/replicas`)).map(({ status }: { status: string }) => status);
    expect(await statuses()).toEqual(["Running", "Running", ...Array(6).fill("Pending")]);
    await own.advance(STARTED_MS);
    expect(await statuses()).toEqual(Array(8).fill("Running"));
    expect(await own.get(`/gpu-clusters/${id}`)).toMatchObject({ replicas: 8, hourly_rate_usd: 4 });
    expect((await own.money()).held).toBe(8);
    await own.refused(409, "POST", "/gpu-instances", own.instance());
    await own.post(`/gpu-clusters/${id}/scale`, { replicas: 1 }, 200);
    await own.launch({ gpu_count: 7 });
    await own.refused(409, "POST", `/gpu-clusters/${id}/scale`, { replicas: 2 });
    expect((await own.get(`/gpu-clusters/${id}`)).replicas).toBe(1);
  });

  test("extend holds hours at the rate of the launch and moves the end", async () => {
    const own = await Tenant.make({ balance_usd: 20 });
    const { id } = await own.runningCluster();
    await own.refused(402, "POST", `/gpu-clusters/${id}/extend`, { hours: 4 });
    expect(await own.post(`/gpu-clusters/${id}/extend`, { hours: 3 }, 200)).toMatchObject({
      id,
      estimated_duration_hours: 5,
    });
    expect(await own.money()).toEqual({ balance: 20, held: 20 });
    await own.advance(4.9 * HOUR_MS);
    expect((await own.get(`/gpu-clusters/${id}`)).status).toBe("running");
    await own.advance(HOUR_MS);
    await own.refused(409, "POST", `/gpu-clusters/${id}/extend`, { hours: 1 });
  });

  test("a cluster is degraded while some replicas are down, and can still be stopped", async () => {
    const own = await Tenant.make();
    const { id } = await own.runningCluster();
    await own.force(id, "degraded");
    expect((await own.get(`/gpu-clusters/${id}`)).status).toBe("degraded");
    expect((await own.get(`/gpu-clusters/${id}/replicas`)).at(-1).status).not.toBe("Running");
    await own.force(id, "healthy");
    expect((await own.get(`/gpu-clusters/${id}`)).status).toBe("running");
    await own.force(id, "degraded");
    await own.send("DELETE", `/gpu-clusters/${id}`, undefined, 202);
  });

  test("an id that is no cluster of the account is 404 on every route", async () => {
    const own = await Tenant.make();
    const foreign = await (await Tenant.make()).launchCluster();
    const instance = await own.launch();
    for (const id of [foreign.id, instance.id, "x"]) {
      const path = `/gpu-clusters/${id}`;
      await own.refused(404, "GET", path);
      await own.refused(404, "GET", `${path}/replicas`);
      await own.refused(404, "GET", `${path}/shared-filesystems`);
      await own.refused(404, "POST", `${path}/scale`, { replicas: 2 });
      await own.refused(404, "POST", `${path}/extend`, { hours: 2 });
      await own.refused(404, "DELETE", path);
    }
  });
});

/** Each kind with its own route and daily price of a GB. */
const KINDS = [
  ["/cloud-drives", "cloud_drives", 0.01],
  ["/shared-filesystems", "shared_filesystems", 0.02],
] as const;

describe.each(KINDS)("storage at %s", (path, attach, price) => {
  const body = (own: Tenant, fields: object = {}) => ({ name: "data", region_id: own.region, size_gb: 50, ...fields });
  const make = async (own: Tenant, fields: object = {}, status = 202) => own.post(path, body(own, fields), status);
  const stateOf = async (own: Tenant, id: number) => listed(await own.get(path), id)?.status;

  test("it is pending, then available; each begun day is charged; deletion ends that", async () => {
    const own = await Tenant.make();
    const made = await make(own, { size_gb: 100 });
    expect(made).toMatchObject({ name: "data", region_id: own.region, size_gb: 100, status: "pending" });
    expect("mount_path" in made).toBe(path === "/shared-filesystems");
    await own.refused(409, "DELETE", `${path}/${made.id}`);
    await own.advance(STOPPED_MS);
    expect(await stateOf(own, made.id)).toBe("available");
    expect(await own.money()).toEqual({ balance: 1_000 - 100 * price, held: 0 });
    await own.advance(2 * DAY_MS);
    expect((await own.money()).balance).toBeCloseTo(1_000 - 300 * price, 9);
    expect(await own.send("DELETE", `${path}/${made.id}`, undefined, 202)).toMatchObject({ status: "deleting" });
    await own.refused(409, "DELETE", `${path}/${made.id}`);
    await own.advance(STOPPED_MS);
    expect(await stateOf(own, made.id)).toBe("deleted");
    await own.refused(404, "DELETE", `${path}/${made.id}`);
    await own.advance(5 * DAY_MS);
    expect((await own.money()).balance).toBeCloseTo(1_000 - 300 * price, 9);
    expect(await own.storage(made.id)).toMatchObject({ days_charged: 3, days_owed: 0, state: "deleted" });
    await own.advance(3 * DAY_MS);
    expect(await stateOf(own, made.id)).toBe(undefined);
  });

  test("sizes are 50, 100, 200, 300, 400 and 500 GB, nothing else", async () => {
    const own = await Tenant.make();
    for (const size_gb of [50, 100, 200, 300, 400, 500]) await make(own, { name: `s${size_gb}`, size_gb });
    for (const size_gb of [0, 49, 51, 150, 501, 600, "50", undefined]) await make(own, { name: "n", size_gb }, 400);
    await make(own, { name: undefined }, 400);
    await make(own, { name: "" }, 400);
    await make(own, { region_id: "nowhere" }, 400);
  });

  test("an account has up to 8; a deleted one makes room", async () => {
    const own = await Tenant.make();
    const made = [];
    for (let index = 0; index < 8; index++) made.push(await make(own, { name: `n${index}` }));
    expect((await make(own, { name: "n8" }, 409)).error).toContain("up to 8");
    await own.advance(STOPPED_MS);
    await own.send("DELETE", `${path}/${made[0].id}`, undefined, 202);
    await make(own, { name: "n8" }, 409);
    await own.advance(STOPPED_MS);
    await make(own, { name: "n8" });
  });

  test("a name is there once among the active ones", async () => {
    const own = await Tenant.make();
    const { id } = await make(own);
    await make(own, {}, 409);
    await own.advance(STOPPED_MS);
    await own.send("DELETE", `${path}/${id}`, undefined, 202);
    await own.advance(STOPPED_MS);
    await make(own);
    await (await Tenant.make()).drive({ name: "data" });
  });

  test("402 if the balance does not cover the first day, 409 if the region is full", async () => {
    const own = await Tenant.make({ balance_usd: 50 * price - 0.001, region: { drive_gb: 90, filesystem_gb: 90 } });
    await make(own, {}, 402);
    await own.set({ balance_usd: 50 * price });
    await make(own);
    expect(await own.balance()).toBe(0);
    await own.set({ balance_usd: 100 });
    await make(own, { name: "more" }, 409);
  });

  test("an instance mounts it: not deletable from its launch to its stop", async () => {
    const own = await Tenant.make();
    const { id } = await make(own);
    await own.refused(409, "POST", "/gpu-instances", own.instance({ [attach]: [{ id, mount_path: "/d" }] }));
    await own.advance(STOPPED_MS);
    const remove = () => own.refused(409, "DELETE", `${path}/${id}`);
    const launched = await own.launch({ [attach]: [{ id, mount_path: "/d" }] });
    expect(await remove()).toContain("currently attached");
    await own.advance(STARTED_MS);
    expect(await stateOf(own, id)).toBe("in_use");
    expect((await own.get(`/gpu-instances/${launched.id}`))[attach]).toMatchObject([{ id, mount_path: "/d" }]);
    await own.post(`/gpu-instances/${launched.id}/terminate`, undefined, 202);
    await remove();
    await own.advance(STOPPED_MS);
    expect(await stateOf(own, id)).toBe("available");
    await own.send("DELETE", `${path}/${id}`, undefined, 202);
  });

  test("an attachment must be the account's, in its region, and there once", async () => {
    const own = await Tenant.make();
    const other = await Tenant.make();
    const { id } = await make(own);
    const foreign = await make(other);
    await own.advance(STOPPED_MS);
    const launch = (status: number, mounts: unknown, fields = {}) =>
      own.refused(status, "POST", "/gpu-instances", own.instance({ [attach]: mounts, ...fields }));
    await launch(404, [{ id: foreign.id, mount_path: "/d" }]);
    await launch(404, [{ id: 1, mount_path: "/d" }]);
    await launch(400, [{ id, mount_path: "relative" }]);
    await launch(400, [{ id }]);
    await launch(400, [
      { id, mount_path: "/a" },
      { id, mount_path: "/b" },
    ]);
    await launch(400, [{ id, mount_path: "/d" }], { region_id: other.region, gpu_type: other.gpuType });
    expect(await own.get("/gpu-instances")).toEqual([]);
  });

  test("a launch makes it and charges its first day; if it is refused, nothing is made", async () => {
    const made = `new_${attach}`;
    const own = await Tenant.make({ balance_usd: 2 + 50 * price - 0.001 });
    const wanted = own.instance({ [made]: [{ name: "fresh", size_gb: 50, mount_path: "/d" }] });
    await own.refused(402, "POST", "/gpu-instances", wanted);
    expect(await own.get(path)).toEqual([]);
    await own.set({ balance_usd: 2 + 50 * price });
    const { id } = await own.post("/gpu-instances", wanted, 202);
    expect(await own.money()).toEqual({ balance: 2, held: 2 });
    await own.advance(STARTED_MS);
    const [fresh] = await own.get(path);
    expect(fresh).toMatchObject({ name: "fresh", status: "in_use" });
    await own.force(id, "lost");
    expect(await stateOf(own, fresh.id)).toBe("available");
    await own.refused(409, "POST", "/gpu-instances", wanted);
  });

  test("unpaid, it is suspended once nothing mounts it, and comes back with the credit for the owed days", async () => {
    const own = await Tenant.make({ balance_usd: 2.5 * 50 * price });
    const { id } = await make(own);
    await own.advance(2 * DAY_MS + STOPPED_MS);
    expect(await stateOf(own, id)).toBe("suspended");
    expect(await own.storage(id)).toMatchObject({ days_charged: 2, days_owed: 1 });
    await own.refused(409, "POST", "/gpu-instances", own.instance({ [attach]: [{ id, mount_path: "/d" }] }));
    await own.advance(DAY_MS);
    await own.set({ credit_usd: 100 });
    expect(await stateOf(own, id)).toBe("available");
    expect(await own.storage(id)).toMatchObject({ days_charged: 4, days_owed: 0 });
  });

  test("it can be lost, or stuck", async () => {
    const own = await Tenant.make();
    const { id } = await make(own);
    await own.force(id, "stuck");
    await own.advance(DAY_MS / 2);
    expect(await stateOf(own, id)).toBe("pending");
    await own.force(id, "unstuck");
    await own.advance(STARTED_MS);
    expect(await stateOf(own, id)).toBe("available");
    await own.force(id, "lost");
    expect(await stateOf(own, id)).toBe("lost");
    await own.refused(409, "DELETE", `${path}/${id}`);
    await own.force(id, "preempted", 400);
  });
});

test("a drive mounts to one instance, a filesystem to many; mount paths of filesystems are there once", async () => {
  const own = await Tenant.make();
  const drive = await own.drive();
  const fs = await own.filesystem({ mount_path: "/shared" });
  expect(fs.mount_path).toBe("/shared");
  const mounts = { shared_filesystems: [{ id: fs.id, mount_path: "/fs" }] };
  await own.launch({ ...mounts, cloud_drives: [{ id: drive.id, mount_path: "/d" }] });
  await own.refused(
    409,
    "POST",
    "/gpu-instances",
    own.instance({ cloud_drives: [{ id: drive.id, mount_path: "/d" }] }),
  );
  await own.launch(mounts);
  await own.advance(STARTED_MS);
  await own.launch(mounts);
  const body = { name: "other", region_id: own.region, size_gb: 50 };
  await own.refused(409, "POST", "/shared-filesystems", { ...body, mount_path: "/shared" });
  await own.refused(400, "POST", "/shared-filesystems", { ...body, mount_path: "shared" });
});

test("storage availability falls with what is made", async () => {
  const own = await Tenant.make({ region: { drive_gb: 1_000, filesystem_gb: 500 } });
  await own.drive({ size_gb: 400 });
  await own.filesystem({ size_gb: 300 });
  const rows = await own.get("/storage/availability");
  expect(rows[own.region]).toEqual({ block_available_gb: 600, fs_available_gb: 200 });
});

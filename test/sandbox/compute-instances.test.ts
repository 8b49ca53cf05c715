/** GPU instances against the contract: fields, states, money, errors. */
import { beforeAll, describe, expect, test } from "vitest";
import type { MachineExecution } from "../../sandbox/compute/executions.ts";
import { DAY_MS, HOUR_MS, listed, STARTED_MS, STOPPED_MS, Tenant } from "../support/worker/compute-client.ts";

let tenant: Tenant;
beforeAll(async () => {
  tenant = await Tenant.make({ balance_usd: 100_000, region: { node_count: 100 } });
  // The first call loads the whole sandbox.
});

const INSTANCE_FIELDS = [
  ...["id", "name", "status", "region_id", "gpu_type", "gpu_count", "container_image", "startup_command"],
  ...["init_script", "service_port", "hourly_rate_usd", "interruptible", "estimated_duration_hours", "ssh_enabled"],
  ...["ssh_tunnel_host", "ssh_tunnel_port", "ssh_ready", "jupyter_url", "created_at", "started_at", "terminated_at"],
  ...["termination_reason", "created_by_user_id"],
];
const PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me@here";

test("a launch answers the whole instance, which runs two seconds later and ends when it is terminated", async () => {
  const own = await Tenant.make();
  const launched = await own.launch({ name: "trainer", gpu_count: 2, startup_command: "run", init_script: "init" });
  expect(Object.keys(launched)).toEqual(INSTANCE_FIELDS);
  expect(launched).toMatchObject({
    name: "trainer",
    status: "pending",
    region_id: own.region,
    gpu_type: own.gpuType,
    gpu_count: 2,
    startup_command: "run",
    init_script: "init",
    service_port: null,
    hourly_rate_usd: 4,
    interruptible: false,
    estimated_duration_hours: null,
    started_at: null,
    terminated_at: null,
    termination_reason: null,
    created_by_user_id: 7,
  });
  expect(Number.isInteger(launched.id)).toBe(true);
  expect(await own.balance()).toBe(996);

  await own.advance(STARTED_MS);
  const { instance, held_amount, cloud_drives, shared_filesystems } = await own.get(`/gpu-instances/${launched.id}`);
  expect(instance.status).toBe("running");
  expect(Date.parse(instance.started_at) - Date.parse(instance.created_at)).toBe(2_000);
  expect([held_amount, cloud_drives, shared_filesystems]).toEqual([4, [], []]);

  await own.advance(HOUR_MS / 4);
  const ending = await own.post(`/gpu-instances/${launched.id}/terminate`, undefined, 202);
  expect(ending).toMatchObject({ id: launched.id, status: "terminating_requested", termination_reason: "user" });
  await own.advance(STOPPED_MS);
  const { instance: ended, held_amount: left } = await own.get(`/gpu-instances/${launched.id}`);
  expect(ended).toMatchObject({ status: "terminated", termination_reason: "user" });
  expect(left).toBe(0);

  const ran = Date.parse(ended.terminated_at) - Date.parse(ended.started_at);
  const charged = Math.ceil((4e9 * ran) / HOUR_MS) / 1e9;
  expect(await own.money()).toEqual({ balance: Math.round((1_000 - charged) * 1e9) / 1e9, held: 0 });
  expect(await own.machine(launched.id)).toMatchObject({
    name: "trainer",
    gpus: 2,
    interruptible: false,
    reason: "user",
    ms: ran,
    pod_ms: ran + 1_000,
    charged_usd: charged,
    held_usd: 0,
  });
});

describe("a launch is refused with 400", () => {
  test.each([
    ["without a region", { region_id: undefined }],
    ["in an unknown region", { region_id: "nowhere" }],
    ["without a GPU type", { gpu_type: undefined }],
    ["with another region's GPU type", { gpu_type: "H100 SXM" }],
    ["without a GPU count", { gpu_count: undefined }],
    ["with no GPU", { gpu_count: 0 }],
    ["with 9 GPUs", { gpu_count: 9 }],
    ["with a part of a GPU", { gpu_count: 1.5 }],
    ["with a GPU count as text", { gpu_count: "1" }],
    ["without an image", { container_image: undefined }],
    ["for 73 hours", { estimated_duration_hours: 73 }],
    ["for less than no time", { estimated_duration_hours: -1 }],
    ["for half an hour", { estimated_duration_hours: 0.5 }],
    ["with a port that is none", { service_port: 65_536 }],
    ["with a public key that is none", { ssh_enabled: true, ssh_public_key: "ssh-ed25519 me" }],
    ["with two public keys", { ssh_enabled: true, ssh_public_key: `${PUBLIC_KEY}\n${PUBLIC_KEY}` }],
    ["with a drive of 60 GB", { new_cloud_drives: [{ name: "d", size_gb: 60, mount_path: "/d" }] }],
    ["with a drive without a path", { new_cloud_drives: [{ name: "d", size_gb: 50 }] }],
    [
      "with two mounts at one path",
      {
        new_cloud_drives: [
          { name: "a", size_gb: 50, mount_path: "/d" },
          { name: "b", size_gb: 50, mount_path: "/d" },
        ],
      },
    ],
    ["with something else than a list of drives", { cloud_drives: { id: 1 } }],
  ])("%s", async (_, fields) => {
    await tenant.nextMinute();
    const before = await tenant.money();
    await tenant.refused(400, "POST", "/gpu-instances", tenant.instance(fields));
    expect(await tenant.money()).toEqual(before);
    expect(await tenant.get("/gpu-instances")).toEqual([]);
    expect(await tenant.get("/cloud-drives")).toEqual([]);
  });

  test("if the body is no JSON, or no object", async () => {
    for (const body of ["{", "", "[]", "null", '"text"']) await tenant.refused(400, "POST", "/gpu-instances", body);
  });

  test("if a node has fewer GPUs, or the tier is not sold", async () => {
    const small = await Tenant.make({ region: { gpu_per_node: 4, interruptible_hourly_rate_usd: null } });
    await small.refused(400, "POST", "/gpu-instances", small.instance({ gpu_count: 5 }));
    await small.refused(400, "POST", "/gpu-instances", small.instance({ interruptible: true }));
    await small.launch({ gpu_count: 4 });
  });
});

test("8 GPUs, 72 hours and the interruptible tier are sold", async () => {
  const own = await Tenant.make({ balance_usd: 576 });
  const launched = await own.launch({ gpu_count: 8, estimated_duration_hours: 72, interruptible: true });
  expect(launched).toMatchObject({ hourly_rate_usd: 8, estimated_duration_hours: 72, interruptible: true });
  expect(await own.balance()).toBe(0);
});

test("0 hours means no end time", async () => {
  const own = await Tenant.make();
  expect((await own.launch({ estimated_duration_hours: 0 })).estimated_duration_hours).toBe(null);
});

test("402 and nothing is made if the hold cannot be taken; the exact amount is enough", async () => {
  const own = await Tenant.make({ balance_usd: 5.999 });
  await own.refused(402, "POST", "/gpu-instances", own.instance({ estimated_duration_hours: 3 }));
  expect(await own.get("/gpu-instances")).toEqual([]);
  expect(await own.money()).toEqual({ balance: 5.999, held: 0 });
  await own.set({ balance_usd: 6 });
  await own.launch({ estimated_duration_hours: 3 });
  expect(await own.money()).toEqual({ balance: 6, held: 6 });
});

test("409 when fewer GPUs are free than asked for; the last ones are sold", async () => {
  const own = await Tenant.make({ region: { node_count: 1, taken_gpus: 2 } });
  await own.refused(409, "POST", "/gpu-instances", own.instance({ gpu_count: 7 }));
  const { id } = await own.launch({ gpu_count: 6 });
  const availability = () => own.get("/gpu-instances/availability").then((rows) => rows.find(isOwn).available);
  const isOwn = (row: { id: string }) => row.id === own.region;
  expect(await availability()).toBe(0);
  expect(await own.refused(409, "POST", "/gpu-instances", own.instance())).toContain("no free capacity");
  await own.advance(STARTED_MS);
  await own.post(`/gpu-instances/${id}/terminate`, undefined, 202);
  expect(await availability()).toBe(0);
  await own.advance(STOPPED_MS);
  expect(await availability()).toBe(6);
});

describe("states", () => {
  test("terminate is 409 unless it runs, and changes nothing", async () => {
    const own = await Tenant.make();
    const { id } = await own.launch();
    const state = async () => (await own.get(`/gpu-instances/${id}`)).instance.status;
    const terminate = () => own.refused(409, "POST", `/gpu-instances/${id}/terminate`);
    await terminate();
    expect(await state()).toBe("pending");
    await own.advance(STARTED_MS);
    await own.post(`/gpu-instances/${id}/terminate`, undefined, 202);
    await terminate();
    expect(await state()).toBe("terminating_requested");
    await own.advance(STOPPED_MS);
    await terminate();
    expect(await state()).toBe("terminated");
  });

  test("extend is for fixed runs: it holds the hours and moves the end", async () => {
    const own = await Tenant.make({ balance_usd: 10 });
    const hourly = await own.running();
    expect(await own.refused(400, "POST", `/gpu-instances/${hourly.id}/extend`, { hours: 1 })).toContain("no end time");
    const { id } = await own.running({ estimated_duration_hours: 1 });
    for (const hours of [0, 73, 1.5, "1", undefined]) {
      await own.refused(400, "POST", `/gpu-instances/${id}/extend`, { hours });
    }
    await own.refused(402, "POST", `/gpu-instances/${id}/extend`, { hours: 4 });
    expect(await own.post(`/gpu-instances/${id}/extend`, { hours: 3 }, 200)).toMatchObject({
      id,
      status: "running",
      estimated_duration_hours: 4,
    });
    expect((await own.get(`/gpu-instances/${id}`)).held_amount).toBe(8);
    expect(await own.balance()).toBe(0);
    await own.advance(3.9 * HOUR_MS);
    expect((await own.get(`/gpu-instances/${id}`)).instance.status).toBe("running");
    await own.advance(0.1 * HOUR_MS);
    expect((await own.get(`/gpu-instances/${id}`)).instance.termination_reason).toBe("duration_expired");
    await own.refused(409, "POST", `/gpu-instances/${id}/extend`, { hours: 1 });
  });

  test("a fixed run ends to the millisecond and is charged whole", async () => {
    const own = await Tenant.make();
    const { id } = await own.running({ estimated_duration_hours: 2 });
    await own.advance(DAY_MS);
    const { instance } = await own.get(`/gpu-instances/${id}`);
    expect(instance).toMatchObject({ status: "terminated", termination_reason: "duration_expired" });
    expect(Date.parse(instance.terminated_at) - Date.parse(instance.started_at)).toBe(2 * HOUR_MS);
    expect(await own.money()).toEqual({ balance: 996, held: 0 });
  });

  test("PATCH rebuilds a running instance: it shows pending for a while, and its billing goes on", async () => {
    const own = await Tenant.make();
    const { id, started_at } = await own.running({ startup_command: "old", init_script: "same" });
    await own.refused(400, "PATCH", `/gpu-instances/${id}`, {});
    await own.refused(400, "PATCH", `/gpu-instances/${id}`, { service_port: 0 });
    const patched = await own.send("PATCH", `/gpu-instances/${id}`, { startup_command: "new", service_port: 80 }, 200);
    expect(patched).toMatchObject({ status: "pending", startup_command: "new", service_port: 80, started_at });
    await own.refused(409, "POST", `/gpu-instances/${id}/terminate`);
    await own.refused(409, "PATCH", `/gpu-instances/${id}`, { startup_command: "newer" });
    await own.advance(STARTED_MS);
    const { instance } = await own.get(`/gpu-instances/${id}`);
    expect(instance).toMatchObject({ status: "running", started_at, init_script: "same", hourly_rate_usd: 2 });
    expect((await own.machine(id)).ms).toBeGreaterThanOrEqual(STARTED_MS);
  });

  test("DELETE hides what is terminated or failed; the id still answers", async () => {
    const own = await Tenant.make();
    const { id } = await own.running();
    await own.refused(409, "DELETE", `/gpu-instances/${id}`);
    await own.force(id, "failed");
    expect(listed(await own.get("/gpu-instances"), id).status).toBe("failed");
    await own.send("DELETE", `/gpu-instances/${id}`, undefined, 204);
    expect(await own.get("/gpu-instances")).toEqual([]);
    expect((await own.get(`/gpu-instances/${id}`)).instance.termination_reason).toBe("failed");
  });

  test("the list has what is live, and what stopped in the last 7 days", async () => {
    const own = await Tenant.make();
    const gone = await own.running({ estimated_duration_hours: 1 });
    const { id } = await own.running();
    await own.advance(HOUR_MS + 7 * DAY_MS - 60_000);
    expect((await own.get("/gpu-instances")).map((one: { id: number }) => one.id)).toEqual([id, gone.id]);
    await own.advance(60_000);
    expect((await own.get("/gpu-instances")).map((one: { id: number }) => one.id)).toEqual([id]);
    expect((await own.get(`/gpu-instances/${gone.id}`)).instance.status).toBe("terminated");
  });

  test("an interruptible instance is preempted and resumed, and is billed while it runs", async () => {
    const own = await Tenant.make();
    const { id } = await own.running({ interruptible: true });
    await own.advance(HOUR_MS / 2);
    await own.force(id, "preempted");
    const { instance, held_amount } = await own.get(`/gpu-instances/${id}`);
    expect([instance.status, held_amount]).toEqual(["preempted", 0]);
    await own.refused(409, "POST", `/gpu-instances/${id}/terminate`);
    await own.advance(DAY_MS);
    await own.force(id, "resumed");
    expect((await own.get(`/gpu-instances/${id}`)).instance.status).toBe("running");
    await own.advance(HOUR_MS / 2);
    await own.post(`/gpu-instances/${id}/terminate`, undefined, 202);
    await own.advance(STOPPED_MS);
    const { ms, runs, charged_usd } = await own.machine(id);
    expect(runs).toHaveLength(2);
    expect(ms).toBe(runs.reduce((sum, { from_ms, to_ms }) => sum + (to_ms ?? Number.NaN) - from_ms, 0));
    expect(charged_usd).toBeCloseTo(ms / HOUR_MS, 8);
    expect((await own.money()).balance).toBeCloseTo(1_000 - charged_usd, 9);
  });

  test("a fixed run that was preempted ends later by so much", async () => {
    const own = await Tenant.make();
    const { id } = await own.running({ interruptible: true, estimated_duration_hours: 2 });
    await own.advance(HOUR_MS);
    await own.force(id, "preempted");
    expect((await own.get(`/gpu-instances/${id}`)).held_amount).toBe(2);
    await own.advance(DAY_MS);
    await own.force(id, "resumed");
    await own.advance(0.9 * HOUR_MS);
    expect((await own.get(`/gpu-instances/${id}`)).instance.status).toBe("running");
    await own.advance(0.1 * HOUR_MS);
    expect(await own.machine(id)).toMatchObject({ reason: "duration_expired", ms: 2 * HOUR_MS });
  });

  test.each(["failed", "lost", "terminated"])(
    "one that is %s is charged up to then, and the rest comes back",
    async (how) => {
      const own = await Tenant.make();
      const { id } = await own.running();
      await own.advance(HOUR_MS / 2);
      await own.force(id, how);
      const row = await own.machine(id);
      expect(row.stopped_ms).toBe(row.ended_ms);
      expect(await own.money()).toEqual({ balance: 1_000 - row.charged_usd, held: 0 });
      if (how === "lost") await own.refused(404, "GET", `/gpu-instances/${id}`);
      if (how === "lost") expect(await own.get("/gpu-instances")).toEqual([]);
    },
  );

  test("one that never started costs nothing", async () => {
    const own = await Tenant.make();
    const { id } = await own.launch({ container_image: "docker.io/nobody/nothing:missing" });
    await own.advance(STARTED_MS);
    const { instance } = await own.get(`/gpu-instances/${id}`);
    expect(instance).toMatchObject({ status: "failed", termination_reason: "failed", started_at: null });
    expect(await own.money()).toEqual({ balance: 1_000, held: 0 });
    expect(await own.machine(id)).toMatchObject({ ms: 0, pod_ms: 0 });
  });

  test("one that is stuck stays pending, or terminating, until it is let go", async () => {
    const own = await Tenant.make();
    const { id } = await own.launch();
    const state = async () => (await own.get(`/gpu-instances/${id}`)).instance.status;
    await own.force(id, "stuck");
    await own.advance(DAY_MS);
    expect(await state()).toBe("pending");
    await own.force(id, "unstuck");
    await own.advance(STARTED_MS);
    expect(await state()).toBe("running");
    await own.force(id, "stuck");
    await own.post(`/gpu-instances/${id}/terminate`, undefined, 202);
    await own.advance(DAY_MS);
    expect(await state()).toBe("terminating_requested");
    expect((await own.machine(id)).ms).toBeLessThan(10_000);
  });
});

describe("hourly money", () => {
  test("each hour is charged and the next held", async () => {
    const own = await Tenant.make();
    const { id } = await own.running();
    expect(await own.money()).toEqual({ balance: 1_000, held: 2 });
    await own.advance(HOUR_MS);
    expect(await own.money()).toEqual({ balance: 998, held: 2 });
    await own.advance(5 * HOUR_MS);
    expect(await own.money()).toEqual({ balance: 988, held: 2 });
    expect((await own.get(`/gpu-instances/${id}`)).held_amount).toBe(2);
  });

  test("the last part of an hour is held, and at $0 it stops", async () => {
    const own = await Tenant.make({ balance_usd: 5 });
    const { id } = await own.running();
    await own.advance(2 * HOUR_MS);
    expect(await own.money()).toEqual({ balance: 1, held: 1 });
    await own.advance(HOUR_MS / 2 - 10_000);
    expect((await own.get(`/gpu-instances/${id}`)).instance.status).toBe("running");
    await own.force(id, "stuck");
    await own.advance(10_000);
    const { instance } = await own.get(`/gpu-instances/${id}`);
    expect(instance).toMatchObject({ status: "terminating_low_balance", termination_reason: "credit_depleted" });
    await own.force(id, "unstuck");
    await own.advance(STOPPED_MS);
    expect((await own.get(`/gpu-instances/${id}`)).instance.status).toBe("terminated");
    expect(await own.machine(id)).toMatchObject({ ms: 2.5 * HOUR_MS, charged_usd: 5 });
    expect(await own.money()).toEqual({ balance: 0, held: 0 });
  });

  test("credit that comes in time lets it run on", async () => {
    const own = await Tenant.make({ balance_usd: 3 });
    const { id } = await own.running();
    await own.advance(1.4 * HOUR_MS);
    await own.set({ credit_usd: 2 });
    await own.advance(HOUR_MS);
    expect((await own.get(`/gpu-instances/${id}`)).instance.status).toBe("running");
    await own.advance(HOUR_MS);
    expect(await own.machine(id)).toMatchObject({ reason: "credit_depleted", ms: 2.5 * HOUR_MS, charged_usd: 5 });
  });

  test("many machines share what is left in the order of time, and none is paid twice", async () => {
    const own = await Tenant.make({ balance_usd: 100_000, region: { node_count: 200 } });
    for (let index = 0; index < 40; index++) {
      if (index % 10 === 0) await own.nextMinute();
      await own.launch();
    }
    await own.set({ balance_usd: 1_000 - 80 });
    await own.advance(3 * DAY_MS);
    const rows = (await own.executions()) as MachineExecution[];
    expect(await own.money()).toEqual({ balance: expect.closeTo(0, 6), held: 0 });
    const charged = rows.reduce((sum, { charged_usd }) => sum + charged_usd, 0);
    expect(charged).toBeCloseTo(1_000, 6);
    for (const { ms, charged_usd, reason } of rows) {
      expect(reason).toBe("credit_depleted");
      expect(charged_usd).toBeCloseTo((2 * ms) / HOUR_MS, 4);
    }
  });

  test("an account that pays monthly is never refused", async () => {
    const own = await Tenant.make({ balance_usd: 0, account: { bills_monthly: true } });
    await own.running();
    await own.advance(3 * HOUR_MS);
    expect(await own.get("/billing/balance")).toMatchObject({ balance: -8, bills_monthly: true });
  });
});

test("SSH is ready two seconds after the pods run, where the image has it and a key was given", async () => {
  const own = await Tenant.make();
  const ssh = { ssh_enabled: true, ssh_public_key: PUBLIC_KEY };
  const [platform, other, without] = [
    await own.running(ssh),
    await own.running({ ...ssh, container_image: "nginx:1" }),
    await own.running({ ssh_enabled: true }),
  ];
  await own.advance(DAY_MS / 100);
  const ready = (await own.get(`/gpu-instances/${platform.id}`)).instance;
  expect(ready.ssh_ready).toBe(true);
  expect(ready.ssh_command).toBe(`ssh -p ${ready.ssh_tunnel_port} root@${ready.ssh_tunnel_host}`);
  for (const { id } of [other, without]) {
    const { instance } = await own.get(`/gpu-instances/${id}`);
    expect(instance.ssh_ready).toBe(false);
    expect(instance).not.toHaveProperty("ssh_command");
  }
  const fresh = await own.running(ssh);
  expect(fresh.ssh_ready).toBe(false);
  expect(await own.get("/ssh-keys")).toHaveLength(1);
});

test("an id that is no instance of the account is 404 on every route", async () => {
  const own = await Tenant.make();
  const foreign = await (await Tenant.make()).running();
  const cluster = await own.launchCluster();
  for (const id of [1, foreign.id, cluster.id, "x", "1.5", "-1"]) {
    const path = `/gpu-instances/${id}`;
    const texts = [
      await own.refused(404, "GET", path),
      await own.refused(404, "POST", `${path}/terminate`),
      await own.refused(404, "POST", `${path}/extend`, { hours: 1 }),
      await own.refused(404, "PATCH", path, { service_port: 80 }),
      await own.refused(404, "DELETE", path),
    ];
    expect(new Set(texts).size).toBe(1);
  }
});

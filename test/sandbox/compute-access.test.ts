/** Who may call what how often; prices, availability, balance, templates, images and SSH keys. */
import { beforeAll, describe, expect, test } from "vitest";
import { DAY_MS, HOUR_MS, listed, STARTED_MS, STOPPED_MS, Tenant } from "../support/worker/compute-client.ts";
import { call, json, post } from "../support/worker/sandbox-client.ts";

let tenant: Tenant;
beforeAll(async () => {
  tenant = await Tenant.make();
  await tenant.set({ keys: KEYS });
  // The first call loads the whole sandbox.
});

const KEYS = [
  { key: "k-admin", user: 8, role: "admin" },
  { key: "k-member", user: 9, role: "member" },
  { key: "k-no-scope", scopes: ["inference"] },
  { key: "k-revoked", state: "revoked" },
  { key: "k-expired", state: "expired" },
  { key: "k-left", state: "not_member" },
];

/** Every route of the contract but the prices, which need no key, and billing, which needs no scope. */
const COMPUTE_ROUTES = [
  ...["GET /gpu-instances/availability", "GET /storage/availability", "GET /gpu-instances", "POST /gpu-instances"],
  ...["GET /gpu-instances/1", "POST /gpu-instances/1/terminate", "POST /gpu-instances/1/extend"],
  ...[
    "PATCH /gpu-instances/1",
    "DELETE /gpu-instances/1",
    "GET /gpu-instances/1/service/",
    "PUT /gpu-instances/1/service/x",
  ],
  ...["GET /gpu-clusters", "POST /gpu-clusters", "GET /gpu-clusters/1", "POST /gpu-clusters/1/scale"],
  ...["POST /gpu-clusters/1/extend", "GET /gpu-clusters/1/replicas", "GET /gpu-clusters/1/shared-filesystems"],
  ...["DELETE /gpu-clusters/1", "GET /gpu-clusters/1/service/", "GET /cloud-drives", "POST /cloud-drives"],
  ...["DELETE /cloud-drives/1", "GET /shared-filesystems", "POST /shared-filesystems", "DELETE /shared-filesystems/1"],
  ...["GET /container-images", "GET /container-images/1", "POST /container-images", "PUT /container-images/1"],
  ...["DELETE /container-images/1", "GET /ssh-keys", "POST /ssh-keys", "DELETE /ssh-keys/1", "GET /compute-templates"],
  ...["GET /compute-templates/public", "GET /compute-templates/1", "POST /compute-templates/quote"],
].map((route) => route.split(" ") as [string, string]);
const BILLING_ROUTES = [
  ["GET", "/billing/balance"],
  ["GET", "/billing/transactions"],
] as const;

describe("access", () => {
  test.each([...COMPUTE_ROUTES, ...BILLING_ROUTES])("%s %s needs a live key", async (method, path) => {
    for (const key of ["", "k-unknown", "k-revoked", "k-expired"])
      await tenant.refused(401, method, path, undefined, key);
    expect(await tenant.refused(403, method, path, undefined, "k-left")).toContain("member");
  });

  test.each(COMPUTE_ROUTES)("%s %s needs the scope and an account with access", async (method, path) => {
    expect(await tenant.refused(403, method, path, undefined, "k-no-scope")).toContain("no compute scope");
    expect(await tenant.refused(403, method, path, undefined, "sandbox-other-key")).toContain(
      "lacks Compute API access",
    );
  });

  test("the prices need no key, billing neither scope nor access", async () => {
    expect((await json(call("/platform/gpu-prices", {}, ""))).length).toBeGreaterThan(1);
    expect(await tenant.get("/billing/balance", 200, "k-no-scope")).toMatchObject({ balance: 1_000 });
    expect(await tenant.get("/billing/balance", 200, "sandbox-other-key")).toMatchObject({ balance: 0 });
  });

  test("owners and admins delete filesystems, owners read transactions, members do the rest", async () => {
    const own = await Tenant.make();
    const [admin, member] = [`${own.key}-admin`, `${own.key}-member`];
    await own.set({
      keys: [
        { key: admin, user: 8, role: "admin" },
        { key: member, user: 9, role: "member" },
      ],
    });
    const [one, two, drive] = [await own.filesystem(), await own.filesystem(), await own.drive()];
    expect(await own.refused(403, "DELETE", `/shared-filesystems/${one.id}`, undefined, member)).toContain("role");
    await own.refused(404, "DELETE", "/shared-filesystems/1", undefined, member);
    await own.send("DELETE", `/shared-filesystems/${one.id}`, undefined, 202, admin);
    await own.send("DELETE", `/shared-filesystems/${two.id}`, undefined, 202);
    await own.send("DELETE", `/cloud-drives/${drive.id}`, undefined, 202, member);
    for (const key of [admin, member]) await own.refused(403, "GET", "/billing/transactions", undefined, key);
    expect((await own.get("/billing/transactions")).map(({ type }: { type: string }) => type)).toEqual([
      "charge",
      "charge",
      "charge",
      "credit",
    ]);
    const launched = await own.post("/gpu-instances", own.instance(), 202, member);
    expect(launched.created_by_user_id).toBe(9);
    expect(listed(await own.get("/gpu-instances"), launched.id).created_by_user_id).toBe(9);
  });

  test("a key that is revoked while it works gets 401 from then on", async () => {
    const own = await Tenant.make();
    await own.get("/gpu-instances");
    await own.set({ keys: [{ key: own.key, state: "revoked" }] });
    await own.refused(401, "GET", "/gpu-instances");
  });

  test("a path or method that is not there is 404 in the contract's shape", async () => {
    const own = await Tenant.make();
    await own.refused(404, "GET", "/gpu-instances/1/nothing");
    await own.refused(404, "PUT", "/gpu-instances");
    await own.refused(404, "GET", "/cloud-drives/1");
  });
});

describe("limits", () => {
  test("60 calls a minute and key, refused ones too; then 429 with Retry-After, by the account's clock", async () => {
    const own = await Tenant.make();
    const second = `${own.key}-2`;
    await own.set({ keys: [{ key: second }] });
    await Promise.all(Array.from({ length: 58 }, () => own.get("/gpu-instances")));
    await own.refused(404, "GET", "/gpu-instances/1");
    await own.refused(400, "POST", "/gpu-instances", {});
    const refused = await call("/gpu-instances", {}, own.key);
    expect(refused.status).toBe(429);
    const after = Number(refused.headers.get("retry-after"));
    expect(after).toBeGreaterThan(30);
    expect(after).toBeLessThanOrEqual(60);
    expect(Object.keys((await refused.json()) as object)).toEqual(["error"]);
    await own.get("/gpu-instances", 200, second);
    await json(call("/platform/gpu-prices", {}, own.key));
    await own.advance(after * 1_000);
    await own.get("/gpu-instances");
    expect((await own.calls()).filter(({ counted }) => counted)).toHaveLength(62);
  });

  test("10 launches a minute and account, instances and clusters together, whichever key", async () => {
    const own = await Tenant.make({ region: { node_count: 10 } });
    const second = `${own.key}-2`;
    await own.set({ keys: [{ key: second }] });
    const launches = Array.from({ length: 12 }, (_, index) => {
      const [path, body] = index % 2 ? ["/gpu-clusters", own.cluster()] : ["/gpu-instances", own.instance()];
      return post(String(path), body, {}, index % 3 ? own.key : second);
    });
    const statuses = (await Promise.all(launches)).map(({ status }) => status);
    expect(statuses.sort()).toEqual([...Array(10).fill(202), 429, 429]);
    await own.refused(400, "POST", "/gpu-instances", own.instance({ gpu_count: 9 }));
    const again = await post("/gpu-instances", own.instance(), {}, own.key);
    expect([again.status, Number(again.headers.get("retry-after")) > 0]).toEqual([429, true]);
    await own.nextMinute();
    await own.launch();
  });

  test("a launch that is refused for its money or capacity is none of the ten", async () => {
    const own = await Tenant.make({ balance_usd: 21 });
    for (let index = 0; index < 3; index++)
      await own.refused(
        402,
        "POST",
        "/gpu-instances",
        own.instance({ gpu_count: 16 / 2, estimated_duration_hours: 2 }),
      );
    for (let index = 0; index < 10; index++) await own.launch();
    await own.refused(429, "POST", "/gpu-instances", own.instance());
  });
});

describe("market", () => {
  test("availability and prices have a row for each region and each GPU type", async () => {
    const own = await Tenant.make({ region: { interruptible_hourly_rate_usd: null, vram_gb: 141 } });
    const row = (await own.get("/gpu-instances/availability")).find(({ id }: { id: string }) => id === own.region);
    expect(row).toEqual({
      id: own.region,
      name: own.region,
      gpu_type: own.gpuType,
      gpu_per_node: 8,
      total_nodes: 4,
      node_count: 2,
      available: 16,
      vcpu_per_gpu: 16,
      ram_gb_per_gpu: 128,
      scratch_disk_gib: 500,
    });
    const prices = await own.get("/platform/gpu-prices");
    expect(prices.find(({ gpu_type }: { gpu_type: string }) => gpu_type === own.gpuType)).toEqual({
      gpu_type: own.gpuType,
      display_name: own.gpuType,
      hourly_rate_usd: 2,
      interruptible_hourly_rate_usd: null,
      vram_gb: 141,
    });
  });

  test("the balance is net of holds; transactions are what was booked, newest first", async () => {
    const own = await Tenant.make({ balance_usd: 10 });
    await own.running({ estimated_duration_hours: 2 });
    expect(await own.get("/billing/balance")).toEqual({
      balance: 6,
      account_id: expect.any(Number),
      bills_monthly: false,
    });
    await own.advance(2 * HOUR_MS + STOPPED_MS);
    const [charge, credit] = await own.get("/billing/transactions");
    expect([charge.amount, charge.balance, credit.amount, credit.balance]).toEqual([-4, 6, 10, 10]);
  });
});

describe("templates", () => {
  test("they are listed, read, and give a launch its defaults", async () => {
    const own = await Tenant.make();
    const all = await own.get("/compute-templates");
    expect(await own.get("/compute-templates/public")).toEqual(all);
    expect(await own.get(`/compute-templates/${all[0].id}`)).toEqual(all[0]);
    await own.refused(404, "GET", "/compute-templates/99");
    const fields = { region_id: own.region, gpu_type: own.gpuType, gpu_count: 1, template_id: 2 };
    const launched = await own.post("/gpu-instances", fields, 202);
    expect(launched).toMatchObject({ container_image: "platform/jupyter:4", service_port: 8888 });
    expect(launched.jupyter_url).toMatch(/^https:/);
    expect(await own.post("/gpu-instances", { ...fields, service_port: 80 }, 202)).toMatchObject({ service_port: 80 });
    await own.refused(404, "POST", "/gpu-instances", own.instance({ template_id: 99 }));
    await own.refused(400, "POST", "/gpu-instances", own.instance({ template_id: "2" }));
  });

  test("a template of an account is seen by that account alone", async () => {
    const [own, other] = [await Tenant.make(), await Tenant.make()];
    const template = { id: 500, account: own.account, name: "ours", defaults: { container_image: "ours:1" } };
    await json(post("/_sandbox/compute/templates", template), 201);
    const shown = { id: 500, name: "ours", description: "", public: false, container_image: "ours:1" };
    expect(await own.get("/compute-templates")).toContainEqual(shown);
    expect(await own.get("/compute-templates/500")).toEqual(shown);
    expect(await own.get("/compute-templates/public")).not.toContainEqual(shown);
    expect(await other.get("/compute-templates")).not.toContainEqual(shown);
    await other.refused(404, "GET", "/compute-templates/500");
    await other.refused(404, "POST", "/gpu-instances", other.instance({ template_id: 500 }));
  });

  test("a quote is what the launch would hold", async () => {
    const own = await Tenant.make();
    const fields = { region_id: own.region, gpu_count: 2, replicas: 3, estimated_duration_hours: 5 };
    const quote = await own.post("/compute-templates/quote", fields, 200);
    expect(quote).toEqual({ gpu_type: own.gpuType, hourly_rate_usd: 12, held_usd: 60, total_usd: 60 });
    await own.launchCluster(fields);
    expect((await own.money()).held).toBe(60);
    await own.refused(400, "POST", "/compute-templates/quote", { ...fields, region_id: "nowhere" });
    await own.refused(404, "POST", "/compute-templates/quote", { ...fields, template_id: 99 });
  });
});

describe("container images", () => {
  const image = { name: "mine", registry_url: "registry.example/team/private/app:1" };
  const pair = { registry_username: "bot", registry_secret: "s3cret-token" };

  test("a registration shows everything but the secret, in any answer and in the log", async () => {
    const own = await Tenant.make();
    const made = await own.post("/container-images", { ...image, ...pair }, 201);
    expect(made).toEqual({
      id: expect.any(Number),
      ...image,
      registry_username: "bot",
      has_credentials: true,
      created_at: expect.any(String),
    });
    expect(await own.get(`/container-images/${made.id}`)).toEqual(made);
    expect(await own.get("/container-images")).toEqual([made]);
    expect(JSON.stringify([await own.calls(), await own.executions()])).not.toContain("s3cret-token");
    await own.send("DELETE", `/container-images/${made.id}`, undefined, 204);
    await own.refused(404, "GET", `/container-images/${made.id}`);
    await own.refused(404, "DELETE", `/container-images/${made.id}`);
    expect(await own.get("/container-images")).toEqual([]);
  });

  test("one half of a pair, a missing field and a registry of short-lived tokens are 400", async () => {
    const own = await Tenant.make();
    await own.refused(400, "POST", "/container-images", { ...image, registry_username: "bot" });
    await own.refused(400, "POST", "/container-images", { ...image, registry_secret: "s" });
    await own.refused(400, "POST", "/container-images", { ...image, registry_username: "bot", registry_secret: "" });
    await own.refused(400, "POST", "/container-images", { name: "mine" });
    await own.refused(400, "POST", "/container-images", { registry_url: "a/b" });
    const ecr = { name: "ecr", registry_url: "123456789012.dkr.ecr.us-east-1.amazonaws.com/app:1" };
    await own.refused(400, "POST", "/container-images", { ...ecr, ...pair });
    const { id } = await own.post("/container-images", ecr, 201);
    await own.refused(400, "PUT", `/container-images/${id}`, pair);
    const other = await own.post("/container-images", image, 201);
    await own.refused(400, "PUT", `/container-images/${other.id}`, { registry_secret: "s" });
    await own.refused(400, "PUT", `/container-images/${other.id}`, {});
  });

  test("PUT renames, replaces the credential, removes it, and a launch pulls with what is stored then", async () => {
    const own = await Tenant.make();
    const { id } = await own.post("/container-images", { ...image, ...pair }, 201);
    const change = (fields: object) => own.send("PUT", `/container-images/${id}`, fields, 200);
    const pulled = async () => {
      const launched = await own.launch({ container_image: image.registry_url });
      await own.advance(STARTED_MS);
      const { pulled_as, state } = await own.machine(launched.id);
      return [pulled_as?.username, state];
    };
    expect(await change({ name: "renamed" })).toMatchObject({ name: "renamed", has_credentials: true });
    expect(await pulled()).toEqual(["bot", "running"]);
    await change({ registry_username: "bot2", registry_secret: "other" });
    expect(await pulled()).toEqual(["bot2", "running"]);
    const bare = await change({ registry_username: "", registry_secret: "" });
    expect(bare.has_credentials).toBe(false);
    expect(bare).not.toHaveProperty("registry_username");
    expect(await pulled()).toEqual([undefined, "failed"]);
  });

  test("a credential goes to its own registry, account and exact reference only", async () => {
    const [own, other] = [await Tenant.make(), await Tenant.make()];
    const { id } = await own.post("/container-images", { ...image, ...pair }, 201);
    const pulledAs = async (who: Tenant, container_image: string) =>
      (await who.machine((await who.launch({ container_image })).id)).pulled_as;
    expect(await pulledAs(own, image.registry_url)).toMatchObject({ username: "bot" });
    expect(await pulledAs(own, "registry.example/team/private/app:2")).toBe(null);
    expect(await pulledAs(other, image.registry_url)).toBe(null);
    await own.send("PUT", `/container-images/${id}`, { registry_url: "evil.example/app:1" }, 200);
    expect(await pulledAs(own, "evil.example/app:1")).toBe(null);
    await other.refused(404, "PUT", `/container-images/${id}`, { name: "theirs" });
  });

  test("a secret that the registry rejects is 400 at the launch and at a rebuild, and nothing is held", async () => {
    const own = await Tenant.make();
    await own.post("/container-images", { ...image, registry_username: "bot", registry_secret: "bad-token" }, 201);
    await own.refused(400, "POST", "/gpu-instances", own.instance({ container_image: image.registry_url }));
    expect(await own.money()).toEqual({ balance: 1_000, held: 0 });
    const { id } = await own.running();
    await own.refused(400, "PATCH", `/gpu-instances/${id}`, { container_image: image.registry_url });
    expect((await own.get(`/gpu-instances/${id}`)).instance.status).toBe("running");
  });
});

describe("SSH keys", () => {
  const PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me@here";

  test("a key is saved with its fingerprint, once, also by a launch", async () => {
    const own = await Tenant.make();
    const made = await own.post("/ssh-keys", { name: "laptop", public_key: PUBLIC_KEY }, 201);
    expect(made).toEqual({
      id: expect.any(Number),
      name: "laptop",
      // What `ssh-keygen -lf` says of this key.
      fingerprint: "SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA",
      public_key: PUBLIC_KEY,
      created_at: expect.any(String),
    });
    const same = PUBLIC_KEY.replace("me@here", "elsewhere");
    expect(await own.post("/ssh-keys", { name: "again", public_key: same }, 201)).toEqual(made);
    const { id } = await own.launch({ ssh_enabled: true, ssh_public_key: same });
    expect(await own.get("/ssh-keys")).toEqual([made]);
    await own.send("DELETE", `/ssh-keys/${made.id}`, undefined, 204);
    await own.refused(404, "DELETE", `/ssh-keys/${made.id}`);
    expect(await own.get("/ssh-keys")).toEqual([]);
    await own.advance(DAY_MS / 24);
    expect((await own.get(`/gpu-instances/${id}`)).instance.ssh_ready).toBe(true);
    await own.launch({ ssh_public_key: PUBLIC_KEY, name: "second" });
    expect(await own.get("/ssh-keys")).toMatchObject([{ name: "second" }]);
  });

  test("what is no OpenSSH line, or has no name, is 400; another account's key is 404", async () => {
    const own = await Tenant.make();
    for (const public_key of ["", "x", "ssh-rsa AAAA", "ssh-dss AAAAB3NzaC1kc3M=", `x ${PUBLIC_KEY}`, 5]) {
      await own.refused(400, "POST", "/ssh-keys", { name: "n", public_key });
    }
    await own.refused(400, "POST", "/ssh-keys", { public_key: PUBLIC_KEY });
    const { id } = await own.post("/ssh-keys", { name: "n", public_key: PUBLIC_KEY }, 201);
    await (await Tenant.make()).refused(404, "DELETE", `/ssh-keys/${id}`);
  });
});

/**
 * Two tenants, an upstream each, who do the same at the same time; and a key that is revoked while its launch is made.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { fingerprint } from "../../../sandbox/seed.ts";
import { type Instance, Renter, type StorageShown } from "../../support/compute/renter.ts";
import { ED25519 } from "../../support/compute/ssh-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import { world } from "../../support/world.ts";

const at = world();
const IMAGE = "ghcr.io/team/app:1";

beforeAll(async () => {
  for (const kind of ["drive", "filesystem"]) {
    const prices = { storage_gb_days: { cost_usd: 0.01, price_usd: 0.02 } };
    await at.operator.call("PUT", `/models/storage%2F${kind}`, { kind: "storage", prices });
  }
});

/** The same names, path, reference and key, with a secret of its own: the ids are the same then too. */
async function settle(renter: Renter, secret: string): Promise<void> {
  const drives = Array.from({ length: 9 }, (_, n) => renter.drive({ name: `disk ${n}` }));
  const made = (await Promise.all(drives)).map(({ status }) => status);
  expect(made.filter((status) => status === 202)).toHaveLength(8);
  expect((await renter.filesystem({ mount_path: "/data" })).status).toBe(202);
  const registered = { name: "app", registry_url: IMAGE, registry_username: "robot", registry_secret: secret };
  expect((await renter.send("POST", "/container-images", registered)).status).toBe(201);
  const filesystem = await eventually(
    "the filesystem is available",
    async () => {
      const { body } = await renter.send<StorageShown[]>("GET", "/shared-filesystems");
      return body.find(({ status }) => status === "available");
    },
    { withinMs: 40_000, everyMs: 1_200 },
  );
  const launched = await renter.launch({
    container_image: IMAGE,
    ssh_enabled: true,
    ssh_public_key: ED25519,
    shared_filesystems: [{ id: filesystem.id, mount_path: "/data" }],
  });
  expect([launched.status, launched.body]).toEqual([202, expect.objectContaining({ name: "mine" })]);
}

const machines = async (renter: Renter): Promise<Instance[]> =>
  (await renter.send<Instance[]>("GET", "/gpu-instances")).body;

describe.concurrent("on upstreams of their own", () => {
  test("two tenants have 8 drives each, the same paths, key and reference, and each its own secret", async () => {
    const both = await Promise.all([Renter.make(at, 100), Renter.make(at, 100)]);
    const secrets = both.map(() => `secret-${unique("seat")}-`.padEnd(48, "0123456789abcdef"));
    await Promise.all(both.map((renter, index) => settle(renter, secrets[index] ?? "")));
    for (const [index, renter] of both.entries()) {
      const [ran, ...others] = await renter.sandbox.executions(renter.seat);
      expect(others).toEqual([]);
      expect(ran?.pulled_as).toEqual({ username: "robot", secret: fingerprint(secrets[index] ?? "") });
      // Upstream each filesystem has a path of its own; the attachment has the tenant's.
      const kept = await renter.sandbox.storage(renter.seat);
      expect(kept).toHaveLength(9);
      expect(kept.find(({ kind }) => kind === "filesystem")?.mount_path).toMatch(/^\/mnt\/\d+$/);
    }
    const [one, other] = both;
    const [own, its] = [await machines(one), await machines(other)];
    expect(own.map(({ id }) => id)).toEqual(its.map(({ id }) => id));
    const [id = 0] = own.map((machine) => machine.id);
    await Promise.all(both.map((renter) => renter.until(id, "running")));
    // The same id is another machine for each: one's end is not the other's.
    expect((await one.send("POST", `/gpu-instances/${id}/terminate`)).status).toBe(202);
    const stops = async () =>
      (await one.sandbox.executions(one.seat)).every(({ end_asked_ms }) => end_asked_ms !== null);
    await eventually("its stop is taken", stops, { withinMs: 20_000 });
    expect((await other.get(id)).status).toBe("running");
    expect((await other.sandbox.executions(other.seat)).map(({ state }) => state)).toEqual(["running"]);
    await at.operator.call("POST", `/accounts/${other.tenant.account}/compute/stop`);
  });

  test("a launch whose key is revoked before its answer stands, and is another key's to end", async () => {
    const renter = await Renter.make(at, 100);
    const { account } = renter.tenant;
    const key = await at.operator.key(account, { scopes: ["compute"] });
    const ask = (method: string, path: string, body?: unknown) =>
      fetch(`${at.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
    await renter.sandbox.fault(renter.seat, { fault: "late", ms: 2_500, times: 1 }, { method: "POST" });
    const machine = {
      region_id: renter.region,
      gpu_type: `GPU ${renter.region}`,
      gpu_count: 1,
      container_image: "a:1",
    };
    const launched = ask("POST", "/gpu-instances", machine);
    // Before it is sent a revoked key launches nothing.
    const sent = async () => (await renter.sandbox.executions(renter.seat)).length === 1;
    await eventually("upstream has it", sent, { withinMs: 20_000 });
    await at.operator.ask("DELETE", `/accounts/${account}/keys/${key.id}`);
    expect((await ask("GET", "/gpu-instances")).status).toBe(401);
    expect((await launched).status).toBe(202);
    expect((await ask("POST", "/gpu-instances/1000/terminate")).status).toBe(401);
    await renter.until(1000, "running");
    expect((await renter.send("POST", "/gpu-instances/1000/terminate")).status).toBe(202);
    await renter.until(1000, "terminated");
    expect(await renter.tenant.audit()).toMatchObject({ ok: true, problems: [], open_holds: 0 });
    expect(await renter.tenant.charges()).toHaveLength(1);
  });
});

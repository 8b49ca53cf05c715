/** Launch templates, quotes and GPU prices: what tenants see of them is what launches do. */
import { beforeAll, describe, expect, test } from "vitest";
import { PRICE, Renter } from "../../support/compute/renter.ts";
import { eventually } from "../../support/eventually.ts";
import { world } from "../../support/world.ts";

const process = world();
const { operator } = process;

interface Template {
  readonly id: number;
  readonly name: string;
  readonly public: boolean;
}

let renter: Renter;
let other: Renter;
/** Ids of templates that no other file uses. */
let next = 7_000_000;

beforeAll(async () => {
  renter = await Renter.make(process, 1_000);
  other = await Renter.make(process, 1_000);
});

async function made(defaults: object, fields: object = {}): Promise<number> {
  const id = next++;
  await operator.call("PUT", `/compute-templates/${id}`, { name: `t${id}`, defaults, ...fields });
  return id;
}
const machine = () => ({ region_id: renter.region, gpu_type: `GPU ${renter.region}`, gpu_count: 2 });

describe("the operator's templates", () => {
  test("are put, read, listed and deleted", async () => {
    const body = { name: "PyTorch", description: null, account: null, defaults: { container_image: "torch:2" } };
    const path = `/compute-templates/${next++}`;
    const put = await operator.call("PUT", path, body);
    expect(put).toMatchObject(body);
    expect(await operator.call("GET", path)).toEqual(put);
    expect((await operator.call<{ data: unknown[] }>("GET", "/compute-templates?limit=1000")).data).toContainEqual(put);
    const changed = await operator.call("PUT", path, { ...body, name: "other" });
    expect(changed).toEqual({ ...put, name: "other" });
    expect((await operator.ask("DELETE", path)).status).toBe(200);
    expect((await operator.ask("GET", path)).status).toBe(404);
    expect((await operator.ask("DELETE", path)).status).toBe(404);
  });

  test.each<[string, string, object, string]>([
    ["an id that is none", "/compute-templates/x", {}, "id"],
    ["a field of a launch that is somebody's own", "", { ssh_public_key: "ssh-ed25519 A" }, "ssh_public_key"],
    ["storage", "", { cloud_drives: [{ id: 1 }] }, "cloud_drives"],
    ["a value that no launch takes", "", { gpu_count: 9 }, "gpu_count"],
    ["more than 8 kB", "", { init_script: "x".repeat(5_000), startup_command: "y".repeat(5_000) }, "8192"],
    ["8 kB of wide characters", "", { init_script: "€".repeat(3_000) }, "8192"],
  ])("refuse %s", async (_, path, defaults, word) => {
    const answer = await operator.ask("PUT", path || `/compute-templates/${next++}`, { name: "x", defaults });
    expect([answer.status, JSON.stringify(answer.body)]).toEqual([400, expect.stringContaining(word)]);
  });

  test("go with the account that they are for, and need one that lives", async () => {
    const gone = await operator.tenant();
    const id = await made({}, { account: gone.account });
    await operator.call("DELETE", `/accounts/${gone.account}`);
    expect((await operator.ask("GET", `/compute-templates/${id}`)).status).toBe(404);
    const body = { name: "x", defaults: {}, account: gone.account };
    expect((await operator.ask("PUT", `/compute-templates/${id}`, body)).status).toBe(400);
  });
});

describe("a tenant", () => {
  test("sees everybody's templates and its own account's; another's is the 404 of an unknown one", async () => {
    const [common, own] = [await made({ gpu_count: 1 }), await made({}, { account: renter.tenant.account })];
    const ids = async (who: Renter, path = "") =>
      (await who.send<Template[]>("GET", `/compute-templates${path}`)).body.map(({ id }) => id);
    expect(await ids(renter)).toEqual(expect.arrayContaining([common, own]));
    expect(await ids(renter, "/public")).not.toContain(own);
    expect(await ids(other)).not.toContain(own);
    expect(await renter.send("GET", `/compute-templates/${common}`)).toMatchObject({
      status: 200,
      body: { id: common, public: true, defaults: { gpu_count: 1 } },
    });
    const [foreign, unknown] = await Promise.all(
      [own, 6_999_999].map((id) => other.send("GET", `/compute-templates/${id}`)),
    );
    expect(foreign?.status).toBe(404);
    expect(foreign?.body).toEqual(unknown?.body);
    const launched = await other.launch({ template_id: own });
    expect([launched.status, launched.body]).toEqual([404, unknown?.body]);
  });

  test("launches from a template: it fills what the body leaves out, and the quote is the hold", async () => {
    const id = await made({ ...machine(), container_image: "torch:2", estimated_duration_hours: 3, replicas: 2 });
    const quoted = await renter.send("POST", "/compute-templates/quote", { template_id: id, replicas: null });
    expect(quoted).toMatchObject({
      status: 200,
      body: { gpu_count: 2, replicas: 1, hourly_rate_usd: 2 * PRICE, held_amount: 6 * PRICE },
    });
    const instance = await renter.send("POST", "/gpu-instances", { template_id: id, name: "from a template" });
    expect(instance).toMatchObject({
      status: 202,
      body: { name: "from a template", container_image: "torch:2", gpu_count: 2, estimated_duration_hours: 3 },
    });
    expect(await renter.send("GET", `/gpu-instances/${instance.body.id}`)).toMatchObject({
      body: { held_amount: 6 * PRICE },
    });
    const cluster = { template_id: id, gpu_count: 1, estimated_duration_hours: 1 };
    expect(await renter.send("POST", "/compute-templates/quote", cluster)).toMatchObject({
      body: { replicas: 2, held_amount: 2 * PRICE },
    });
    const before = (await renter.tenant.audit()).held_usd;
    expect(await renter.send("POST", "/gpu-clusters", cluster)).toMatchObject({ status: 202, body: { replicas: 2 } });
    expect((await renter.tenant.audit()).held_usd - before).toBeCloseTo(2 * PRICE, 9);
    // Storage that the launch makes is held for a day with it. The price is the one of all files that share the process.
    for (const kind of ["drive", "filesystem"]) {
      const prices = { storage_gb_days: { cost_usd: 0.01, price_usd: 0.02 } };
      await operator.call("PUT", `/models/storage%2F${kind}`, { kind: "storage", prices });
    }
    const storage = {
      new_cloud_drives: [{ name: "a", size_gb: 50, mount_path: "/a" }],
      new_shared_filesystems: [{ name: "b", size_gb: 100 }],
    };
    const withStorage = await renter.send<{ held_amount: number; storage_daily_usd: number }>(
      "POST",
      "/compute-templates/quote",
      { template_id: id, replicas: null, ...storage },
    );
    expect(withStorage.body).toMatchObject({ storage_daily_usd: 3, held_amount: 6 * PRICE + 3 });
    const held = async () => (await renter.tenant.audit()).held_usd;
    const heldBefore = await held();
    expect((await renter.send("POST", "/gpu-instances", { template_id: id, ...storage })).status).toBe(202);
    // A day is charged as soon as its storage stands: then it is held no more.
    await eventually("held and charged are the quote", async () => {
      const days = (await renter.tenant.charges()).filter(({ model }) => model?.startsWith("storage/"));
      const charged = 0 - days.reduce((sum, { amount_usd }) => sum + amount_usd, 0);
      return Math.abs((await held()) - heldBefore + charged - withStorage.body.held_amount) < 1e-9;
    });
    // Upstream has templates of its own; our ids mean nothing there.
    const [sent] = await renter.sandbox.executions(renter.seat);
    expect(sent).toMatchObject({ gpus: 2 });
  });

  test("repeats a launch from a template that was changed since, and gets the same instance", async () => {
    const id = await made({ ...machine(), container_image: "torch:2" });
    const launch = () =>
      renter.send("POST", "/gpu-instances", { template_id: id }, { "idempotency-key": `template ${id}` });
    const first = await launch();
    const defaults = { ...machine(), gpu_count: 1, container_image: "other:1" };
    await operator.call("PUT", `/compute-templates/${id}`, { name: "x", defaults });
    expect(await launch()).toMatchObject({ status: 202, body: { id: first.body.id, container_image: "torch:2" } });
  });

  test("is told of an unknown template before anything else in the body, and of a value that is no id", async () => {
    expect(await renter.send("POST", "/gpu-instances", { template_id: 6_999_999 })).toMatchObject({
      status: 404,
      body: { error: expect.stringContaining("GET /compute-templates") },
    });
    expect((await renter.send("POST", "/compute-templates/quote", { template_id: 6_999_999 })).status).toBe(404);
    expect(await renter.send("POST", "/gpu-clusters", { template_id: "1" })).toMatchObject({ status: 400 });
    expect((await renter.send("GET", "/compute-templates/01")).status).toBe(404);
  });
});

describe("GET /billing", () => {
  test("has entries of compute that name what was rented, for owners; the balance needs no scope and no role", async () => {
    const owned = await Renter.make(process, 10);
    const { account } = owned.tenant;
    const launched = await owned.launch({ name: "trainer" });
    await owned.until(launched.body.id, "running");
    await owned.send("POST", `/gpu-instances/${launched.body.id}/terminate`);
    await owned.until(launched.body.id, "terminated");
    const owner = await operator.key(account, { role: "owner" });
    const read = async (key: string, path: string) => {
      const response = await fetch(`${operator.url}/billing${path}`, { headers: { authorization: `Bearer ${key}` } });
      return { status: response.status, body: await response.json() };
    };
    const { body } = await read(owner.key, "/transactions");
    expect(body).toMatchObject([
      {
        kind: "charge",
        model: `gpu/${encodeURIComponent(`GPU ${owned.region}`)}`,
        key: owned.tenant.keyId,
        resource: { kind: "instance", id: launched.body.id, name: "trainer" },
      },
      { kind: "top_up", amount: 10, resource: null },
    ]);
    const [charge] = body as { amount: number; balance: number; request_id: string }[];
    expect(charge?.request_id).toMatch(/^cmp-\d+-1000-1$/);
    expect(charge?.amount).toBeLessThan(0);
    const member = await operator.key(account);
    expect(await read(member.key, "/balance")).toMatchObject({
      status: 200,
      body: { balance: charge?.balance, account_id: expect.any(Number), bills_monthly: false },
    });
    expect(await read(member.key, "/transactions")).toEqual({
      status: 403,
      body: { error: expect.stringContaining("account owners") },
    });
    const [entry] = await owned.tenant.ledger();
    expect(entry?.resource).toEqual({ kind: "instance", id: 1000, name: "trainer" });
  });
});

describe("GET /platform/gpu-prices", () => {
  interface Price {
    readonly gpu_type: string;
    readonly hourly_rate_usd: number;
    readonly interruptible_hourly_rate_usd: number | null;
  }
  const prices = async (headers: Record<string, string> = {}): Promise<Map<string, Price>> => {
    const response = await fetch(`${operator.url}/platform/gpu-prices`, { headers });
    expect(response.status).toBe(200);
    return new Map(((await response.json()) as Price[]).map((row) => [row.gpu_type, row]));
  };
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

  test("shows a live key's account what it pays; without one, and to a dead one, only prices that tell no cost", async () => {
    const [fixed, plain] = [`GPU ${renter.region}`, `plain ${renter.region}`];
    const model = (type: string) => `/models/${encodeURIComponent(`gpu/${encodeURIComponent(type)}`)}`;
    const costs = { gpu_hours: { cost_usd: 2 }, interruptible_gpu_hours: { cost_usd: 1 } };
    await operator.call("PUT", model(plain), { kind: "gpu", prices: costs });
    const { account } = other.tenant;
    await operator.call("PATCH", `/accounts/${account}`, {
      plan: { markup_percent: 50, overrides: { [`gpu/${encodeURIComponent(fixed)}`]: { gpu_hours: 2.5 } } },
    });
    const dead = await operator.key(account);
    await operator.call("DELETE", `/accounts/${account}/keys/${dead.id}`);
    for (const headers of [{}, bearer(dead.key), bearer("sk-tg-nonsense"), { authorization: "Basic eDp5" }]) {
      const shown = await prices(headers);
      expect(shown.get(fixed)?.hourly_rate_usd).toBe(PRICE);
      expect(shown.has(plain)).toBe(false);
    }
    // Any live key: the prices need no scope.
    for (const { key } of [other.tenant, await operator.key(account)]) {
      const shown = await prices(bearer(key));
      expect(shown.get(fixed)?.hourly_rate_usd).toBe(2.5);
      expect(shown.get(plain)).toMatchObject({ hourly_rate_usd: 3, interruptible_hourly_rate_usd: 1.5 });
    }
    const quote = { region_id: other.region, gpu_type: `GPU ${other.region}`, gpu_count: 1 };
    expect((await other.send("POST", "/compute-templates/quote", quote)).body).toMatchObject({ held_amount: PRICE });
  });
});

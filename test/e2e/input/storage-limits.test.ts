/**
 * The contract's limits and errors of storage, images, keys and templates through the real process;
 * compute-limits.test.ts has those of machines. A new limit or error is a row of a table here.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { Renter } from "../../support/compute/renter.ts";
import { ED25519 } from "../../support/compute/ssh-keys.ts";
import { world } from "../../support/world.ts";

const process = world();
const { operator } = process;
/** An id that nobody has. */
const NONE = 999_999;
const SIZES = [50, 100, 200, 300, 400, 500];
const NO_SIZES = [0, 1, 49, 51, 150, 499, 501, 1_000, -50, 50.5, "50", null, true];

let renter: Renter;
let drive: number;
let image: number;

beforeAll(async () => {
  for (const kind of ["drive", "filesystem"]) {
    const prices = { storage_gb_days: { cost_usd: 0.01, price_usd: 0.02 } };
    await operator.call("PUT", `/models/storage%2F${kind}`, { kind: "storage", prices });
  }
  renter = await Renter.make(process, 10_000);
  drive = (await renter.drive()).body.id;
  await renter.filesystem({ mount_path: "/mnt/data" });
  const registered = { name: "base", registry_url: "registry.example.com/team/base:1" };
  image = (await renter.send("POST", "/container-images", registered)).body.id;
  await renter.untilStorage("/cloud-drives", drive, "available");
});

interface Answer {
  readonly status: number;
  readonly body: unknown;
}
/** With a key of its own: each has 60 calls a minute. */
async function send(method: string, path: string, body?: unknown, fields: object = {}): Promise<Answer> {
  const { key } = await operator.key(renter.tenant.account, { scopes: ["compute"], role: "owner", ...fields });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
  const response = await fetch(`${operator.url}${path}`, init);
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : null };
}

describe.each(["/cloud-drives", "/shared-filesystems"])("a limit of %s, at it and one beyond", (path) => {
  test("size_gb is one of 50, 100, 200, 300, 400 and 500, alone and in a launch", async () => {
    const own = await Renter.make(process, 10_000);
    const made = path === "/cloud-drives" ? "new_cloud_drives" : "new_shared_filesystems";
    const body = { region_id: own.region };
    for (const size_gb of NO_SIZES) {
      const refused = await own.send("POST", path, { ...body, name: "no", size_gb });
      expect([refused.status, refused.body], `${size_gb}`).toEqual([
        400,
        { error: expect.stringContaining("size_gb") },
      ]);
      const launch = await own.launch({ [made]: [{ name: "no", size_gb, mount_path: "/d" }] });
      expect(launch.status, `${size_gb}`).toBe(400);
    }
    expect(await own.tenant.audit()).toMatchObject({ open_holds: 0 });
    for (const size_gb of SIZES) {
      expect((await own.send("POST", path, { ...body, name: `s${size_gb}`, size_gb })).status).toBe(202);
    }
    expect(await own.tenant.audit()).toMatchObject({ open_holds: 6, held_usd: 1_550 * 0.02 });
  });

  test("an account has eight and no ninth, made alone or by a launch", async () => {
    const own = await Renter.make(process, 10_000);
    const made = path === "/cloud-drives" ? "new_cloud_drives" : "new_shared_filesystems";
    const fresh = (name: string) => ({ name, size_gb: 50, mount_path: `/${name}` });
    for (let at = 0; at < 6; at++) {
      const { status } = await own.send("POST", path, { name: `n${at}`, region_id: own.region, size_gb: 50 });
      expect(status).toBe(202);
    }
    const beyond = await own.launch({ [made]: ["a", "b", "c"].map(fresh) });
    expect([beyond.status, beyond.body]).toEqual([409, { error: expect.stringMatching(/has 8 .*Delete one first/) }]);
    expect((await own.launch({ [made]: ["a", "b"].map(fresh) })).status).toBe(202);
    const ninth = await own.send("POST", path, { name: "n9", region_id: own.region, size_gb: 50 });
    expect([ninth.status, ninth.body]).toEqual([409, { error: expect.stringMatching(/has 8 .*Delete one first/) }]);
  });
});

interface Case {
  readonly status: number;
  readonly why: string;
  readonly text: RegExp;
  readonly send: () => Promise<Answer>;
}
const create = (path: string, fields: object = {}) =>
  send("POST", path, { name: "other", region_id: renter.region, size_gb: 50, ...fields });
const attach = (id: number, fields: object = {}) =>
  renter.launch({ cloud_drives: [{ id, mount_path: "/disk" }], ...fields });
const register = (fields: object) =>
  send("POST", "/container-images", { name: "x", registry_url: "registry.example.com/team/x:1", ...fields });

const CASES: readonly Case[] = [
  ...["/cloud-drives", "/shared-filesystems"].flatMap((path): Case[] => [
    { status: 400, why: `POST ${path}: no name`, text: /name/, send: () => create(path, { name: undefined }) },
    { status: 400, why: `POST ${path}: an empty name`, text: /name/, send: () => create(path, { name: "" }) },
    {
      status: 400,
      why: `POST ${path}: an unknown region`,
      text: /region_id/,
      send: () => create(path, { region_id: "nowhere" }),
    },
    { status: 404, why: `DELETE ${path}: unknown`, text: /GET \//, send: () => send("DELETE", `${path}/${NONE}`) },
  ]),
  {
    status: 400,
    why: "POST /shared-filesystems: a relative mount path",
    text: /mount_path/,
    send: () => create("/shared-filesystems", { mount_path: "data" }),
  },
  {
    status: 402,
    why: "POST /cloud-drives: less than a day's money",
    text: /needs a hold of/,
    send: async () => (await Renter.make(process, 0.99)).drive(),
  },
  {
    status: 403,
    why: "DELETE /shared-filesystems: a member's key",
    text: /role/,
    send: () => send("DELETE", `/shared-filesystems/${drive + 1}`, undefined, { role: "member" }),
  },
  {
    status: 403,
    why: "GET /billing/transactions: not an owner's key",
    text: /role|owner/,
    send: () => send("GET", "/billing/transactions", undefined, { role: "admin" }),
  },
  {
    status: 403,
    why: "POST /cloud-drives: no scope",
    text: /no compute scope/,
    send: () => send("POST", "/cloud-drives", { name: "a" }, { scopes: ["inference"] }),
  },
  {
    status: 404,
    why: "a drive's id as a filesystem's",
    text: /filesystem/,
    send: () => send("DELETE", `/shared-filesystems/${drive}`),
  },
  { status: 404, why: "a launch with an unknown drive", text: /drive/, send: () => attach(NONE) },
  {
    status: 404,
    why: "a launch with a filesystem's id as a drive's",
    text: /drive/,
    send: () => attach(drive + 1),
  },
  {
    status: 409,
    why: "POST /cloud-drives: a duplicate name",
    text: /name already exists/,
    send: () => create("/cloud-drives", { name: "disk" }),
  },
  {
    status: 409,
    why: "POST /shared-filesystems: a duplicate mount path, written otherwise",
    text: /mount path already exists/,
    send: () => create("/shared-filesystems", { mount_path: "/mnt//data/" }),
  },
  {
    status: 409,
    why: "DELETE /cloud-drives: pending",
    text: /not available/,
    send: async () => {
      const { body } = await create("/cloud-drives", { name: "new" });
      return send("DELETE", `/cloud-drives/${(body as { id: number }).id}`);
    },
  },
  {
    status: 409,
    why: "DELETE /cloud-drives: attached",
    text: /currently attached/,
    send: async () => {
      expect((await attach(drive)).status).toBe(202);
      return send("DELETE", `/cloud-drives/${drive}`);
    },
  },
  {
    status: 409,
    why: "a launch with a drive that another has",
    text: /another instance/,
    send: () => attach(drive),
  },
  {
    status: 400,
    why: "POST /container-images: no URL",
    text: /registry_url/,
    send: () => register({ registry_url: 1 }),
  },
  {
    status: 400,
    why: "POST /container-images: half a credential",
    text: /registry_secret/,
    send: () => register({ registry_username: "robot" }),
  },
  {
    status: 400,
    why: "POST /container-images: the other half",
    text: /registry_username/,
    send: () => register({ registry_secret: "hush" }),
  },
  {
    status: 400,
    why: "POST /container-images: a registry of tokens for 12 hours",
    text: /12 hours|expire/,
    send: () =>
      register({
        registry_url: "123456789012.dkr.ecr.eu-central-1.amazonaws.com/a:1",
        registry_username: "AWS",
        registry_secret: "hush",
      }),
  },
  {
    status: 400,
    why: "PUT /container-images: half a credential",
    text: /registry_secret/,
    send: () => send("PUT", `/container-images/${image}`, { registry_username: "robot" }),
  },
  {
    status: 404,
    why: "GET /container-images: unknown",
    text: /image/,
    send: () => send("GET", `/container-images/${NONE}`),
  },
  {
    status: 404,
    why: "PUT /container-images: unknown",
    text: /image/,
    send: () => send("PUT", `/container-images/${NONE}`, { name: "x" }),
  },
  {
    status: 404,
    why: "DELETE /container-images: unknown",
    text: /image/,
    send: () => send("DELETE", `/container-images/${NONE}`),
  },
  {
    status: 409,
    why: "POST /container-images: a reference twice",
    text: /registry_url already exists/,
    send: () => register({ registry_url: "registry.example.com/team/base:1" }),
  },
  {
    status: 400,
    why: "POST /ssh-keys: no key line",
    text: /public_key/,
    send: () => send("POST", "/ssh-keys", { name: "k", public_key: "ssh-ed25519 AAAA" }),
  },
  {
    status: 400,
    why: "POST /ssh-keys: two lines",
    text: /public_key/,
    send: () => send("POST", "/ssh-keys", { name: "k", public_key: `${ED25519}\n${ED25519}` }),
  },
  { status: 404, why: "DELETE /ssh-keys: unknown", text: /SSH key/, send: () => send("DELETE", `/ssh-keys/${NONE}`) },
  {
    status: 404,
    why: "GET /compute-templates: unknown",
    text: /template/,
    send: () => send("GET", `/compute-templates/${NONE}`),
  },
  {
    status: 404,
    why: "a launch from an unknown template",
    text: /template/,
    send: () => renter.launch({ template_id: NONE }),
  },
];

describe("each status of the contract's errors", () => {
  test.each(CASES)("$status: $why", async ({ status, text, send: asked }) => {
    const answer = await asked();
    expect([answer.status, answer.body]).toEqual([status, { error: expect.stringMatching(text) }]);
  });

  test("429 beyond 60 calls a minute of a key, refused ones too, says when to come back", async () => {
    const { key } = await operator.key(renter.tenant.account, { scopes: ["compute"] });
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const ask = () => fetch(`${operator.url}/ssh-keys/${NONE}`, { method: "DELETE", headers });
    const askWrongly = () => fetch(`${operator.url}/cloud-drives`, { method: "POST", headers, body: "{}" });
    const answers = await Promise.all(Array.from({ length: 60 }, (_, at) => (at % 2 ? ask() : askWrongly())));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([400, 404]));
    const beyond = await ask();
    expect([beyond.status, Number(beyond.headers.get("retry-after")) > 0]).toEqual([429, true]);
    expect(await beyond.json()).toEqual({ error: expect.stringContaining("60") });
  });

  test("what was refused left nothing: the books hold the drives, the filesystem and one machine", async () => {
    const shown = await send("GET", "/cloud-drives");
    expect((shown.body as { name: string }[]).map(({ name }) => name).sort()).toEqual(["disk", "new"]);
    expect(((await send("GET", "/shared-filesystems")).body as unknown[]).length).toBe(1);
    expect(((await send("GET", "/container-images")).body as unknown[]).length).toBe(1);
    expect(((await send("GET", "/gpu-instances")).body as unknown[]).length).toBe(1);
    expect(await renter.tenant.audit()).toMatchObject({ ok: true, problems: [] });
  });
});

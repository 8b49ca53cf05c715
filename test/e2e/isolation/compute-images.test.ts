/** Container images of accounts: a registry secret lives in one request, for one host, and comes back nowhere. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { fingerprint } from "../../../sandbox/seed.ts";
import { Renter } from "../../support/compute/renter.ts";
import { eventually } from "../../support/eventually.ts";
import { unique } from "../../support/operator.ts";
import { world } from "../../support/world.ts";

const at = world();

interface Image {
  readonly id: number;
  readonly name: string;
  readonly registry_url: string;
  readonly registry_username?: string;
  readonly has_credentials: boolean;
  readonly created_at: string;
}

const secretOf = (name: string) => `secret-${unique(name)}-`.padEnd(48, "0123456789abcdef");
const pair = (secret: string, user = "robot") => ({ registry_username: user, registry_secret: secret });
const post = (renter: Renter, body: unknown) => renter.send<Image>("POST", "/container-images", body);
const put = (renter: Renter, id: number, body: unknown) => renter.send<Image>("PUT", `/container-images/${id}`, body);
const list = async (renter: Renter) => (await renter.send<Image[]>("GET", "/container-images")).body;
const errorOf = ({ status, body }: { status: number; body: unknown }) => [status, (body as { error: string }).error];
const sent = async (renter: Renter) =>
  (await renter.sandbox.calls(renter.seat)).filter(
    ({ path, method }) => path.startsWith("/container-images") && method !== "GET",
  );
/** What upstream has, by its own word. */
const upstreamList = async (renter: Renter) => {
  const response = await fetch(`${at.sandboxUrl}/container-images`, {
    headers: { authorization: `Bearer key-${renter.seat}` },
  });
  return (await response.json()) as (Image & { name: string })[];
};

function filesWith(needle: string): string[] {
  const files = readdirSync(join(at.stateDir, "gateway"), { recursive: true, withFileTypes: true });
  return files
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => contentOf(file).includes(needle));
}
function contentOf(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch {
    return Buffer.alloc(0);
  }
}

describe.concurrent("container images", () => {
  test("are registered, changed and removed, in the contract's shape and under our ids and names", async () => {
    const renter = await Renter.make(at, 1);
    const secret = secretOf("shape");
    const made = await post(renter, { name: "mine", registry_url: "ghcr.io/team/app:1", ...pair(secret) });
    const document = {
      id: 1000,
      name: "mine",
      registry_url: "ghcr.io/team/app:1",
      registry_username: "robot",
      has_credentials: true,
      created_at: expect.stringMatching(/Z$/),
    };
    expect([made.status, made.body]).toEqual([201, document]);
    const plain = await post(renter, { name: "public", registry_url: "app:1" });
    const publicOne = { id: 1001, name: "public", registry_url: "app:1", has_credentials: false };
    expect([plain.status, plain.body]).toEqual([201, { ...publicOne, created_at: document.created_at }]);
    expect((await list(renter)).map(({ id }) => id).sort()).toEqual([1000, 1001]);
    expect((await renter.send("GET", "/container-images/1000")).body).toEqual(document);
    // A rename needs no token, and upstream hears nothing of it.
    expect(await put(renter, 1000, { name: "renamed" })).toMatchObject({ status: 200, body: { name: "renamed" } });
    expect(await put(renter, 1000, pair(secretOf("new"), "other"))).toMatchObject({
      status: 200,
      body: { name: "renamed", registry_username: "other", has_credentials: true },
    });
    const removed = await put(renter, 1000, { registry_username: "", registry_secret: "" });
    expect(removed.body).toEqual({
      id: 1000,
      name: "renamed",
      registry_url: "ghcr.io/team/app:1",
      has_credentials: false,
      created_at: document.created_at,
    });
    expect((await renter.send("DELETE", "/container-images/1000")).status).toBe(204);
    expect((await renter.send("GET", "/container-images/1000")).status).toBe(404);
    expect((await renter.send("DELETE", "/container-images/1000")).status).toBe(404);
    const upstream = await upstreamList(renter);
    expect(upstream.map(({ name, registry_url }) => [name, registry_url])).toEqual([
      [expect.stringMatching(/^tg[0-9a-f]{6}-\d+-1001-[a-z2-7]{6}$/), "app:1"],
    ]);
    expect((await sent(renter)).map(({ method }) => method)).toEqual(["POST", "POST", "PUT", "PUT", "DELETE"]);
  });

  test.each([
    ["one half", { registry_username: "robot" }, "together"],
    ["an empty half", { registry_username: "robot", registry_secret: "" }, "together"],
    ["a scheme", { registry_url: "https://ghcr.io/app:1" }, "image reference"],
    ["a user in the reference", { registry_url: "robot:secret@ghcr.io/app:1" }, "image reference"],
    [
      "a registry whose tokens end",
      { registry_url: "123456789012.dkr.ecr.eu-west-1.amazonaws.com/a", ...pair("x") },
      "12",
    ],
    ["a number for a secret", { registry_username: "robot", registry_secret: 13_371_337 }, "registry_secret"],
    ["a long secret", pair("x".repeat(16_001)), "registry_secret"],
    ["no name", { name: undefined }, "name"],
  ])("with %s are 400, and nothing goes upstream", async (_, fields, text) => {
    const renter = await Renter.make(at, 1);
    const refused = await post(renter, { name: "a", registry_url: "ghcr.io/app:1", ...fields });
    expect(errorOf(refused)).toEqual([400, expect.stringContaining(text)]);
    expect(JSON.stringify(refused.body)).not.toContain("13371337");
    expect(await sent(renter)).toEqual([]);
    expect(await list(renter)).toEqual([]);
  });

  test("move no stored credential to another host; each reference is registered once", async () => {
    const renter = await Renter.make(at, 1);
    await post(renter, { name: "a", registry_url: "x:1", ...pair(secretOf("host")) });
    const count = (await sent(renter)).length;
    const moved = { registry_url: "evil.example/x:1" };
    expect(errorOf(await put(renter, 1000, moved))).toEqual([400, expect.stringContaining("one registry")]);
    expect(errorOf(await post(renter, { name: "b", registry_url: "x:1" }))).toEqual([409, expect.any(String)]);
    expect(await sent(renter)).toHaveLength(count);
    expect((await put(renter, 1000, { registry_url: "index.docker.io/x:1" })).status).toBe(200);
    expect((await put(renter, 1000, { ...moved, registry_username: "", registry_secret: "" })).status).toBe(200);
    expect((await put(renter, 1000, { registry_url: "x:1", ...pair(secretOf("again")) })).status).toBe(200);
    expect((await upstreamList(renter)).map(({ registry_url }) => registry_url)).toEqual(["x:1"]);
  });

  test("whose secret the registry rejects fail the launch: 400, our ids, the hold released", async () => {
    const renter = await Renter.make(at, 100);
    await post(renter, { name: "first", registry_url: "other:1" });
    await post(renter, { name: "a", registry_url: "ghcr.io/app:1", ...pair("bad-secret-of-mine") });
    const refused = await renter.launch({ container_image: "ghcr.io/app:1" });
    expect(errorOf(refused)).toEqual([400, expect.stringMatching(/rejected the stored credential of image 1001\b/)]);
    expect(JSON.stringify(refused.body)).not.toContain("bad-secret");
    expect(await renter.tenant.audit()).toMatchObject({ open_holds: 0, held_usd: 0 });
    expect((await renter.send("GET", "/gpu-instances")).body).toEqual([]);
  });

  test("with a lost answer: found in the list, or 504 and sent again; never twice upstream", async () => {
    const renter = await Renter.make(at, 1);
    const fault = (kind: string, method: string) =>
      renter.sandbox.fault(renter.seat, { fault: kind, times: 1 }, { method, path: "/container-images" });
    const body = { name: "a", registry_url: "ghcr.io/app:1", ...pair(secretOf("lost")) };
    await fault("lost_answer", "POST");
    expect(await post(renter, body)).toMatchObject({ status: 201, body: { id: 1000, has_credentials: true } });
    await fault("reset", "POST");
    const second = { ...body, registry_url: "ghcr.io/app:2" };
    expect(errorOf(await post(renter, second))).toEqual([504, expect.stringContaining("Send it again")]);
    expect(await list(renter)).toHaveLength(1);
    expect((await post(renter, second)).status).toBe(201);
    expect(await upstreamList(renter)).toHaveLength(2);
    // A new user shows in the list; a new secret alone does not.
    await fault("lost_answer", "PUT");
    expect(await put(renter, 1000, pair(secretOf("b"), "new"))).toMatchObject({ body: { registry_username: "new" } });
    await fault("lost_answer", "PUT");
    expect((await put(renter, 1000, pair(secretOf("c"), "new"))).status).toBe(504);
    // Until upstream's state is proven, nothing relies on the stored credential.
    expect((await put(renter, 1000, { registry_url: "ghcr.io/app:3" })).status).toBe(400);
    expect((await put(renter, 1000, pair(secretOf("c"), "new"))).status).toBe(200);
    expect((await put(renter, 1000, { registry_url: "ghcr.io/app:3" })).status).toBe(200);
  });

  test("refused by upstream leave nothing, and its words tell nothing of the credential", async () => {
    const renter = await Renter.make(at, 1);
    const secret = secretOf("echo");
    const echo = { fault: "status", status: 400, body: { error: `bad login robot:${secret}` }, times: 1 };
    await renter.sandbox.fault(renter.seat, echo, { method: "POST" });
    const refused = await post(renter, { name: "a", registry_url: "ghcr.io/app:1", ...pair(secret) });
    expect(refused.status).toBe(400);
    expect(JSON.stringify(refused.body)).not.toContain(secret);
    for (const [status, told] of [
      [503, 503],
      [401, 503],
      [403, 503],
    ]) {
      await renter.sandbox.fault(renter.seat, { fault: "status", status, times: 1 }, { method: "POST" });
      expect((await post(renter, { name: "a", registry_url: "ghcr.io/app:1", ...pair(secret) })).status).toBe(told);
    }
    expect(await list(renter)).toEqual([]);
    expect((await post(renter, { name: "a", registry_url: "ghcr.io/app:1", ...pair(secret) })).status).toBe(201);
  });

  test("are deleted upstream until a list no longer shows them", async () => {
    const renter = await Renter.make(at, 1);
    await post(renter, { name: "a", registry_url: "ghcr.io/app:1", ...pair(secretOf("delete")) });
    await renter.sandbox.fault(renter.seat, { fault: "status", status: 500, times: 2 }, { method: "DELETE" });
    expect((await renter.send("DELETE", "/container-images/1000")).status).toBe(204);
    expect(await list(renter)).toEqual([]);
    // Its log of calls is read, not its list: the reads would use up the calls a minute that the deletes need.
    const deletes = async () => (await sent(renter)).filter(({ method }) => method === "DELETE");
    await eventually("a delete is executed", async () => (await deletes()).some(({ executed }) => executed), {
      withinMs: 12_000,
    });
    expect((await deletes()).map(({ executed }) => executed)).toEqual([false, false, true]);
    expect(await upstreamList(renter)).toEqual([]);
    expect((await post(renter, { name: "b", registry_url: "ghcr.io/app:1" })).status).toBe(201);
  });

  test("of two accounts on two upstreams: the same reference, two secrets, each other's ids", async () => {
    const [one, other] = [await Renter.make(at, 100), await Renter.make(at, 100)];
    const reference = "ghcr.io/team/app:1";
    const secrets = [secretOf("one"), secretOf("other")] as const;
    await post(one, { name: "first", registry_url: "x:1" });
    await post(one, { name: "a", registry_url: reference, ...pair(secrets[0]) });
    await post(other, { name: "a", registry_url: reference, ...pair(secrets[1]) });
    for (const [method, body] of [["GET"], ["PUT", { name: "stolen" }], ["DELETE"]] as const) {
      const foreign = await other.send(method, "/container-images/1001", body);
      const random = await other.send(method, "/container-images/999999", body);
      expect([foreign.status, foreign.body]).toEqual([404, random.body]);
    }
    for (const [renter, secret] of [
      [one, secrets[0]],
      [other, secrets[1]],
    ] as const) {
      expect((await renter.launch({ container_image: reference })).status).toBe(202);
      const [machine] = await renter.sandbox.executions(renter.seat);
      expect(machine?.pulled_as).toEqual({ username: "robot", secret: fingerprint(secret) });
    }
  });

  test("on a shared upstream are rows only: no credential, no call upstream", async () => {
    const one = await Renter.make(at, 1, { shared: true });
    const other = await Renter.on(at, one.seat, one.region, 1);
    const body = { name: "a", registry_url: "ghcr.io/app:1" };
    expect(errorOf(await post(one, { ...body, ...pair(secretOf("shared")) }))).toEqual([400, expect.any(String)]);
    expect((await post(one, body)).status).toBe(201);
    expect((await post(other, body)).status).toBe(201);
    expect((await put(one, 1000, pair(secretOf("shared")))).status).toBe(400);
    expect(await put(one, 1000, { registry_url: "quay.io/app:1" })).toMatchObject({
      status: 200,
      body: { registry_url: "quay.io/app:1" },
    });
    expect(await list(other)).toMatchObject([{ id: 1000, registry_url: "ghcr.io/app:1" }]);
    expect((await one.send("DELETE", "/container-images/1000")).status).toBe(204);
    expect(await sent(one)).toEqual([]);
  });

  test("are any role's", async () => {
    const renter = await Renter.make(at, 1);
    const member = await at.operator.key(renter.tenant.account, { scopes: ["compute"], role: "member" });
    const response = await fetch(`${at.url}/container-images`, {
      method: "POST",
      headers: { authorization: `Bearer ${member.key}`, "content-type": "application/json" },
      body: JSON.stringify({ name: "a", registry_url: "ghcr.io/app:1", ...pair(secretOf("role")) }),
    });
    expect(response.status).toBe(201);
  });
});

test("no secret stands in any store, log or answer, whatever became of its request", async () => {
  const renter = await Renter.make(at, 100);
  const secret = secretOf("nowhere");
  const answers: unknown[] = [];
  const both = async (body: Record<string, unknown>) => answers.push(await post(renter, { name: "a", ...body }));
  const fault = (fields: object) =>
    renter.sandbox.fault(renter.seat, { times: 1, ...fields }, { path: "/container-images" });
  await both({ registry_url: "ghcr.io/a:1", ...pair(secret) });
  await both({ registry_url: "ghcr.io/a:1", ...pair(secret) });
  await both({ registry_url: `https://${secret}@ghcr.io/a:1`, ...pair(secret) });
  await both({ registry_url: "ghcr.io/a:2", registry_secret: secret });
  await both({ registry_url: "ghcr.io/a:2", registry_username: { a: secret }, registry_secret: [secret] });
  for (const kind of ["lost_answer", "reset"]) {
    await fault({ fault: kind });
    await both({ registry_url: `ghcr.io/${kind.replace("_", "-")}:1`, ...pair(secret) });
  }
  await fault({ fault: "status", status: 200, executed: true, body: { id: 1, name: secret, registry_secret: secret } });
  await both({ registry_url: "ghcr.io/a:4", ...pair(secret) });
  await fault({ fault: "status", status: 500, body: secret });
  answers.push(await put(renter, 1000, pair(secret)));
  answers.push(await put(renter, 1000, pair(secret, "other")));
  answers.push(await renter.send("POST", "/container-images", `{"registry_secret": "${secret}`));
  answers.push(
    await renter.send(
      "POST",
      "/container-images",
      { name: "a", registry_url: "b:1", ...pair(secret) },
      {
        "idempotency-key": "once",
      },
    ),
  );
  // An upstream that shows the secret in its list.
  const lie = [{ id: 77, name: "by hand", registry_url: "a:1", registry_secret: secret }];
  await fault({ fault: "status", status: 200, body: lie });
  await at.operator.call("POST", `/compute/${renter.seat}/reconcile`);
  answers.push(await list(renter));
  answers.push(await at.operator.call("GET", "/events?limit=100"), await renter.tenant.audit());
  answers.push(await at.operator.call("GET", `/accounts/${renter.tenant.account}/compute`));
  expect(JSON.stringify(answers)).not.toContain(secret);
  // What is kept is found: the search would see the secret.
  expect(filesWith(renter.tenant.account)).not.toEqual([]);
  expect(filesWith(secret)).toEqual([]);
  expect(readFileSync(at.logFile).includes(secret)).toBe(false);
});

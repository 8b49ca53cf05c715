/** SSH keys of accounts: their own rows, by fingerprint, with the contract's objects and statuses. */
import { describe, expect, test } from "vitest";
import { Renter } from "../../support/compute/renter.ts";
import { ED25519, MADE_KEYS } from "../../support/compute/ssh-keys.ts";
import { world } from "../../support/world.ts";

const at = world();

interface SshKey {
  readonly id: number;
  readonly name: string;
  readonly fingerprint: string;
  readonly public_key: string;
  readonly created_at: string;
}

const [, RSA = ["", "", ""], ECDSA = ["", "", ""]] = MADE_KEYS;
const add = (renter: Renter, name: string, public_key: unknown) =>
  renter.send<SshKey>("POST", "/ssh-keys", { name, public_key });
const list = async (renter: Renter) => (await renter.send<SshKey[]>("GET", "/ssh-keys")).body;
const upstreamKeys = async (renter: Renter) =>
  (await renter.sandbox.calls(renter.seat)).filter(
    ({ path, method }) => path.startsWith("/ssh-keys") && method !== "GET",
  );

describe.concurrent("SSH keys", () => {
  test("are kept once by fingerprint, shown as the contract says, and never sent upstream", async () => {
    const renter = await Renter.make(at, 1);
    const first = await add(renter, "laptop", `${RSA[1]}\n`);
    expect(first).toEqual({
      status: 201,
      headers: expect.anything(),
      body: {
        id: 1000,
        name: "laptop",
        fingerprint: RSA[2],
        public_key: RSA[1],
        created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      },
    });
    const again = await add(renter, "other name", RSA[1].replace(" a b", " other comment"));
    expect([again.status, again.body]).toEqual([201, first.body]);
    const second = await add(renter, "desk", ECDSA[1]);
    expect(second).toMatchObject({ status: 201, body: { id: 1001, fingerprint: ECDSA[2] } });
    expect((await list(renter)).map(({ id }) => id).sort()).toEqual([1000, 1001]);
    expect((await renter.send("DELETE", "/ssh-keys/1000")).status).toBe(204);
    expect((await renter.send("DELETE", "/ssh-keys/1000")).status).toBe(404);
    expect(await list(renter)).toEqual([second.body]);
    // A key that was removed may come back, under a new id.
    expect(await add(renter, "laptop", RSA[1])).toMatchObject({ status: 201, body: { id: 1002 } });
    expect(await upstreamKeys(renter)).toEqual([]);
  });

  test.each([
    ["options", `no-pty ${ED25519}`],
    ["two lines", `${ED25519}\n${ED25519}`],
    ["a lie about the type", ED25519.replace("ssh-ed25519", "ssh-rsa")],
    ["a private key", "-----BEGIN OPENSSH PRIVATE KEY-----\nYQ==\n-----END OPENSSH PRIVATE KEY-----"],
    ["200 KB", `${ED25519} ${"x".repeat(200_000)}`],
    ["a number", 7],
    ["nothing", undefined],
  ])("with %s are 400, in a launch too, and cost nothing", async (_, line) => {
    const renter = await Renter.make(at, 10);
    const refused = await add(renter, "k", line);
    expect([refused.status, Object.keys(refused.body)]).toEqual([400, ["error"]]);
    expect(JSON.stringify(refused.body)).toContain("public_key");
    if (line !== undefined) expect((await renter.launch({ ssh_public_key: line })).status).toBe(400);
    expect(await list(renter)).toEqual([]);
    expect(await renter.tenant.audit()).toMatchObject({ open_holds: 0, held_usd: 0 });
  });

  test("a launch saves its key, and sends that one alone", async () => {
    const renter = await Renter.make(at, 100);
    await add(renter, "unused", ECDSA[1]);
    const launched = await renter.launch({ ssh_enabled: true, ssh_public_key: `${ED25519}\r\n` });
    expect(launched).toMatchObject({ status: 202, body: { id: 1001, ssh_enabled: true } });
    await renter.launch({ ssh_enabled: true, ssh_public_key: ED25519 });
    const keys = await list(renter);
    expect(keys.map(({ id, name, public_key }) => [id, name, public_key])).toEqual([
      [1002, "a b", ED25519],
      [1000, "unused", ECDSA[1]],
    ]);
    const creates = (await renter.sandbox.calls(renter.seat)).filter(({ method }) => method === "POST");
    expect(creates.map(({ path }) => path)).toEqual(["/gpu-instances", "/gpu-instances"]);
  });

  test("of a launch that upstream refuses are not saved", async () => {
    const renter = await Renter.make(at, 100);
    await renter.sandbox.region(renter.region, {
      gpu_type: `GPU ${renter.region}`,
      hourly_rate_usd: 2,
      taken_gpus: 999,
    });
    expect((await renter.launch({ ssh_enabled: true, ssh_public_key: ED25519 })).status).toBe(409);
    expect(await list(renter)).toEqual([]);
  });

  test("of a launch without an answer are saved all the same", async () => {
    const renter = await Renter.make(at, 100);
    await renter.sandbox.fault(renter.seat, { fault: "lost_answer", times: 1 }, { method: "POST" });
    expect((await renter.launch({ ssh_public_key: ED25519 })).status).toBe(202);
    expect(await list(renter)).toMatchObject([{ public_key: ED25519 }]);
  });

  test.each([
    ["one shared upstream", true],
    ["two upstreams", false],
  ])("of two accounts on %s are apart: the same key, each other's ids", async (_, shared) => {
    const one = await Renter.make(at, 100, { shared });
    const other = shared ? await Renter.on(at, one.seat, one.region, 100) : await Renter.make(at, 100);
    await add(one, "mine", RSA[1]);
    await add(one, "first", ED25519);
    expect(await list(other)).toEqual([]);
    const random = await other.send("DELETE", "/ssh-keys/999999");
    const foreign = await other.send("DELETE", "/ssh-keys/1001");
    expect([foreign.status, foreign.body]).toEqual([404, random.body]);
    // An id of another kind is no key.
    expect(await add(other, "also mine", RSA[1])).toMatchObject({ body: { id: 1000, name: "also mine" } });
    expect((await other.send("GET", "/gpu-instances/1000")).status).toBe(404);
    expect((await other.send("DELETE", "/ssh-keys/1000")).status).toBe(204);
    expect(await list(one)).toHaveLength(2);
  });

  test("are any role's, and need the scope", async () => {
    const renter = await Renter.make(at, 1);
    const member = await at.operator.key(renter.tenant.account, { scopes: ["compute"], role: "member" });
    const plain = await at.operator.key(renter.tenant.account, {});
    const ask = (key: string) =>
      fetch(`${at.url}/ssh-keys`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ name: "k", public_key: ED25519 }),
      });
    expect([(await ask(member.key)).status, (await ask(plain.key)).status]).toEqual([201, 403]);
  });
});

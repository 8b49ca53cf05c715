import { env, exports } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { shapeKey } from "../../src/core/account/api-key.ts";
import { type AccountNumber, asId, type KeyDigest } from "../../src/core/ids.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";

afterAll(settled);

const bad = (param: string | null) => refusal(400, "invalid_request_error", param);

let number: AccountNumber;
beforeAll(async () => {
  const account = await done("POST", "/accounts", { id: "acme", name: "Acme", balance_usd: 1, compute_enabled: true });
  number = asId<AccountNumber>(account.number);
  await done("POST", "/accounts", { id: "other", name: "Other" });
});

async function digestOf(key: string): Promise<KeyDigest> {
  const outcome = await readSecrets(env);
  if (!outcome.ok) throw new Error(outcome.fault.message);
  return outcome.secrets.digestOf(key);
}
/** What the account object says to this secret. */
const permit = async (key: string) => accountObject(env, number).authorize(await digestOf(key));

describe("keys", () => {
  it("a key is made with what its body says; its secret is in that answer alone", async () => {
    const team = await done("POST", "/accounts/acme/teams", { name: "Research" });
    const body = {
      name: "laptop",
      team: team.id,
      user: 12,
      role: "admin",
      scopes: ["inference", "compute"],
      models: ["chat", "llama-*"],
      expires_at: "2031-05-01T00:00:00+02:00",
      metadata: { owner: "ada" },
      rpm_limit: 5,
      max_budget: 1.5,
    };
    const made = await call("POST", "/accounts/acme/keys", body);
    expect(made).toMatchObject({
      status: 201,
      body: {
        ...body,
        id: expect.stringMatching(/^key_[0-9A-Za-z]{16}$/),
        expires_at: "2031-04-30T22:00:00.000Z",
        last_four: made.body.key.slice(-4),
        blocked: false,
        revoked_at: null,
        budget_duration: "total",
      },
    });
    expect(shapeKey(made.body.key)?.number).toBe(number);
    const { key: secret, ...shown } = made.body;
    const read = await call("GET", `/accounts/acme/keys/${made.body.id}`);
    expect(read.body).toEqual(shown);
    const list = await call("GET", "/accounts/acme/keys");
    expect(list.body.data).toContainEqual(shown);
    for (const answer of [read, list]) expect(answer.text).not.toContain(secret.slice(6, -4));
  });

  it("the compute scope needs an account that is enabled for compute, for the operator and for owners", async () => {
    const made = await done("POST", "/accounts/other/keys", { name: "plain", role: "owner" });
    const tries = [
      ["POST", "/accounts/other/keys", { name: "x", scopes: ["compute"] }],
      ["POST", "/accounts/other/keys", { name: "x", scopes: ["inference", "compute"] }],
      ["PATCH", `/accounts/other/keys/${made.id}`, { scopes: ["inference", "compute"] }],
    ] as const;
    for (const [method, path, body] of tries) expect(await call(method, path, body)).toMatchObject(bad("scopes"));
    await done("PATCH", "/accounts/other", { compute_enabled: true });
    for (const [method, path, body] of tries) expect((await call(method, path, body)).status).toBeLessThan(202);
    await done("PATCH", "/accounts/other", { compute_enabled: false });
    // What a key has is not taken away, and a change that leaves it is none.
    const same = await done("PATCH", `/accounts/other/keys/${made.id}`, {
      name: "y",
      scopes: ["inference", "compute"],
    });
    expect(same).toMatchObject({ name: "y", scopes: ["inference", "compute"] });
    const owner = {
      headers: { authorization: `Bearer ${made.key}`, "content-type": "application/json" },
      method: "POST",
    };
    const asked = new Request("http://gateway.test/account/keys", {
      ...owner,
      body: '{"name":"z","scopes":["compute"]}',
    });
    expect(
      await exports.default.fetch(asked).then(async (answer) => [answer.status, await answer.json()]),
    ).toMatchObject([400, bad("scopes").body]);
    await done("PATCH", `/accounts/other/keys/${made.id}`, { scopes: ["inference"] });
    expect(await call("PATCH", `/accounts/other/keys/${made.id}`, { scopes: ["compute"] })).toMatchObject(
      bad("scopes"),
    );
  });

  it("what the body leaves out is a member's key for inference without limits", async () => {
    expect(await done("POST", "/accounts/acme/keys", { name: "plain" })).toMatchObject({
      role: "member",
      scopes: ["inference"],
      models: null,
      team: null,
      user: null,
      expires_at: null,
      metadata: {},
      rpm_limit: null,
      max_budget: null,
    });
  });

  it("a new key works before KV has heard of it, and KV gets ids only", async () => {
    const made = await done("POST", "/accounts/acme/keys", { name: "new" });
    expect(await permit(made.key)).toMatchObject({ ok: true, keyId: made.id });
    await settled();
    const record = await env.EDGE.get(`key:${await digestOf(made.key)}`);
    expect(JSON.parse(record ?? "")).toEqual({ account: "acme", number, keyId: made.id });
    const names = (await env.EDGE.list()).keys.map((key) => key.name).join();
    expect(names + record).not.toContain(made.key.slice(6, -4));
  });

  it.each([
    [{}, "name"],
    [{ name: "x", role: "king" }, "role"],
    [{ name: "x", scopes: [] }, "scopes"],
    [{ name: "x", scopes: ["inference", "inference"] }, "scopes"],
    [{ name: "x", scopes: ["billing"] }, "scopes.0"],
    [{ name: "x", models: ["a b"] }, "models.0"],
    [{ name: "x", models: ["*-7b"] }, "models.0"],
    [{ name: "x", expires_at: "tomorrow" }, "expires_at"],
    [{ name: "x", expires_at: "2026-13-01" }, "expires_at"],
    [{ name: "x", user: "ada" }, "user"],
    [{ name: "x", metadata: { a: 1 } }, "metadata.a"],
    [{ name: "x", team: "team_of_nobody" }, "team"],
    [{ name: "x", key: "sk-tg-chosen" }, "key"],
    [{ name: "x", rpm_limit: "5" }, "rpm_limit"],
  ])("%j is refused by its field", async (body, param) => {
    expect(await call("POST", "/accounts/acme/keys", body)).toMatchObject(bad(param));
  });

  it("PATCH changes what it names; blocking holds from the moment it is answered", async () => {
    const made = await done("POST", "/accounts/acme/keys", { name: "x", rpm_limit: 5, tpm_limit: 6, models: ["chat"] });
    const path = `/accounts/acme/keys/${made.id}`;
    expect(await done("PATCH", path, { rpm_limit: null, models: null })).toMatchObject({
      name: "x",
      rpm_limit: null,
      tpm_limit: 6,
      models: null,
    });
    await done("PATCH", path, { blocked: true });
    expect(await permit(made.key)).toMatchObject({ ok: false, refusal: { kind: "bad_key", why: "blocked" } });
    await done("PATCH", path, { blocked: false });
    expect((await permit(made.key)).ok).toBe(true);
    expect(await call("PATCH", path, { team: "team_of_nobody" })).toMatchObject(bad("team"));
    expect(await call("PATCH", path, { last_four: "0000" })).toMatchObject(bad("last_four"));
  });

  it("a revoked key is refused from the moment it is answered, leaves list and KV, stays readable and takes no change", async () => {
    const made = await done("POST", "/accounts/acme/keys", { name: "lost" });
    const path = `/accounts/acme/keys/${made.id}`;
    await settled();
    expect(await call("DELETE", path)).toMatchObject({ status: 200, body: { id: made.id, deleted: true } });
    expect(await permit(made.key)).toMatchObject({ ok: false, refusal: { kind: "bad_key", why: "revoked" } });
    await settled();
    expect(await env.EDGE.get(`key:${await digestOf(made.key)}`)).toBeNull();
    const listed = (await done("GET", "/accounts/acme/keys?limit=1000")).data.map(({ id }: Json) => id);
    expect(listed).not.toContain(made.id);
    expect((await done("GET", path)).revoked_at).not.toBeNull();
    expect((await call("DELETE", path)).status).toBe(200);
    expect(await call("PATCH", path, { blocked: false })).toMatchObject(refusal(409, "key_revoked", "key"));
    expect(await call("POST", `${path}/rotate`)).toMatchObject(refusal(409, "key_revoked", "key"));
  });

  it("a rotation gives a new secret; the old one ends at once, or after the grace", async () => {
    const made = await done("POST", "/accounts/acme/keys", { name: "turning" });
    const path = `/accounts/acme/keys/${made.id}/rotate`;
    const second = await done("POST", path, { grace_seconds: 60 });
    expect(second).toMatchObject({ id: made.id, name: "turning", last_four: second.key.slice(-4) });
    expect(second.key).not.toBe(made.key);
    for (const key of [made.key, second.key]) expect((await permit(key)).ok).toBe(true);
    const third = await done("POST", path);
    for (const key of [made.key, second.key]) expect((await permit(key)).ok).toBe(false);
    expect((await permit(third.key)).ok).toBe(true);
    expect(await call("POST", path, { grace_seconds: -1 })).toMatchObject(bad("grace_seconds"));
    expect(await call("POST", path, { grace: 5 })).toMatchObject(bad("grace"));
  });

  it("a key of another account is unknown here", async () => {
    const made = await done("POST", "/accounts/acme/keys", { name: "mine" });
    for (const [method, path] of [
      ["GET", ""],
      ["PATCH", ""],
      ["DELETE", ""],
      ["POST", "/rotate"],
    ] as const) {
      const body = method === "PATCH" ? {} : undefined;
      const answer = await call(method, `/accounts/other/keys/${made.id}${path}`, body);
      expect(answer).toMatchObject(refusal(404, "not_found", "key"));
    }
    expect((await permit(made.key)).ok).toBe(true);
  });
});

describe("teams", () => {
  it("a team is made, read, changed and listed", async () => {
    const made = await call("POST", "/accounts/acme/teams", { name: "Ops", tpm_limit: 1000 });
    expect(made).toMatchObject({
      status: 201,
      body: { id: expect.stringMatching(/^team_[0-9A-Za-z]{16}$/), name: "Ops", tpm_limit: 1000, rpm_limit: null },
    });
    const path = `/accounts/acme/teams/${made.body.id}`;
    expect(await done("GET", path)).toEqual(made.body);
    expect(await done("PATCH", path, { max_budget: 2, budget_duration: "week" })).toMatchObject({
      name: "Ops",
      tpm_limit: 1000,
      max_budget: 2,
      budget_duration: "week",
    });
    expect((await done("GET", "/accounts/acme/teams")).data.map(({ id }: Json) => id)).toContain(made.body.id);
    expect(await call("POST", "/accounts/acme/teams", { title: "x" })).toMatchObject(bad("name"));
    expect(await call("GET", "/accounts/other/teams/none")).toMatchObject(refusal(404, "not_found", "team"));
  });

  it("a deleted team's keys are refused at once, and it stays readable", async () => {
    const team = await done("POST", "/accounts/acme/teams", { name: "Short" });
    const key = await done("POST", "/accounts/acme/keys", { name: "x", team: team.id });
    expect((await permit(key.key)).ok).toBe(true);
    const path = `/accounts/acme/teams/${team.id}`;
    expect(await done("DELETE", path)).toEqual({ id: team.id, deleted: true });
    expect(await permit(key.key)).toMatchObject({ ok: false, refusal: { kind: "bad_key", why: "blocked" } });
    expect((await done("GET", path)).deleted_at).not.toBeNull();
    expect((await done("GET", "/accounts/acme/teams")).data.map(({ id }: Json) => id)).not.toContain(team.id);
    expect(await call("PATCH", path, { name: "x" })).toMatchObject(refusal(409, "team_deleted", "team"));
    expect(await call("POST", "/accounts/acme/keys", { name: "y", team: team.id })).toMatchObject(bad("team"));
  });
});

import { env, exports } from "cloudflare:workers";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { CHANGES_A_DAY, CHANGES_A_MINUTE } from "../../src/core/account/change-record.ts";
import type { OperatorRole } from "../../src/core/account/operators.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import { pruneChanges, pruneChangesOf } from "../../src/platform/d1/changes.ts";
import { type Answer, call, done, type Json, refusal, send, settled } from "../support/worker/operator.ts";
import { as, keyOf } from "../support/worker/tenant.ts";

afterAll(settled);
afterEach(() => vi.restoreAllMocks());

const made = (role: OperatorRole, name: string = role): Promise<Json> => done("POST", "/operators", { name, role });

/** `path` goes on after `/admin`. */
function by(token: string, method: string, path: string, body?: unknown): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
  return send(new Request(`http://gateway.test/admin${path}`, init));
}

const events = async (query = ""): Promise<Json[]> => (await done("GET", `/events${query}`)).data;

describe("operators", () => {
  it("have a token that is shown once and works until it is revoked; several live at once", async () => {
    const [old, next] = [await made("owner", "Ann"), await made("owner", "Ann, new")];
    expect(old.token).toMatch(/^tg-op-[0-9A-Za-z]{38}$/);
    expect((await by(old.token, "GET", "/accounts")).status).toBe(200);
    expect((await by(next.token, "GET", "/accounts")).status).toBe(200);
    await settled();
    const listed: Json[] = (await done("GET", "/operators")).data;
    expect(JSON.stringify(listed)).not.toContain(old.token.slice(6, -4));
    const { token, ...shown } = old;
    expect(listed.find(({ id }) => id === old.id)).toEqual({ ...shown, last_used_at: expect.any(String) });
    expect(shown).toMatchObject({ name: "Ann", role: "owner", last_four: token.slice(-4), revoked_at: null });
    await done("DELETE", `/operators/${old.id}`);
    expect(await by(old.token, "GET", "/accounts")).toMatchObject(refusal(401, "invalid_admin_token", null));
    expect((await by(next.token, "GET", `/operators/${old.id}`)).body.revoked_at).not.toBeNull();
    expect(await call("DELETE", `/operators/${old.id}`)).toMatchObject(refusal(409, "operator_revoked", null));
    expect(await call("PATCH", `/operators/${old.id}`, { name: "x" })).toMatchObject(
      refusal(409, "operator_revoked", null),
    );
    expect(await call("GET", "/operators/op_nothing")).toMatchObject(refusal(404, "not_found", "operator"));
  });

  it("a made-up token is refused without a look into the books", async () => {
    const { token } = await made("read");
    const books = vi.spyOn(env.BOOKS, "prepare");
    const spoilt = `${token.slice(0, -1)}${token.endsWith("a") ? "b" : "a"}`;
    for (const wrong of [spoilt, token.slice(0, -1), `${token}0`, token.toLowerCase(), "tg-op-"]) {
      expect(await by(wrong, "GET", "/accounts")).toMatchObject(refusal(401, "invalid_admin_token", null));
    }
    expect(books).not.toHaveBeenCalled();
  });

  it("a changed role holds from the next call on", async () => {
    const { id, token } = await made("read");
    expect((await by(token, "POST", "/accounts", { name: "x" })).status).toBe(403);
    expect(await done("PATCH", `/operators/${id}`, { role: "owner" })).toMatchObject({ name: "read", role: "owner" });
    expect((await by(token, "POST", "/accounts", { name: "x" })).status).toBe(201);
  });

  it("a role must be one of the four, and a name must be there", async () => {
    expect(await call("POST", "/operators", { name: "x", role: "root" })).toMatchObject(
      refusal(400, "invalid_request_error", "role"),
    );
    expect(await call("POST", "/operators", { name: "", role: "read" })).toMatchObject(
      refusal(400, "invalid_request_error", "name"),
    );
  });
});

describe("roles", () => {
  const READS = [
    "listAccounts", "getAccount", "listLedgerEntries", "auditAccount", "listTeams", "getTeam", "listKeys", "getKey",
    "listAliases", "getAlias", "listInstances", "getInstance", "listModels", "getModel", "reportUsage", "getCompute",
    "getAccountCompute", "getOpenApi",
    "listComputeTemplates", "getComputeTemplate", "listCalls", "getCall", "getStatement", "listStatements",
    "listLimits", "listRefusals", "lookupKey", "getKeyActivity", "listAlerts",
  ]; // biome-ignore format: a list
  const OF_SUPPORT_AND_READ = ["listUpstreams", "getUpstream", "getUpstreamHealth", "listEvents"];
  const MAY: Record<Exclude<OperatorRole, "owner">, readonly string[]> = {
    finance: [...READS, "creditAccount", "updateAccount", "putModelPrices", "deleteModelPrices", "exportLines"],
    support: [...READS, ...OF_SUPPORT_AND_READ, "updateAccount", "updateTeam", "updateKey", "revokeKey"],
    read: [...READS, ...OF_SUPPORT_AND_READ],
  };

  it("each call of the API is open to its roles and to owners, and to no other", async () => {
    const { paths } = await done("GET", "/openapi.json");
    const tokens = await Promise.all(
      (["finance", "support", "read"] as const).map(async (role) => [role, await made(role)]),
    );
    const calls = Object.entries(paths as Record<string, Record<string, { operationId: string }>>).flatMap(
      ([path, methods]) => Object.entries(methods).map(([method, { operationId }]) => ({ path, method, operationId })),
    );
    expect(calls.length).toBeGreaterThan(45);
    for (const [role, { token }] of tokens as [Exclude<OperatorRole, "owner">, Json][]) {
      const open: string[] = [];
      for (const { path, method, operationId } of calls) {
        const at = path.replace("/admin", "").replace(/\{\w+\}/g, "1");
        // A body that is wrong for every call: the role is looked at first.
        const answer = await by(token, method.toUpperCase(), at, method === "get" ? undefined : []);
        if (answer.body?.error?.code !== "role_not_allowed") open.push(operationId);
      }
      expect(open.sort(), role).toEqual([...MAY[role]].sort());
    }
  });

  it("support blocks and changes nothing else; finance sets plans and credit and changes nothing else", async () => {
    await done("POST", "/accounts", { id: "roles", name: "Roles" });
    const { id: key } = await done("POST", "/accounts/roles/keys", { name: "x" });
    const [support, finance] = [await made("support"), await made("finance")];
    const denied = (param: string) => refusal(403, "role_not_allowed", param);
    expect((await by(support.token, "PATCH", "/accounts/roles", { blocked: true })).status).toBe(200);
    expect(await by(support.token, "PATCH", "/accounts/roles", { blocked: false, name: "y" })).toMatchObject(
      denied("name"),
    );
    expect((await by(support.token, "PATCH", `/accounts/roles/keys/${key}`, { blocked: true })).status).toBe(200);
    expect(await by(support.token, "PATCH", `/accounts/roles/keys/${key}`, { max_budget: null })).toMatchObject(
      denied("max_budget"),
    );
    expect((await by(support.token, "DELETE", `/accounts/roles/keys/${key}`)).status).toBe(200);
    expect((await by(finance.token, "PATCH", "/accounts/roles", { credit_limit_usd: 5 })).status).toBe(200);
    expect(await by(finance.token, "PATCH", "/accounts/roles", { blocked: false })).toMatchObject(denied("blocked"));
    const credit = { amount_usd: 1, reference: "r" };
    expect((await by(finance.token, "POST", "/accounts/roles/credits", credit)).status).toBe(201);
    expect((await by(support.token, "POST", "/accounts/roles/credits", credit)).status).toBe(403);
    expect(await done("GET", "/accounts/roles")).toMatchObject({ name: "Roles", blocked: true, credit_limit_usd: 5 });
  });
});

describe("the log of changes", () => {
  it("says who changed what, with the fields that differ before and after", async () => {
    const ann = await made("owner", "Ann");
    expect((await by(ann.token, "POST", "/accounts", { id: "logged", name: "Before" })).status).toBe(201);
    await by(ann.token, "PATCH", "/accounts/logged", { name: "After", rpm_limit: 5 });
    const actor = { kind: "operator", id: ann.id, name: "Ann" };
    const [patched, begun] = await events("?account=logged");
    expect(begun).toMatchObject({
      actor,
      action: "createAccount",
      target: "/admin/accounts",
      before: null,
      outcome: "done",
    });
    expect(begun.after).toMatchObject({ id: "logged", name: "Before" });
    expect(patched).toMatchObject({
      actor,
      action: "updateAccount",
      target: "/admin/accounts/logged",
      fields: ["name", "rpm_limit"],
      before: { name: "Before", rpm_limit: null },
      after: { name: "After", rpm_limit: 5 },
    });
    expect(await events(`?actor=${ann.id}&action=updateAccount`)).toEqual([patched]);
    expect(await events(`?account=logged&to=${encodeURIComponent(begun.at)}`)).toEqual([]);
    await by(ann.token, "DELETE", "/accounts/logged");
    const [deleted] = await events("?account=logged");
    expect(deleted).toMatchObject({
      actor,
      action: "deleteAccount",
      before: { id: "logged", rpm_limit: 5 },
      after: null,
    });
  });

  it("has what tenants' owners change, under their key, and no secret", async () => {
    await done("POST", "/accounts", { id: "owned", name: "Owned" });
    const owner = await done("POST", "/accounts/owned/keys", { name: "Olga's", role: "owner" });
    const key = (await as(owner.key, "POST", "/account/keys", { name: "new" })).body;
    const rotated = (await as(owner.key, "POST", `/account/keys/${key.id}/rotate`, {})).body;
    await done("PUT", "/upstreams/secretive", { base_url: "https://x.example", api_key: "hush-hush" });
    await done("PUT", "/upstreams/secretive", { base_url: "https://x.example", api_key: "hush-more" });
    const [rotation, creation] = await events("?account=owned");
    expect(creation).toMatchObject({
      actor: { kind: "key", id: owner.id, name: "Olga's" },
      action: "createKey",
      target: "/account/keys",
      after: { id: key.id, key: "(secret)" },
    });
    expect(rotation).toMatchObject({ action: "rotateKey", target: `/account/keys/${key.id}/rotate` });
    const all = JSON.stringify((await env.BOOKS.prepare("select * from changes").all()).results);
    for (const secret of [owner.key, key.key, rotated.key, "hush-"]) expect(all).not.toContain(secret);
    const [replaced] = await events("?action=putUpstream");
    expect(replaced).toMatchObject({ fields: ["base_url", "api_key"], before: {}, after: {} });
  });

  it("has the own alias of an account beside the common one of the same name", async () => {
    await done("POST", "/accounts", { id: "aliased", name: "Aliased" });
    await done("PUT", "/upstreams/far", { base_url: "https://x.example", api_key: "k" });
    const to = (model: string, account?: string) => ({
      targets: [{ upstream: "far", model }],
      ...(account && { account }),
    });
    await done("PUT", "/aliases/chat", to("common"));
    await done("PUT", "/aliases/chat", to("first", "aliased"));
    await done("PUT", "/aliases/chat", to("second", "aliased"));
    const [second, first] = await events("?account=aliased&action=putAlias");
    expect(first.before).toBeNull();
    expect([second.before.targets[0].model, second.after.targets[0].model]).toEqual(["first", "second"]);
  });

  it("leaves out what was refused, and keeps what broke off as unknown", async () => {
    await done("POST", "/accounts", { id: "broken", name: "Broken" });
    expect((await call("POST", "/accounts/broken/credits", { amount_usd: 0, reference: "x" })).status).toBe(400);
    expect((await call("POST", "/accounts/broken/keys", { name: "x", team: "team_nothing" })).status).toBe(400);
    expect((await events("?account=broken")).map(({ action }) => action)).toEqual(["createAccount"]);
    vi.spyOn(console, "log").mockImplementation(() => undefined);
    const stub = {
      rename: undefined,
      amend: () => Promise.reject(new Error("gone")),
      describe: () => Promise.resolve({}),
    };
    const ACCOUNTS = { getByName: () => stub } as unknown as Env["ACCOUNTS"];
    const headers = { authorization: `Bearer ${env.ADMIN_TOKEN}`, "content-type": "application/json" };
    const request = new Request("http://gateway.test/admin/accounts/broken/credits", {
      method: "POST",
      headers,
      body: JSON.stringify({ amount_usd: 1, reference: "lost" }),
    });
    expect((await send(request, { ACCOUNTS })).status).toBeGreaterThanOrEqual(500);
    const [last] = await events("?account=broken");
    expect(last).toMatchObject({ action: "creditAccount", outcome: "unknown", before: null, after: null });
  });

  it("keeps what was made of a change that was refused in the end", async () => {
    await done("POST", "/accounts", { id: "half", name: "Half" });
    await done("PUT", "/upstreams/seat", { base_url: "https://seat.example", api_key: "k", shared: true });
    const { number } = await done("GET", "/accounts/half");
    const object = accountObject(env, number);
    const half = {
      describe: async () => ({ ...(await object.describe()) }),
      moveSeat: (from: string | null, to: string | null) => object.moveSeat(from, to),
      computeState: () => object.computeState(),
      amend: async () => undefined,
    };
    const ACCOUNTS = { getByName: () => half } as unknown as Env["ACCOUNTS"];
    const headers = { authorization: `Bearer ${env.ADMIN_TOKEN}`, "content-type": "application/json" };
    const body = JSON.stringify({ compute_upstream: "seat", name: "Other" });
    const request = new Request("http://gateway.test/admin/accounts/half", { method: "PATCH", headers, body });
    expect((await send(request, { ACCOUNTS })).status).toBe(404);
    const [last] = await events("?account=half");
    expect(last).toMatchObject({
      action: "updateAccount",
      outcome: "partly",
      before: { compute_upstream: null },
      after: { compute_upstream: "seat" },
    });
  });

  it("lets an account's keys try so many changes a minute, over all its keys; reads go on", async () => {
    await done("POST", "/accounts", { id: "busy", name: "Busy" });
    const [one, two] = [await keyOf("busy", { role: "owner" }), await keyOf("busy", { role: "owner" })];
    const prepared = vi.spyOn(env.BOOKS, "prepare");
    const statuses: number[] = [];
    for (let at = 0; at < CHANGES_A_MINUTE + 2; at++) {
      const by = at % 2 ? one : two;
      statuses.push((await as(by.key, "DELETE", "/account/keys/key_none")).status);
    }
    expect(statuses.filter((status) => status === 404)).toHaveLength(CHANGES_A_MINUTE);
    expect(statuses.slice(-2)).toEqual([429, 429]);
    const written = prepared.mock.calls.length;
    const refused = await as(one.key, "POST", "/account/keys", { name: "x" });
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(refused.body.error).toMatchObject({ code: "rate_limit_exceeded", type: "requests" });
    expect(prepared.mock.calls.length).toBe(written);
    expect((await as(one.key, "GET", "/account/keys")).status).toBe(200);
  });

  it("lets them make so many a day, and keeps the newest of each account; what operators changed stays", async () => {
    await done("POST", "/accounts", { id: "full", name: "Full" });
    await done("POST", "/accounts", { id: "beside", name: "Beside" });
    const [owner, other] = [await keyOf("full", { role: "owner" }), await keyOf("beside", { role: "owner" })];
    await env.BOOKS.prepare(
      `with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1)
       insert into changes (at_ms, actor_kind, actor, actor_name, account, action, target, fields, outcome)
       select ?2 + i, 'key', 'k', 'k', 'full', 'createKey', '/account/keys', '[]', 'done' from n`,
    )
      .bind(CHANGES_A_DAY, Date.now() - 20_000)
      .run();
    expect(await as(owner.key, "POST", "/account/keys", { name: "x" })).toMatchObject({
      status: 429,
      body: { error: { code: "rate_limit_exceeded" } },
    });
    expect((await as(other.key, "POST", "/account/keys", { name: "x" })).status).toBe(201);
    expect((await call("POST", "/accounts/full/keys", { name: "x" })).status).toBe(201);
    await pruneChangesOf(env.BOOKS, "full", CHANGES_A_DAY - 3);
    const oldest =
      "select min(at_ms) as at, count(*) as many from changes where account = 'full' and actor_kind = 'key'";
    expect(await env.BOOKS.prepare(oldest).first()).toMatchObject({ many: CHANGES_A_DAY - 3 });
    await pruneChanges(env.BOOKS, Date.now() + 1, 10_000);
    expect(await env.BOOKS.prepare(oldest).first()).toMatchObject({ many: 0 });
    expect((await events("?account=full")).length).toBeGreaterThanOrEqual(3);
  });

  it("shows no operators to support and read", async () => {
    const [support, owner] = [await made("support"), await made("owner")];
    await by(owner.token, "POST", "/accounts", { name: "seen" });
    const seen = (await by(support.token, "GET", "/events?limit=1000")).body.data as Json[];
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.filter(({ action }) => /Operator/.test(action))).toEqual([]);
  });

  it("a member's calls, which are refused, write nothing", async () => {
    await done("POST", "/accounts", { id: "members", name: "Members" });
    const member = await done("POST", "/accounts/members/keys", { name: "m" });
    const prepared = vi.spyOn(env.BOOKS, "prepare");
    expect((await as(member.key, "POST", "/account/keys", { name: "x" })).status).toBe(403);
    expect(prepared.mock.calls.filter(([sql]) => /changes/.test(sql))).toEqual([]);
  });
});

it("GET /healthz needs no key and says version and commit", async () => {
  const answer = await exports.default.fetch("http://gateway.test/healthz");
  expect([answer.status, await answer.json()]).toEqual([
    200,
    { ok: true, version: expect.stringMatching(/^\d+\.\d+\.\d+$/), commit: null },
  ]);
});

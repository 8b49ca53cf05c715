import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type AccountNumber, asId, type KeyDigest } from "../../src/core/ids.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import type { PlatformPorts } from "../../src/platform/ports.ts";
import { readSecrets } from "../../src/platform/secrets.ts";
import { call as callId, INFERENCE, row as priced, settlement } from "../support/worker/account-support.ts";
import { type Answer, call, done, type Json, refusal, settled } from "../support/worker/operator.ts";
import { as, keyOf } from "../support/worker/tenant.ts";
import { deliver, event, message, START } from "../support/worker/usage-support.ts";

afterAll(settled);

let account: Json;
let owner: Json;
let admin: Json;
let member: Json;
beforeAll(async () => {
  account = await done("POST", "/accounts", {
    id: "acme",
    name: "Acme",
    balance_usd: 10,
    rpm_limit: 100,
    plan: { markup_percent: 20, overrides: { special: { input_tokens: 3 } } },
  });
  owner = await keyOf("acme", { role: "owner" });
  admin = await keyOf("acme", { role: "admin" });
  member = await keyOf("acme");
  await done("PUT", "/upstreams/main", { base_url: "https://inference.example", api_key: "upstream-credential" });
  const model = (prices: object) => ({ kind: "chat", prices, max_output_tokens: 100, upstream: "main" });
  await done("PUT", "/models/marked-up", model({ input_tokens: { cost_usd: 1 } }));
  await done("PUT", "/models/special", model({ input_tokens: { cost_usd: 1, price_usd: 5 } }));
  await done("PUT", "/aliases/chat", { targets: [{ upstream: "main", model: "special" }] });
  // What these left running would wait for ever for a timer that a test below fakes.
  await settled();
});

const denied = (code: string, param: string | null) => refusal(403, code, param);

describe("an account object that does not answer", () => {
  const realTimeout = setTimeout;
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** What is asked while some methods of the object say nothing, with the client's time running fast. */
  async function asked(silent: readonly string[], method: string, path: string, body?: unknown) {
    vi.spyOn(console, "log").mockImplementation(() => {});
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    let calls = 0;
    const say = () => {
      calls += 1;
      return new Promise<never>(() => undefined);
    };
    const through = (ports: PlatformPorts): PlatformPorts => ({
      ...ports,
      account: (number) => {
        const stub = ports.account(number);
        // A stub has every method that it is asked for.
        return new Proxy(stub, { get: (of, name) => (silent.includes(String(name)) ? say : Reflect.get(of, name)) });
      },
    });
    let answer: Answer | undefined;
    const done = as(owner.key, method, path, body, through).then((given) => {
      answer = given;
    });
    for (let turns = 0; !answer && turns < 200; turns++) {
      await new Promise((resume) => realTimeout(resume, 5));
      vi.advanceTimersByTime(100);
    }
    await done;
    return { status: answer?.status, error: answer?.body.error, calls };
  }

  it.each([
    ["GET", "/account", ["standing"]],
    ["GET", "/account/keys", ["keys"]],
    ["GET", "/billing/transactions", ["entries"]],
  ] as const)("%s %s gets 503 after some seconds, not silence", async (method, path, silent) => {
    expect(await asked(silent, method, path)).toMatchObject({ status: 503, calls: 1 });
  });

  it("is told once what it is to do: a key is not made twice", async () => {
    const made = await asked(["manage"], "POST", "/account/keys", { name: "late" });
    expect(made).toMatchObject({ status: 503, error: { code: "admission_unavailable" }, calls: 1 });
  });
});

describe("GET /account", () => {
  it("shows limits and what is left at each level, the balance, and the tenant's own prices", async () => {
    const team = await done("POST", "/accounts/acme/teams", { name: "T", tpm_limit: 500 });
    const key = await keyOf("acme", {
      team: team.id,
      rpm_limit: 5,
      max_budget: 1,
      budget_duration: "day",
      models: ["chat", "mark*"],
    });
    const secrets = await readSecrets(env);
    if (!secrets.ok) throw new Error();
    const object = accountObject(env, asId<AccountNumber>(account.number));
    const keyDigest: KeyDigest = await secrets.secrets.digestOf(key.key);
    const rule = { endpoint: "chat", access: INFERENCE, limits: [] };
    const request = { ...rule, model: "chat", alias: null, row: priced(), owned: [], startedAtMs: Date.now() };
    const bound = { fixed: { input_tokens: 40 } };
    for (const id of ["self-1", "self-2"]) await object.admit({ ...request, callId: callId(id), keyDigest, bound });
    await object.settle(settlement("self-1", 30));
    const { status, body } = await as(key.key, "GET", "/account");
    expect(status).toBe(200);
    // 20 % on a cost of a nano-USD a token: 36 charged, 48 held.
    expect(body).toMatchObject({
      id: "acme",
      number: account.number,
      name: "Acme",
      balance_usd: 9.999999964,
      held_usd: 48e-9,
      available_usd: 9.999999916,
      key: { id: key.id, role: "member", last_four: key.key.slice(-4) },
      limits: {
        key: {
          rpm_limit: 5,
          rpm_remaining: 3,
          tpm_remaining: null,
          budget_spent: 36e-9,
          budget_remaining: 0.999999916,
          budget_resets_at: expect.stringMatching(/T00:00:00.000Z$/),
        },
        team: { tpm_limit: 500, tpm_remaining: 430, budget_remaining: null },
        account: { rpm_limit: 100, rpm_remaining: 98, max_budget: null },
      },
    });
    expect(body.models).toEqual([
      { id: "chat", kind: "chat", prices: { input_tokens: 3 } },
      { id: "marked-up", kind: "chat", prices: { input_tokens: 1.2 } },
    ]);
  });

  it("shows no cost, upstream, credential or plan", async () => {
    for (const path of ["/account", "/account/usage?group_by=model", "/account/keys", "/billing/transactions"]) {
      const { status, text } = await as(owner.key, "GET", path);
      expect(status).toBe(200);
      expect(text).not.toMatch(/cost|margin|upstream|markup|credential|inference\.example|"main"|loss|overrun/);
    }
  });

  it.each([
    ["no key", ""],
    ["a malformed one", "sk-nonsense"],
    ["a forged one", `sk-tg-${"0".repeat(38)}`],
  ])("%s is 401", async (_, key) => {
    const answer = await as(key, "GET", "/account");
    expect(answer.status).toBe(401);
    expect(answer.body.error.code).toBe("invalid_api_key");
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  it("a revoked key reads nothing", async () => {
    const key = await keyOf("acme");
    expect((await as(key.key, "GET", "/account")).status).toBe(200);
    await done("DELETE", `/accounts/acme/keys/${key.id}`);
    for (const path of ["/account", "/account/usage", "/billing/balance"]) {
      expect((await as(key.key, "GET", path)).status).toBe(401);
    }
  });

  it("an unknown path is 404", async () => {
    expect(await as(owner.key, "GET", "/account/nothing")).toMatchObject(refusal(404, "not_found", null));
  });
});

describe("GET /account/usage", () => {
  it("is the account's for owners and admins, the team's for its keys, and its own for a member", async () => {
    const team = await done("POST", "/accounts/acme/teams", { name: "U" });
    const teamAdmin = await keyOf("acme", { role: "admin", team: team.id });
    await deliver([
      message(
        event({ key: member.id }),
        event({ key: admin.id }),
        event({ key: asId("key_gone"), team: team.id }),
        event({ account: asId("other"), key: asId("key_theirs") }),
      ),
    ]);
    const keys = async (key: string) => {
      const { body } = await as(key, "GET", `/account/usage?group_by=key&from=${START}&to=${START + 1}`);
      return body.data.map((line: Json) => line.key);
    };
    expect(await keys(owner.key)).toEqual([admin.id, member.id, "key_gone"].sort());
    expect(await keys(member.key)).toEqual([member.id]);
    expect(await keys(teamAdmin.key)).toEqual(["key_gone"]);
    const csv = await as(member.key, "GET", `/account/usage?format=csv&from=${START}&to=${START + 1}`);
    expect(csv.text.split("\r\n")[0]).toMatch(/^calls,errors,.*,price_usd,latency_ms$/);
    expect(await as(owner.key, "GET", "/account/usage?group_by=account")).toMatchObject(
      refusal(400, "invalid_request_error", "group_by"),
    );
    expect((await as(member.key, "GET", "/account/usage?account=other")).status).toBe(400);
  });
});

describe("/account/keys", () => {
  it("an admin makes, reads, changes, rotates and revokes a key, by the operator's bodies", async () => {
    const made = await as(admin.key, "POST", "/account/keys", { name: "made", rpm_limit: 5, metadata: { a: "b" } });
    expect(made).toMatchObject({
      status: 201,
      body: { name: "made", role: "member", rpm_limit: 5, metadata: { a: "b" } },
    });
    const { key: secret, ...shown } = made.body;
    const path = `/account/keys/${made.body.id}`;
    expect((await as(admin.key, "GET", path)).body).toEqual(shown);
    expect((await as(secret, "GET", "/account")).status).toBe(200);
    expect((await as(admin.key, "PATCH", path, { rpm_limit: null, blocked: true })).body).toMatchObject({
      rpm_limit: null,
      blocked: true,
      metadata: { a: "b" },
    });
    expect((await as(secret, "GET", "/account")).status).toBe(401);
    await as(admin.key, "PATCH", path, { blocked: false });
    const turned = await as(admin.key, "POST", `${path}/rotate`);
    expect((await as(secret, "GET", "/account")).status).toBe(401);
    expect((await as(turned.body.key, "GET", "/account")).status).toBe(200);
    expect(await as(admin.key, "DELETE", path)).toMatchObject({ status: 200, body: { deleted: true } });
    expect((await as(turned.body.key, "GET", "/account")).status).toBe(401);
    const listed = (await as(admin.key, "GET", "/account/keys?limit=1000")).body.data.map(({ id }: Json) => id);
    expect(listed).toContain(member.id);
    expect(listed).not.toContain(made.body.id);
    expect(await as(admin.key, "PATCH", path, {})).toMatchObject(refusal(404, "not_found", "key"));
    expect(await as(admin.key, "POST", "/account/keys", { name: "x", secret: 1 })).toMatchObject(
      refusal(400, "invalid_request_error", "secret"),
    );
  });

  it("a member's key reaches none of it", async () => {
    for (const [method, path, body] of [
      ["POST", "/account/keys", { name: "x" }],
      ["GET", "/account/keys"],
      ["GET", `/account/keys/${admin.id}`],
      ["PATCH", `/account/keys/${admin.id}`, { name: "x" }],
      ["DELETE", `/account/keys/${admin.id}`],
      ["POST", `/account/keys/${admin.id}/rotate`],
      ["POST", "/account/teams", { name: "x" }],
      ["GET", "/account/teams"],
      ["DELETE", "/account/teams/team_x"],
    ] as const) {
      expect(await as(member.key, method, path, body)).toMatchObject(denied("role_not_allowed", null));
    }
  });

  it("no key changes itself, and an admin touches no owner's key", async () => {
    for (const [method, path, body] of [
      ["PATCH", "", { name: "x" }],
      ["DELETE", "", undefined],
      ["POST", "/rotate", undefined],
    ] as const) {
      expect(await as(admin.key, method, `/account/keys/${admin.id}${path}`, body)).toMatchObject(
        denied("own_key", "key"),
      );
      expect(await as(admin.key, method, `/account/keys/${owner.id}${path}`, body)).toMatchObject(
        denied("more_than_yours", "role"),
      );
    }
    expect((await as(owner.key, "GET", "/account")).status).toBe(200);
  });

  it("a key makes none that has more than it has; what is left out it passes on", async () => {
    const narrow = await keyOf("acme", {
      role: "admin",
      models: ["chat", "llama-*"],
      expires_at: "2031-01-01",
      rpm_limit: 10,
      max_budget: 5,
      budget_duration: "week",
    });
    const made = await as(narrow.key, "POST", "/account/keys", { name: "heir" });
    expect(made).toMatchObject({
      status: 201,
      body: {
        models: ["chat", "llama-*"],
        expires_at: "2031-01-01T00:00:00.000Z",
        rpm_limit: 10,
        max_budget: 5,
        budget_duration: "week",
        role: "member",
      },
    });
    for (const [more, field] of [
      [{ role: "owner" }, "role"],
      [{ scopes: ["compute"] }, "scopes"],
      [{ models: null }, "models"],
      [{ expires_at: null }, "expires_at"],
      [{ rpm_limit: 11 }, "rpm_limit"],
      [{ max_budget: 5.01 }, "max_budget"],
      [{ budget_duration: "day" }, "budget_duration"],
    ] as const) {
      expect(await as(narrow.key, "POST", "/account/keys", { name: "x", ...more })).toMatchObject(
        denied("more_than_yours", field),
      );
      expect(await as(narrow.key, "PATCH", `/account/keys/${made.body.id}`, more)).toMatchObject(
        denied("more_than_yours", field),
      );
    }
    expect(await as(narrow.key, "POST", `/account/keys/${member.id}/rotate`)).toMatchObject(
      denied("more_than_yours", "models"),
    );
  });

  it("a team's admin sees and makes keys of that team alone", async () => {
    const team = await done("POST", "/accounts/acme/teams", { name: "V" });
    const lead = await keyOf("acme", { role: "admin", team: team.id });
    const made = await as(lead.key, "POST", "/account/keys", { name: "x" });
    expect(made).toMatchObject({ status: 201, body: { team: team.id } });
    const listed = (await as(lead.key, "GET", "/account/keys?limit=1000")).body.data.map(({ id }: Json) => id);
    expect(listed).toEqual([lead.id, made.body.id]);
    for (const [method, path, body] of [
      ["GET", "", undefined],
      ["PATCH", "", { name: "x" }],
      ["DELETE", "", undefined],
    ] as const) {
      expect(await as(lead.key, method, `/account/keys/${member.id}${path}`, body)).toMatchObject(
        refusal(404, "not_found", "key"),
      );
    }
    expect(await as(lead.key, "POST", "/account/keys", { name: "x", team: null })).toMatchObject(
      denied("more_than_yours", "team"),
    );
    expect((await as(lead.key, "GET", "/account/teams")).body.data).toMatchObject([{ id: team.id }]);
    const idsOf = async (key: string, query: string) =>
      (await as(key, "GET", `/account/keys?${query}`)).body.data.map(({ id }: Json) => id);
    expect(await idsOf(owner.key, `team=${team.id}`)).toEqual([lead.id, made.body.id]);
    expect(await idsOf(lead.key, `team=${team.id}`)).toEqual([lead.id, made.body.id]);
    expect(await idsOf(lead.key, "team=team_other")).toEqual([]);
    expect((await as(lead.key, "PATCH", `/account/teams/${team.id}`, { rpm_limit: null })).status).toBe(403);
  });

  it("keys and teams of another account are unknown", async () => {
    await done("POST", "/accounts", { id: "other", name: "Other" });
    const theirs = await keyOf("other");
    const team = await done("POST", "/accounts/other/teams", { name: "T" });
    for (const [method, path, body] of [
      ["GET", `/account/keys/${theirs.id}`, undefined],
      ["PATCH", `/account/keys/${theirs.id}`, {}],
      ["DELETE", `/account/keys/${theirs.id}`, undefined],
      ["POST", `/account/keys/${theirs.id}/rotate`, undefined],
      ["GET", `/account/teams/${team.id}`, undefined],
      ["PATCH", `/account/teams/${team.id}`, {}],
      ["DELETE", `/account/teams/${team.id}`, undefined],
    ] as const) {
      const answer = await as(owner.key, method, path, body);
      const unknown = await as(owner.key, method, path.replace(theirs.id, "key_x").replace(team.id, "team_x"), body);
      expect(answer.status).toBe(404);
      expect(answer.text.replaceAll(theirs.id, "key_x").replaceAll(team.id, "team_x")).toBe(unknown.text);
    }
    expect(await as(owner.key, "POST", "/account/keys", { name: "x", team: team.id })).toMatchObject(
      refusal(400, "invalid_request_error", "team"),
    );
    expect((await call("GET", `/accounts/other/keys/${theirs.id}`)).body.revoked_at).toBeNull();
  });
});

describe("/account/teams", () => {
  it("an owner makes, reads, changes and deletes a team", async () => {
    const made = await as(owner.key, "POST", "/account/teams", { name: "W", tpm_limit: 5, max_budget: 2 });
    expect(made).toMatchObject({ status: 201, body: { name: "W", tpm_limit: 5 } });
    const path = `/account/teams/${made.body.id}`;
    expect((await as(owner.key, "PATCH", path, { tpm_limit: null })).body).toMatchObject({
      tpm_limit: null,
      max_budget: 2,
    });
    const key = await as(owner.key, "POST", "/account/keys", { name: "x", team: made.body.id });
    expect((await as(key.body.key, "GET", "/account")).status).toBe(200);
    expect((await as(owner.key, "DELETE", path)).status).toBe(200);
    expect((await as(key.body.key, "GET", "/account")).status).toBe(401);
    expect(await as(owner.key, "PATCH", path, {})).toMatchObject(refusal(404, "not_found", "team"));
  });
});

describe("/billing", () => {
  it("the balance is net of open holds, for any role, in the contract's shape", async () => {
    const { body } = await as(member.key, "GET", "/billing/balance");
    expect(Object.keys(body).sort()).toEqual(["account_id", "balance", "bills_monthly"]);
    expect(body).toMatchObject({ account_id: account.number, bills_monthly: false });
    expect(body.balance).toBe((await as(member.key, "GET", "/account")).body.available_usd);
  });

  it("transactions are for owners, newest first, without the operator's notes", async () => {
    await done("POST", "/accounts/acme/credits", { amount_usd: 1, reference: "r-1", note: "our little secret" });
    const { body, text } = await as(owner.key, "GET", "/billing/transactions?limit=1");
    expect(body).toMatchObject([{ kind: "top_up", amount: 1, reference: "r-1", request_id: null }]);
    expect(text).not.toContain("secret");
    const older = await as(owner.key, "GET", `/billing/transactions?cursor=${body[0].id}`);
    expect(older.body.at(-1)).toMatchObject({ reference: "opening", amount: 10 });
    for (const key of [admin.key, member.key]) {
      const answer = await as(key, "GET", "/billing/transactions");
      expect(answer).toMatchObject({ status: 403, body: { error: expect.stringContaining("owner") } });
    }
  });

  it("errors are text in `error`, as the compute contract has them", async () => {
    for (const [key, path, status] of [
      ["", "/billing/balance", 401],
      [owner.key, "/billing/nothing", 404],
      [owner.key, "/billing/transactions?page=1", 400],
    ] as const) {
      expect(await as(key, "GET", path)).toMatchObject({ status, body: { error: expect.any(String) } });
    }
  });
});

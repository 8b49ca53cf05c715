/** What a reseller changes: several at once, accounts by the hundred, accounts that end, and teams by other hands. */
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { call, done, type Json, refusal, send, settled } from "../support/worker/operator.ts";
import { as, keyOf } from "../support/worker/tenant.ts";

afterAll(settled);

beforeAll(async () => {
  await done("POST", "/accounts", { id: "acme", name: "Acme", balance_usd: 5 });
});

describe("changes at the same time", () => {
  it("of different limits are all there afterwards, on an account, a team and a key", async () => {
    const team = await done("POST", "/accounts/acme/teams", { name: "T" });
    const key = await keyOf("acme");
    const owner = await keyOf("acme", { role: "owner" });
    const fields = ["rpm_limit", "tpm_limit", "rpd_limit", "max_parallel_requests", "free_rpm_limit", "max_budget"];
    for (const path of ["/accounts/acme", `/accounts/acme/teams/${team.id}`, `/accounts/acme/keys/${key.id}`]) {
      const own = path.replace("/accounts/acme", "/account");
      for (const value of [11, 22, 33]) {
        // Every other one by the tenant's own hand, where it has one.
        const change = (field: string, at: number) =>
          at % 2 === 1 && own !== "/account"
            ? as(owner.key, "PATCH", own, { [field]: value })
            : call("PATCH", path, { [field]: value });
        const answers = await Promise.all(fields.map(change));
        expect(answers.map(({ status }) => status)).toEqual(fields.map(() => 200));
        expect(await done("GET", path)).toMatchObject(Object.fromEntries(fields.map((field) => [field, value])));
      }
    }
    await done("PATCH", "/accounts/acme", Object.fromEntries(fields.map((field) => [field, null])));
  });

  it("of name, block and limits undo nothing of each other", async () => {
    const key = await keyOf("acme", { rpm_limit: 5 });
    const path = `/accounts/acme/keys/${key.id}`;
    await Promise.all([
      call("PATCH", path, { blocked: true }),
      call("PATCH", path, { name: "renamed" }),
      call("PATCH", path, { tpm_limit: 7 }),
      call("PATCH", path, { models: ["chat"] }),
    ]);
    expect(await done("GET", path)).toMatchObject({
      blocked: true,
      name: "renamed",
      rpm_limit: 5,
      tpm_limit: 7,
      models: ["chat"],
    });
  });
});

describe("the list of accounts", () => {
  it("asks a bounded number of objects, few at once, and says where to go on", async () => {
    const entered = env.BOOKS.prepare("insert into accounts (id, name, created_ms, opened_ms) values (?1, ?1, 1, 1)");
    await env.BOOKS.batch(Array.from({ length: 130 }, (_, at) => entered.bind(`many-${at}`)));
    let [asked, running, most] = [0, 0, 0];
    const counted = {
      getByName: () => ({
        describe: async () => {
          asked += 1;
          most = Math.max(most, ++running);
          await new Promise((resolve) => setTimeout(resolve, 1));
          running -= 1;
        },
      }),
    } as unknown as Env["ACCOUNTS"];
    const headers = { authorization: `Bearer ${env.ADMIN_TOKEN}` };
    const answer = await send(new Request("http://gateway.test/admin/accounts?limit=1000", { headers }), {
      ACCOUNTS: counted,
    });
    expect(answer).toMatchObject({ status: 200, body: { next_cursor: expect.any(String) } });
    expect(asked).toBe(100);
    expect(most).toBeLessThanOrEqual(10);
    await env.BOOKS.prepare("delete from accounts where id like 'many-%'").run();
  });
});

describe("an account that is deleted", () => {
  it("leaves no alias and no instance of its own behind; others' stay, and so do its books", async () => {
    await done("PUT", "/upstreams/main", { base_url: "https://inference.example", api_key: "k" });
    await done("POST", "/accounts", { id: "leaving", name: "Leaving", balance_usd: 2 });
    const targets = [{ upstream: "main", model: "llama" }];
    await done("PUT", "/aliases/own", { targets, account: "leaving" });
    await done("PUT", "/aliases/own", { targets, account: "acme" });
    await done("PUT", "/aliases/common", { targets });
    for (const [id, account] of [
      [71, "leaving"],
      [72, "acme"],
    ]) {
      await done("PUT", `/instances/${id}`, { account, name: "llama", upstreams: ["main"] });
    }
    await done("DELETE", "/accounts/leaving");
    expect((await call("GET", "/aliases/own?account=leaving")).status).toBe(404);
    expect((await call("GET", "/instances/71")).status).toBe(404);
    for (const path of ["/aliases/own?account=acme", "/aliases/common", "/instances/72"]) await done("GET", path);
    expect((await done("GET", "/accounts/leaving/ledger")).data).toHaveLength(1);
    // The instance can be somebody else's now.
    await done("PUT", "/instances/71", { account: "acme", name: "llama", upstreams: ["main"] });
    expect((await call("PUT", "/aliases/own", { targets, account: "leaving" })).status).toBe(400);
  });
});

describe("teams by an admin's hand", () => {
  const denied = (field: string) => refusal(403, "more_than_yours", field);
  let admin: Json;
  beforeAll(async () => {
    admin = await keyOf("acme", { role: "admin" });
  });

  it("that hold an owner's key cannot be deleted, blocked or limited until it is gone", async () => {
    const team = await done("POST", "/accounts/acme/teams", { name: "Board" });
    const owner = await keyOf("acme", { role: "owner", team: team.id });
    const path = `/account/teams/${team.id}`;
    expect(await as(admin.key, "DELETE", path)).toMatchObject(denied("role"));
    expect(await as(admin.key, "PATCH", path, { blocked: true })).toMatchObject(denied("role"));
    expect(await as(admin.key, "PATCH", path, { rpm_limit: 0 })).toMatchObject(denied("role"));
    expect((await as(admin.key, "PATCH", path, { name: "The board" })).status).toBe(200);
    expect((await as(owner.key, "GET", "/account")).status).toBe(200);
    await done("DELETE", `/accounts/acme/keys/${owner.id}`);
    expect((await as(admin.key, "DELETE", path)).status).toBe(200);
  });

  it("get no more than the admin has, and what is left out the admin's own", async () => {
    const narrow = await keyOf("acme", { role: "admin", rpm_limit: 10, max_budget: 5, budget_duration: "week" });
    const made = await as(narrow.key, "POST", "/account/teams", { name: "Small", tpm_limit: 100 });
    expect(made).toMatchObject({
      status: 201,
      body: { rpm_limit: 10, tpm_limit: 100, max_budget: 5, budget_duration: "week" },
    });
    expect(await as(narrow.key, "POST", "/account/teams", { name: "Big", rpm_limit: 11 })).toMatchObject(
      denied("rpm_limit"),
    );
    const path = `/account/teams/${made.body.id}`;
    expect(await as(narrow.key, "PATCH", path, { max_budget: null })).toMatchObject(denied("max_budget"));
    expect((await as(narrow.key, "PATCH", path, { rpm_limit: 3, tpm_limit: null })).status).toBe(200);
    expect((await as(admin.key, "PATCH", path, { max_budget: null })).status).toBe(200);
  });

  it("a team's admin lists its keys by full pages, however many others there are", async () => {
    const team = await done("POST", "/accounts/acme/teams", { name: "Sought" });
    const lead = await keyOf("acme", { role: "admin", team: team.id });
    for (let other = 0; other < 12; other++) await keyOf("acme");
    const second = await keyOf("acme", { team: team.id });
    const first = await as(lead.key, "GET", "/account/keys?limit=1");
    expect(first.body.data).toMatchObject([{ id: lead.id }]);
    const next = await as(lead.key, "GET", `/account/keys?limit=1&cursor=${first.body.next_cursor}`);
    expect(next.body).toMatchObject({ data: [{ id: second.id }], next_cursor: null });
    const byOperator = await done("GET", `/accounts/acme/keys?team=${team.id}`);
    expect(byOperator.data.map(({ id }: Json) => id)).toEqual([lead.id, second.id]);
  });
});

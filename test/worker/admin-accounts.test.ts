import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it, vi } from "vitest";
import { type AccountId, asId } from "../../src/core/ids.ts";
import { accountObject } from "../../src/platform/account/stub.ts";
import { enterAccount, findAccount, renameAccount } from "../../src/platform/d1/accounts.ts";
import { writeAlerts } from "../../src/platform/d1/alerts.ts";
import { enterKey, nameKey, nameTeam } from "../../src/platform/d1/key-index.ts";
import { rows, type Stub } from "../support/worker/account-support.ts";
import { call, done, type Json, refusal, settled } from "../support/worker/operator.ts";
import { as } from "../support/worker/tenant.ts";

afterAll(settled);

const bad = (param: string | null) => refusal(400, "invalid_request_error", param);

describe("accounts", () => {
  it("an account is made with what its body says, and read back so", async () => {
    const body = {
      id: "acme",
      name: "Acme",
      balance_usd: "12.5",
      bills_monthly: true,
      credit_limit_usd: 100,
      compute_enabled: true,
      on_disconnect: "drain",
      plan: {
        markup_percent: 20,
        overrides: { chat: { input_tokens: "0.3" }, "llama-7b:1042": { markup_percent: 5.5 } },
      },
      rpm_limit: 60,
      max_budget: "40.25",
      budget_duration: "month",
    };
    const made = await call("POST", "/accounts", body);
    expect(made).toMatchObject({
      status: 201,
      body: {
        ...body,
        number: expect.any(Number),
        balance_usd: 12.5,
        held_usd: 0,
        plan: {
          markup_percent: 20,
          overrides: { chat: { input_tokens: 0.3 }, "llama-7b:1042": { markup_percent: 5.5 } },
        },
        max_budget: 40.25,
        tpm_limit: null,
        blocked: false,
        deleted_at: null,
      },
    });
    expect((await call("GET", "/accounts/acme")).body).toEqual(made.body);
    expect(Date.parse(made.body.created_at)).toBeGreaterThan(Date.now() - 60_000);
  });

  it("a plan may be dated: it stands beside the one that holds until its time, and can be taken back", async () => {
    await done("POST", "/accounts", { id: "planned", name: "Planned", plan: { markup_percent: 5 } });
    const from = new Date(Date.now() + 3_600_000).toISOString();
    const dated = await done("PATCH", "/accounts/planned", { plan: { markup_percent: 9, from } });
    expect(dated).toMatchObject({ plan: { markup_percent: 5 }, next_plan: { markup_percent: 9, overrides: {}, from } });
    expect(await done("PATCH", "/accounts/planned", { plan: { markup_percent: 6 } })).toMatchObject({
      plan: { markup_percent: 6 },
      next_plan: { markup_percent: 9 },
    });
    expect((await done("PATCH", "/accounts/planned", { next_plan: null })).next_plan).toBeNull();
    const past = { plan: { from: Date.now() - 61_000 } };
    expect(await call("PATCH", "/accounts/planned", past)).toMatchObject(bad("plan.from"));
    const soon = Date.now() + 300;
    await done("PATCH", "/accounts/planned", { plan: { markup_percent: 7, from: soon } });
    await vi.waitUntil(() => Date.now() > soon);
    const held = { plan: { markup_percent: 7 }, next_plan: null };
    expect(await done("GET", "/accounts/planned")).toMatchObject(held);
    expect(await done("PATCH", "/accounts/planned", { name: "Still" })).toMatchObject(held);
  });

  it("without an id it is called by its number", async () => {
    const account = await done("POST", "/accounts", { name: "Nameless" });
    expect(account.id).toBe(`acct_${account.number}`);
    expect(account).toMatchObject({ balance_usd: 0, bills_monthly: false, plan: { markup_percent: 0, overrides: {} } });
  });

  it("an id that is taken is 409, and the account stays as it is", async () => {
    await done("POST", "/accounts", { id: "taken", name: "First", balance_usd: 1 });
    expect(await call("POST", "/accounts", { id: "taken", name: "Second", balance_usd: 5 })).toMatchObject(
      refusal(409, "account_exists", "id"),
    );
    expect(await done("GET", "/accounts/taken")).toMatchObject({ name: "First", balance_usd: 1 });
  });

  it("a creation that broke off is in no list, and sending it again finishes it with one opening balance", async () => {
    const row = await enterAccount(env.BOOKS, "broken-off", "Old name", 1);
    expect((await call("GET", "/accounts/broken-off")).status).toBe(404);
    const object = accountObject(env, row.number);
    const first = await done("POST", "/accounts", { id: "broken-off", name: "New name", balance_usd: 7, rpm_limit: 5 });
    expect(first).toMatchObject({ number: row.number, name: "New name", balance_usd: 7, rpm_limit: 5 });
    await env.BOOKS.prepare("update accounts set opened_ms = null where number = ?").bind(row.number).run();
    expect((await done("GET", "/accounts?limit=1000")).data.map(({ id }: Json) => id)).not.toContain("broken-off");
    const again = await call("POST", "/accounts", { id: "broken-off", name: "Newer", balance_usd: 7 });
    expect(again).toMatchObject({ status: 201, body: { name: "Newer", balance_usd: 7, rpm_limit: null } });
    expect((await object.audit())?.ok).toBe(true);
    await env.BOOKS.prepare("update accounts set opened_ms = null where number = ?").bind(row.number).run();
    expect(await call("POST", "/accounts", { id: "broken-off", name: "Newest", balance_usd: 8 })).toMatchObject(
      refusal(409, "reference_conflict", "balance_usd"),
    );
  });

  it.each([
    [{}, "name"],
    [{ name: "" }, "name"],
    [{ name: 5 }, "name"],
    [{ name: "x", id: "Upper" }, "id"],
    [{ name: "x", id: "-first" }, "id"],
    [{ name: "x", id: "acct_77" }, "id"],
    [{ name: "x", balance_usd: -1 }, "balance_usd"],
    [{ name: "x", balance_usd: "1.0000000001" }, "balance_usd"],
    [{ name: "x", balance_usd: "9000001" }, "balance_usd"],
    [{ name: "x", balance_usd: "ten" }, "balance_usd"],
    [{ name: "x", balance_usd: true }, "balance_usd"],
    [{ name: "x", rpm_limit: -1 }, "rpm_limit"],
    [{ name: "x", rpm_limit: 1.5 }, "rpm_limit"],
    [{ name: "x", max_budget: -0.01 }, "max_budget"],
    [{ name: "x", budget_duration: "year" }, "budget_duration"],
    [{ name: "x", on_disconnect: "stay" }, "on_disconnect"],
    [{ name: "x", plan: { markup_percent: -1 } }, "plan.markup_percent"],
    [{ name: "x", plan: { markup_percent: 1.0000001 } }, "plan.markup_percent"],
    [{ name: "x", plan: { overrides: { m: { input_tokens: 0 } } } }, "plan.overrides.m.input_tokens"],
    [{ name: "x", plan: { overrides: { m: { miles: 1 } } } }, "plan.overrides.m.miles"],
    [{ name: "x", plan: { overrides: { m: {} } } }, "plan.overrides.m"],
    [{ name: "x", plan: { overrides: { m: { images: 1, markup_percent: 2 } } } }, "plan.overrides.m"],
    [{ name: "x", plan: { overrides: { "a b": { images: 1 } } } }, "plan.overrides.a b"],
  ])("%j is refused by its field", async (body, param) => {
    expect(await call("POST", "/accounts", body)).toMatchObject(bad(param));
  });

  it("PATCH changes what it names and leaves the rest", async () => {
    await done("POST", "/accounts", { id: "patched", name: "Before", rpm_limit: 10, tpm_limit: 20, max_budget: 3 });
    const changed = await call("PATCH", "/accounts/patched", { name: "After", rpm_limit: null, blocked: true });
    expect(changed).toMatchObject({
      status: 200,
      body: { name: "After", rpm_limit: null, tpm_limit: 20, max_budget: 3, blocked: true, budget_duration: "total" },
    });
    expect(await done("GET", "/accounts/patched")).toEqual(changed.body);
    for (const fixed of ["id", "balance_usd", "number"]) {
      expect(await call("PATCH", "/accounts/patched", { [fixed]: 1 })).toMatchObject(bad(fixed));
    }
  });

  it("lists go on where the page before ended", async () => {
    for (const id of ["list-a", "list-b", "list-c"]) await done("POST", "/accounts", { id, name: id });
    const ids: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Json = await done("GET", `/accounts?limit=2${cursor && `&cursor=${cursor}`}`);
      expect(page.data.length).toBeLessThanOrEqual(2);
      ids.push(...page.data.map(({ id }: Json) => id));
      cursor = page.next_cursor;
    }
    expect(ids.filter((id) => id.startsWith("list-"))).toEqual(["list-a", "list-b", "list-c"]);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("a deleted account takes no change, leaves the list, and keeps its ledger", async () => {
    await done("POST", "/accounts", { id: "gone", name: "Gone", balance_usd: 3 });
    expect(await call("DELETE", "/accounts/gone")).toMatchObject({ status: 200, body: { id: "gone", deleted: true } });
    expect((await call("DELETE", "/accounts/gone")).status).toBe(200);
    expect((await done("GET", "/accounts?limit=1000")).data.map(({ id }: Json) => id)).not.toContain("gone");
    expect((await done("GET", "/accounts/gone")).deleted_at).not.toBeNull();
    expect((await done("GET", "/accounts/gone/ledger")).data).toHaveLength(1);
    for (const [method, path, body] of [
      ["PATCH", "/accounts/gone", { name: "x" }],
      ["POST", "/accounts/gone/keys", { name: "x" }],
      ["POST", "/accounts/gone/teams", { name: "x" }],
      ["POST", "/accounts/gone/credits", { amount_usd: 1, reference: "r" }],
    ] as const) {
      expect(await call(method, path, body)).toMatchObject(refusal(409, "account_deleted", "account"));
    }
    expect(await call("POST", "/accounts", { id: "gone", name: "Back" })).toMatchObject(
      refusal(409, "account_exists", "id"),
    );
  });

  it("a deleted account has no names and no metadata left, wherever they stood, also where the deletion broke off", async () => {
    const NAMES = /Alice|Bob's|Lab of|person-7|Machine of/;
    await done("POST", "/accounts", { id: "named", name: "Lab of Alice", balance_usd: 3 });
    const team = await done("POST", "/accounts/named/teams", { name: "Bob's team" });
    const asked = { name: "Alice's key", role: "owner", metadata: { badge: "person-7" }, user: 77 };
    const owner = await done("POST", "/accounts/named/keys", asked);
    const revoked = await done("POST", "/accounts/named/keys", { name: "Bob's key", team: team.id });
    await done("DELETE", `/accounts/named/keys/${revoked.id}`);
    await done("GET", `/accounts/named/teams/${team.id}`);
    await as(owner.key, "POST", "/account/keys", { name: "Alice's second", metadata: { badge: "person-7" } });
    const { number } = await done("GET", "/accounts/named");
    await env.BOOKS.prepare(
      "insert into alerts (id, type, account, at_ms, data) values ('evt_n', 'key.created', 'named', 1, ?1)",
    )
      .bind(JSON.stringify({ key: owner.id, name: "Alice's key", team: null }))
      .run();
    const stub = accountObject(env, number) as unknown as Stub;
    const machine = { id: 1000, launched: { name: "Machine of Alice", sshPublicKey: "ssh-ed25519 A alice@person-7" } };
    await rows(
      stub,
      `INSERT INTO resources (id, kind, tag, upstream, price_rule, row, live, created_at_ms)
       VALUES (1000, 'instance', 't', 'u', 'p', '${JSON.stringify(machine)}', 0, 1)`,
    );
    const credit = { amount_usd: 1, reference: "invoice-9", note: "Paid by Alice" };
    await done("POST", "/accounts/named/credits", credit);
    const ledger = await done("GET", "/accounts/named/ledger");

    // The deletion of before ended between the object and the books.
    await stub.close();
    expect((await done("GET", "/accounts/named")).name).toBe("named");
    await done("DELETE", "/accounts/named");
    await done("DELETE", "/accounts/named");
    const paths = ["", "/keys", "/teams", `/keys/${owner.id}`, `/keys/${revoked.id}`, `/teams/${team.id}`, "/limits"];
    for (const path of paths) expect((await call("GET", `/accounts/named${path}`)).text).not.toMatch(NAMES);
    expect(await done("GET", `/accounts/named/keys/${owner.id}`)).toMatchObject({
      name: owner.id,
      metadata: {},
      user: null,
      role: "owner",
    });
    expect((await done("GET", `/accounts/named/teams/${team.id}`)).name).toBe(team.id);
    expect((await call("GET", "/events?account=named")).text).not.toMatch(NAMES);
    expect((await done("GET", "/events?account=named")).data.length).toBeGreaterThan(5);
    // What was on its way comes later.
    const lastFour = revoked.key.slice(-4);
    const revocation = { key: revoked.id, name: "Bob's key", team: team.id };
    const late = { id: "evt_later", type: "key.revoked", account: asId<AccountId>("named"), atMs: 2 } as const;
    await writeAlerts(env.BOOKS, [{ ...late, data: revocation }], 2);
    await nameKey(env.BOOKS, { account: "named", key: revoked.id, lastFour, name: "Bob's key" });
    await enterKey(env.BOOKS, { account: "named", key: "key_later", lastFour: "abcd", name: "Bob's later" });
    await nameTeam(env.BOOKS, "named", team.id, "Bob's team");
    await nameTeam(env.BOOKS, "named", "team_later", "Bob's other team");
    await renameAccount(env.BOOKS, (await findAccount(env.BOOKS, "named"))!, "Lab of Alice");
    const told = await env.BOOKS.prepare("select data ->> 'name' as name from alerts where id = 'evt_later'").first();
    expect(told).toEqual({ name: revoked.id });
    const { results } = await env.BOOKS.prepare("select name from sqlite_schema where type = 'table'").all<{
      name: string;
    }>();
    for (const { name } of results.filter(({ name: table }) => !/^(_|sqlite_|idempotent)/.test(table))) {
      const stored = await env.BOOKS.prepare(`select * from "${name}"`).all();
      expect(JSON.stringify(stored.results), name).not.toMatch(NAMES);
    }
    for (const table of ["account", "teams", "keys", "resources", "entries"]) {
      expect(JSON.stringify(await rows(stub, `SELECT * FROM ${table}`)), table).not.toMatch(NAMES);
    }
    expect(ledger.data[0].note).toBe("Paid by Alice");
    const data = ledger.data.map((entry: Json) => ({ ...entry, note: null }));
    expect(await done("GET", "/accounts/named/ledger")).toEqual({ ...ledger, data });
    expect((await done("GET", "/audit/named")).ok).toBe(true);
  });

  it("an unknown account is 404 on every call that names one", async () => {
    for (const [method, path, body] of [
      ["GET", "/accounts/nobody"],
      ["PATCH", "/accounts/nobody", {}],
      ["DELETE", "/accounts/nobody"],
      ["POST", "/accounts/nobody/credits", { amount_usd: 1, reference: "r" }],
      ["GET", "/accounts/nobody/ledger"],
      ["GET", "/audit/nobody"],
      ["POST", "/accounts/nobody/teams", { name: "x" }],
      ["GET", "/accounts/nobody/teams"],
      ["GET", "/accounts/nobody/teams/t"],
      ["POST", "/accounts/nobody/keys", { name: "x" }],
      ["GET", "/accounts/nobody/keys"],
      ["DELETE", "/accounts/nobody/keys/k"],
      ["POST", "/accounts/nobody/keys/k/rotate"],
    ] as const) {
      expect(await call(method, path, body)).toMatchObject(refusal(404, "not_found", "account"));
    }
  });
});

describe("the ledger", () => {
  it("a top-up counts once per reference: 201, then 200, and 409 with another amount", async () => {
    await done("POST", "/accounts", { id: "topped", name: "Topped", balance_usd: 1 });
    const credit = { amount_usd: "2.000000001", reference: "invoice-1", note: "thanks" };
    const first = await call("POST", "/accounts/topped/credits", credit);
    expect(first).toMatchObject({
      status: 201,
      body: {
        kind: "top_up",
        amount_usd: 2.000000001,
        balance_usd: 3.000000001,
        reference: "invoice-1",
        note: "thanks",
      },
    });
    const again = await call("POST", "/accounts/topped/credits", credit);
    expect(again).toMatchObject({ status: 200, body: first.body });
    expect(await call("POST", "/accounts/topped/credits", { ...credit, amount_usd: 3 })).toMatchObject(
      refusal(409, "reference_conflict", "reference"),
    );
    expect(await done("GET", "/accounts/topped")).toMatchObject({ balance_usd: 3.000000001 });
  });

  it("a sign belongs to its kind, and nothing takes more than is there", async () => {
    await done("POST", "/accounts", { id: "refunded", name: "Refunded", balance_usd: 5 });
    const credit = (kind: string, amount: number) =>
      call("POST", "/accounts/refunded/credits", { kind, amount_usd: amount, reference: `${kind} ${amount}` });
    expect(await credit("refund", -2)).toMatchObject({ status: 201, body: { kind: "refund", balance_usd: 3 } });
    expect(await credit("correction", -1)).toMatchObject({ status: 201, body: { balance_usd: 2 } });
    expect(await credit("correction", 4)).toMatchObject({ status: 201, body: { balance_usd: 6 } });
    expect(await credit("top_up", -1)).toMatchObject(bad("amount_usd"));
    expect(await credit("top_up", 0)).toMatchObject(bad("amount_usd"));
    expect(await credit("refund", 1)).toMatchObject(bad("amount_usd"));
    expect((await credit("refund", 0.5)).body.error.message).toContain("book a correction above zero");
    expect(await credit("correction", 0)).toMatchObject(bad("amount_usd"));
    expect(await done("GET", "/accounts/refunded")).toMatchObject({ balance_usd: 6 });
    expect(await credit("refund", -7)).toMatchObject(refusal(409, "balance_out_of_range", "amount_usd"));
    expect(await credit("gift", 1)).toMatchObject(bad("kind"));
  });

  it("a correction may name its call, which the ledger shows and the reference stands for too", async () => {
    await done("POST", "/accounts", { id: "corrected", name: "Corrected", balance_usd: 5 });
    const path = "/accounts/corrected/credits";
    const correction = { kind: "correction", amount_usd: 1, reference: "sorry", call_id: "b0a7-call" };
    const booked = await call("POST", path, correction);
    expect(booked).toMatchObject({ status: 201, body: { call_id: "b0a7-call", balance_usd: 6 } });
    expect(await call("POST", path, correction)).toMatchObject({ status: 200, body: booked.body });
    for (const call_id of [null, "another"]) {
      expect(await call("POST", path, { ...correction, call_id })).toMatchObject(
        refusal(409, "reference_conflict", "reference"),
      );
    }
    for (const call_id of ["", "two words", "x".repeat(201)]) {
      expect(await call("POST", path, { ...correction, call_id })).toMatchObject(bad("call_id"));
    }
    for (const other of [{ kind: "top_up" }, { kind: "refund", amount_usd: -1 }]) {
      expect(await call("POST", path, { ...correction, ...other, reference: "n" })).toMatchObject(bad("call_id"));
    }
    expect((await done("GET", "/accounts/corrected/ledger")).data[0]).toMatchObject({ call_id: "b0a7-call" });
    expect(await done("GET", "/audit/corrected")).toMatchObject({ ok: true, balance_usd: 6 });
  });

  it("is read newest first by pages, and the audit recomputes it", async () => {
    await done("POST", "/accounts", { id: "audited", name: "Audited" });
    for (const amount of [1, 2, 3]) {
      await done("POST", "/accounts/audited/credits", { amount_usd: amount, reference: `r${amount}` });
    }
    const first = await done("GET", "/accounts/audited/ledger?limit=2");
    expect(first.data.map((entry: Json) => entry.amount_usd)).toEqual([3, 2]);
    const second = await done("GET", `/accounts/audited/ledger?limit=2&cursor=${first.next_cursor}`);
    expect(second).toMatchObject({
      data: [{ amount_usd: 1, balance_usd: 1, call_id: null, key: null }],
      next_cursor: null,
    });
    expect(await done("GET", "/audit/audited")).toEqual({
      ok: true,
      entries_usd: 6,
      balance_usd: 6,
      held_usd: 0,
      overrun_usd: 0,
      operator_loss_usd: 0,
      open_holds: 0,
      oldest_hold_at: null,
      open_leases: 0,
      // What the credits made known, until it is shipped.
      outbox: expect.any(Number),
      problems: [],
    });
  });
});

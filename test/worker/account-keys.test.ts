import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { AccountService } from "../../src/core/account/account-service.ts";
import type { CallAccess } from "../../src/core/account/call-access.ts";
import { OPERATOR } from "../../src/core/account/permissions.ts";
import { type KeyFields, NO_LIMITS } from "../../src/core/account/tenant.ts";
import type { Sql } from "../../src/platform/account/schema.ts";
import { Keys } from "../../src/platform/account/tables/keys.ts";
import { Resources } from "../../src/platform/account/tables/resources.ts";
import {
  addKey,
  call,
  digestOf,
  fakeClock,
  freeCall,
  keyId,
  limits,
  newAccount,
  request,
  rows,
  type Stub,
  settlement,
  teamId,
} from "../support/worker/account-support.ts";
import { manager } from "../support/worker/manager.ts";
import { allowedMs } from "../support/worker/slowness.ts";

let advance: (byMs: number) => void;
beforeEach(() => {
  advance = fakeClock();
});
afterEach(() => {
  vi.useRealTimers();
});

let calls = 0;
/** What a key's call is answered: `ok`, or why not. */
async function tryKey(stub: Stub, name = "k", model = "m"): Promise<string> {
  const admission = await stub.admit(request(`c${++calls}`, 1, { keyDigest: digestOf(name), model }));
  if (admission.ok) return "ok";
  return "why" in admission.refusal ? admission.refusal.why : admission.refusal.kind;
}

describe("keys", () => {
  it("are found by digest; an unknown one is refused", async () => {
    const { stub, number } = await newAccount({ balance: 100 });
    expect(await stub.findKey(digestOf("k"))).toEqual({ account: `acc-${number}`, keyId: "key-k" });
    expect(await stub.findKey(digestOf("nobody"))).toBeUndefined();
    expect(await tryKey(stub, "nobody")).toBe("unknown");
  });

  it("made once stand as made, also when making them is repeated", async () => {
    const { stub } = await newAccount();
    const fields: Partial<KeyFields> = {
      name: "CI",
      user: 7,
      role: "admin",
      scopes: ["inference", "compute"],
      models: ["a", "b*"],
      metadata: { stage: "prod" },
      limits: limits({ rpm_limit: 9 }),
    };
    const made = await addKey(stub, "ci", fields);
    expect(made).toMatchObject({ ...fields, id: "key-ci", lastFour: "ci", revokedAtMs: null, createdAtMs: Date.now() });
    advance(1_000);
    expect(await addKey(stub, "ci", { name: "other" })).toEqual(made);
    expect(await stub.key(keyId("ci"))).toEqual(made);
  });

  it.each<[string, Partial<KeyFields>, string]>([
    ["blocked", { blocked: true }, "blocked"],
    ["without the inference scope", { scopes: ["compute"] }, "scope_missing"],
    ["made for other models", { models: ["gpt-*", "mm"] }, "model_not_allowed"],
    ["made for this model", { models: ["m"] }, "ok"],
  ])("%s", async (_, fields, answer) => {
    const { stub } = await newAccount({ balance: 100, key: fields });
    expect(await tryKey(stub)).toBe(answer);
  });

  it("are asked for the scope and the role that the row names, by calls that hold something and by free ones", async () => {
    const { stub } = await newAccount({ balance: 100, key: { role: "admin", scopes: ["compute"] } });
    const both = async (access: CallAccess) => [
      await stub.admit(request(`c${access.role}${access.scope}`, 1, { access })),
      await stub.authorize(digestOf("k"), { ...freeCall("local"), access }),
    ];
    const ok = { ok: true };
    expect(await both({ scope: "compute", role: "admin" })).toMatchObject([ok, ok]);
    expect(await both({ scope: null, role: "member" })).toMatchObject([ok, ok]);
    const scope = { ok: false, refusal: { kind: "scope_missing", scope: "inference" } };
    expect(await both({ scope: "inference", role: "owner" })).toEqual([scope, scope]);
    const role = { ok: false, refusal: { kind: "role_too_low", role: "owner" } };
    expect(await both({ scope: "compute", role: "owner" })).toEqual([role, role]);
  });

  it("end at their expiry, to the millisecond", async () => {
    const { stub } = await newAccount({ balance: 100, key: { expiresAtMs: Date.now() + 1_000 } });
    advance(999);
    expect(await tryKey(stub)).toBe("ok");
    advance(1);
    expect(await tryKey(stub)).toBe("expired");
    expect(await stub.authorize(digestOf("k"))).toEqual({
      ok: false,
      refusal: { kind: "bad_key", why: "expired" },
    });
  });

  it("blocked, amended and freed again are judged by their last state, after a restart too", async () => {
    const { stub } = await newAccount({ balance: 100 });
    expect(await tryKey(stub)).toBe("ok");
    expect(await manager(stub).amendKey(keyId("k"), { blocked: true })).toMatchObject({ blocked: true, name: "key" });
    expect(await tryKey(stub)).toBe("blocked");
    await evictDurableObject(stub);
    expect(await tryKey(stub)).toBe("blocked");
    await manager(stub).amendKey(keyId("k"), { blocked: false });
    expect(await tryKey(stub)).toBe("ok");
  });

  it("revoked are refused from the answer on, and give their digests to drop at the edge", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(request("running", 5));
    expect(await manager(stub).revokeKey(keyId("k"))).toEqual({
      key: expect.objectContaining({ id: "key-k", revokedAtMs: Date.now() }),
      digests: [digestOf("k")],
    });
    expect(await tryKey(stub)).toBe("revoked");
    expect(await stub.settle(settlement("running", 5))).toMatchObject({ state: "settled", chargedNanoUsd: 5 });
    expect(await manager(stub).amendKey(keyId("k"), { blocked: false })).toBeUndefined();
    expect(await manager(stub).rotateKey(keyId("k"), digestOf("new"), "new", 0)).toBeUndefined();
    expect(await stub.key(keyId("k"))).toMatchObject({ id: "key-k" });
    expect((await stub.keys({ cursor: null, limit: 10 }))?.data).toEqual([]);
    expect(await manager(stub).revokeKey(keyId("nobody"))).toBeUndefined();
  });

  it("rotated at once stop the old secret; with a grace, when that ends and no later", async () => {
    const { stub } = await newAccount({ balance: 100 });
    expect(await manager(stub).rotateKey(keyId("k"), digestOf("k2"), "two", 0)).toMatchObject({
      key: { id: "key-k", lastFour: "two" },
      digests: [digestOf("k")],
    });
    expect(await tryKey(stub)).toBe("revoked");
    expect(await tryKey(stub, "k2")).toBe("ok");
    await manager(stub).rotateKey(keyId("k"), digestOf("k3"), "thre", 5_000);
    expect([await tryKey(stub, "k"), await tryKey(stub, "k2"), await tryKey(stub, "k3")]).toEqual([
      "revoked",
      "ok",
      "ok",
    ]);
    advance(5_000);
    expect([await tryKey(stub, "k2"), await tryKey(stub, "k3")]).toEqual(["revoked", "ok"]);
    expect(await manager(stub).rotateKey(keyId("nobody"), digestOf("k9"), "nine", 0)).toBeUndefined();
  });

  it("of a deleted account are neither made nor changed, not by the operator either", async () => {
    const { stub } = await newAccount();
    await stub.close();
    const object = stub as unknown as AccountService;
    const id = keyId("k");
    for (const action of [
      { kind: "amend_key", id, changes: { name: "x" } },
      { kind: "rotate_key", id, digest: digestOf("k2"), lastFour: "two", graceMs: 0 },
    ] as const) {
      expect(await object.manage(OPERATOR, action)).toEqual({ kind: "account_deleted" });
    }
    const team = {
      kind: "create_team",
      id: teamId("n"),
      fields: { name: "n", blocked: false, limits: NO_LIMITS },
    } as const;
    expect(await object.manage(OPERATOR, team)).toEqual({ kind: "account_deleted" });
    expect(await object.manage({ by: "key", digest: digestOf("k") }, team)).toMatchObject({
      kind: "refused",
      refusal: { kind: "bad_key", why: "blocked" },
    });
  });

  it("are listed page by page, oldest first", async () => {
    const { stub } = await newAccount();
    for (const name of ["a", "b", "c"]) await addKey(stub, name);
    await manager(stub).revokeKey(keyId("b"));
    const first = await stub.keys({ cursor: null, limit: 2 });
    expect(first?.data.map((key) => key.id)).toEqual(["key-k", "key-a"]);
    const second = await stub.keys({ cursor: first?.nextCursor ?? null, limit: 2 });
    expect(second).toMatchObject({ data: [{ id: "key-c" }], nextCursor: null });
  });

  it("stand nowhere in clear: only digests are stored", async () => {
    const { stub } = await newAccount();
    expect(await rows(stub, "SELECT digest, key_id, valid_until_ms FROM digests")).toEqual([
      { digest: digestOf("k"), key_id: "key-k", valid_until_ms: null },
    ]);
  });
});

describe("teams", () => {
  it("are made, amended, listed and read", async () => {
    const { stub } = await newAccount({ team: { limits: limits({ rpm_limit: 5 }) } });
    const team = { id: "team-t", name: "team", blocked: false, createdAtMs: Date.now(), deletedAtMs: null };
    expect(await stub.team(teamId("t"))).toEqual({ ...team, limits: { ...NO_LIMITS, rpm_limit: 5 } });
    expect(await manager(stub).amendTeam(teamId("t"), { name: "blue" })).toMatchObject({
      name: "blue",
      limits: { rpm_limit: 5 },
    });
    await manager(stub).createTeam(teamId("u"), { name: "u", blocked: false, limits: NO_LIMITS });
    const first = await stub.teams({ cursor: null, limit: 1 });
    expect(first?.data).toMatchObject([{ id: "team-t", name: "blue" }]);
    expect(await stub.teams({ cursor: first?.nextCursor ?? null, limit: 1 })).toMatchObject({
      data: [{ id: "team-u" }],
      nextCursor: null,
    });
    expect(await stub.team(teamId("nobody"))).toBeUndefined();
    expect(await manager(stub).amendTeam(teamId("nobody"), { name: "x" })).toBeUndefined();
  });

  it("blocked or deleted block their keys; a deleted one leaves the list, stays readable and takes no key", async () => {
    const { stub } = await newAccount({ balance: 100, team: {} });
    expect(await tryKey(stub)).toBe("ok");
    await manager(stub).amendTeam(teamId("t"), { blocked: true });
    expect(await tryKey(stub)).toBe("blocked");
    await manager(stub).amendTeam(teamId("t"), { blocked: false });
    expect(await tryKey(stub)).toBe("ok");
    expect(await manager(stub).deleteTeam(teamId("t"))).toMatchObject({ deletedAtMs: Date.now() });
    expect(await tryKey(stub)).toBe("blocked");
    expect((await stub.teams({ cursor: null, limit: 10 }))?.data).toEqual([]);
    expect(await stub.team(teamId("t"))).toMatchObject({ id: "team-t" });
    expect(await addKey(stub, "late", { team: teamId("t") })).toBe("no_team");
    expect(await manager(stub).deleteTeam(teamId("nobody"))).toBeUndefined();
  });

  it("take a key in and let it go; calls count where the key was when they were admitted", async () => {
    const { stub } = await newAccount({ balance: 100, team: { limits: limits({ max_parallel_requests: 1 }) } });
    await stub.admit(request("first", 1));
    expect(await manager(stub).amendKey(keyId("k"), { team: teamId("nobody") })).toBe("no_team");
    expect(await manager(stub).amendKey(keyId("k"), { team: null })).toMatchObject({ team: null });
    expect(await tryKey(stub)).toBe("ok");
    await manager(stub).amendKey(keyId("k"), { team: teamId("t") });
    expect(await tryKey(stub)).toBe("rate_limit");
    await stub.settle(settlement("first", 1));
    expect(await tryKey(stub)).toBe("ok");
    expect(await stub.audit()).toMatchObject({ ok: true });
  });
});

describe("an account with many keys and teams", () => {
  it("asks its rows once for the next key to tell of and the next rental due, not after each change", async () => {
    const { stub } = await newAccount();
    const asked = await runInDurableObject(stub, (_, { storage }) => {
      let statements = 0;
      const exec: Sql["exec"] = (...query) => {
        statements += 1;
        return storage.sql.exec(...query);
      };
      const [keys, resources] = [new Keys({ exec } as Sql), new Resources({ exec } as Sql)];
      for (let changes = 0; changes < 3; changes++)
        expect([keys.nextWarnMs(), resources.nextDueMs()]).toEqual([null, null]);
      return statements;
    });
    expect(asked).toBe(2);
  });

  it("admits by look-ups alone: the rows read do not grow", async () => {
    const { stub } = await newAccount({ balance: 1_000, team: {} });
    const readBy = async (id: string) => {
      await stub.describe();
      await evictDurableObject(stub);
      await stub.describe();
      return stub.admit(request(id)).then((admission) => admission.ok);
    };
    expect(await readBy("before")).toBe(true);
    const plans = await rows(
      stub,
      `EXPLAIN QUERY PLAN SELECT keys.*, valid_until_ms FROM digests JOIN keys ON keys.id = digests.key_id WHERE digest = 'x'`,
    );
    expect(plans.map((plan) => String(plan.detail))).not.toContainEqual(expect.stringContaining("SCAN"));
    await rows(
      stub,
      `INSERT INTO keys (id, last_four, fields, created_at_ms)
       SELECT 'bulk-' || value, 'bulk', '{}', 0 FROM (WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n LIMIT 100000) SELECT value FROM n)`,
    );
    await rows(
      stub,
      "INSERT INTO digests (digest, key_id) SELECT 'digest-' || id, id FROM keys WHERE id LIKE 'bulk-%'",
    );
    const startedMs = performance.now();
    expect(await readBy("after")).toBe(true);
    expect(performance.now() - startedMs).toBeLessThan(await allowedMs(500));
    expect(await stub.settle(settlement("after", 1))).toMatchObject({ state: "settled" });
    expect(await stub.renew(call("before"), null)).toBe(true);
  });
});

import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Limits } from "../../src/core/account/tenant.ts";
import {
  addKey,
  call,
  digestOf,
  expectSound,
  fakeClock,
  keyId,
  limits,
  lowerable,
  newAccount,
  releaseOf,
  request,
  rows,
  type Stub,
  settlement,
  teamId,
} from "../support/worker/account-support.ts";
import { manager } from "../support/worker/manager.ts";

let advance: (byMs: number) => void;
beforeEach(() => {
  advance = fakeClock();
});
afterEach(() => {
  vi.useRealTimers();
});

const LEVELS = ["key", "team", "account"] as const;

/** A rich account with the given limits at one level. */
function limited(level: (typeof LEVELS)[number], some: Partial<Limits>) {
  const own = { limits: limits(some) };
  return newAccount({
    balance: 1_000_000,
    team: level === "team" ? own : {},
    ...(level !== "team" && { [level]: own }),
  });
}

/** Admits calls of `tokens` until one is refused; gives how many passed, and the refusal. */
async function fill(stub: Stub, prefix: string, tokens: number) {
  for (let passed = 0; passed < 100; passed++) {
    const admission = await stub.admit(request(`${prefix}${passed}`, tokens));
    if (!admission.ok) return { passed, refusal: admission.refusal };
  }
  throw new Error("nothing was refused");
}

const LIMITS: [Partial<Limits>, number, object][] = [
  [{ rpm_limit: 3 }, 3, { kind: "rate_limit", limit: "rpm_limit", allowed: 3 }],
  [{ tpm_limit: 35 }, 3, { kind: "rate_limit", limit: "tpm_limit", allowed: 35 }],
  [{ rpd_limit: 3 }, 3, { kind: "rate_limit", limit: "rpd_limit", allowed: 3 }],
  [{ max_parallel_requests: 3 }, 3, { kind: "rate_limit", limit: "max_parallel_requests", retryAfterMs: 1_000 }],
  [{ maxBudgetNanoUsd: 35, budgetDuration: "day" }, 3, { kind: "budget_spent", budgetNanoUsd: 35, duration: "day" }],
  [
    { maxBudgetNanoUsd: 30, budgetDuration: "total" },
    3,
    { kind: "budget_spent", duration: "total", retryAfterMs: null },
  ],
  [{ rpm_limit: 0 }, 0, { kind: "rate_limit", limit: "rpm_limit", retryAfterMs: null }],
  [{ max_parallel_requests: 0 }, 0, { kind: "rate_limit", limit: "max_parallel_requests", retryAfterMs: null }],
];

describe("every limit bites at every level (invariant 2)", () => {
  const table = LEVELS.flatMap((level) => LIMITS.map(([some, passed, refusal]) => ({ level, some, passed, refusal })));
  it.each(table)("$level $some", async ({ level, some, passed, refusal }) => {
    const { stub } = await limited(level, some);
    expect(await fill(stub, "c", 10)).toMatchObject({ passed, refusal: { ...refusal, level } });
    await expectSound(stub);
  });
});

describe("requests per minute", () => {
  it("of 200 at once against 50, exactly 50 are admitted, and none more after a restart", async () => {
    const { stub } = await limited("key", { rpm_limit: 50 });
    const admissions = await Promise.all(Array.from({ length: 200 }, (_, index) => stub.admit(request(`c${index}`))));
    expect(admissions.filter((admission) => admission.ok)).toHaveLength(50);
    await evictDurableObject(stub);
    expect(await fill(stub, "d", 1)).toMatchObject({ passed: 0 });
    await expectSound(stub);
  });

  it("come back when their second has aged out, as the refusal said; refused calls do not count", async () => {
    const { stub } = await limited("account", { rpm_limit: 2 });
    await stub.admit(request("a"));
    advance(30_000);
    await stub.admit(request("b"));
    const refused = await stub.admit(request("c"));
    if (refused.ok || refused.refusal.kind !== "rate_limit") throw new Error("not refused");
    const waitMs = refused.refusal.retryAfterMs ?? 0;
    expect(waitMs).toBeGreaterThan(30_000);
    expect(waitMs).toBeLessThanOrEqual(31_000);
    expect(refused.rates?.requests).toMatchObject({ limit: 2, remaining: 0 });
    advance(waitMs - 1);
    expect(await stub.admit(request("d"))).toMatchObject({ ok: false });
    advance(1);
    expect(await fill(stub, "e", 1)).toMatchObject({ passed: 1 });
  });

  it("count failed calls, and count what came before the limit was set", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(request("a"));
    await stub.release(releaseOf("a"));
    await stub.admit(request("b"));
    await manager(stub).amendKey(keyId("k"), { limits: limits({ rpm_limit: 3, rpd_limit: 100 }) });
    expect(await stub.authorize(digestOf("k"))).toMatchObject({ rates: { requests: { limit: 3, remaining: 1 } } });
    expect(await fill(stub, "c", 1)).toMatchObject({ passed: 1 });
  });
});

describe("tokens per minute", () => {
  it("count what is held, and what was really used once that is known, in the bucket of admission", async () => {
    const { stub } = await limited("team", { tpm_limit: 100 });
    await stub.admit(request("a", 80));
    expect(await stub.admit(request("b", 30))).toMatchObject({ refusal: { limit: "tpm_limit" } });
    advance(20_000);
    await stub.settle(settlement("a", { input_tokens: 50, cached_input_tokens: 50, output_tokens: 10 }));
    expect(await stub.authorize(digestOf("k"))).toMatchObject({ rates: { tokens: { limit: 100, remaining: 40 } } });
    await evictDurableObject(stub);
    expect(await stub.admit(request("c", 41))).toMatchObject({ ok: false });
    expect(await stub.admit(request("d", 40))).toMatchObject({ ok: true, rates: { tokens: { remaining: 0 } } });
    advance(41_000);
    expect(await stub.authorize(digestOf("k"))).toMatchObject({ rates: { tokens: { remaining: 60 } } });
  });

  it("of a failed call are given back", async () => {
    const { stub } = await limited("key", { tpm_limit: 100 });
    await stub.admit(request("a", 100));
    await stub.release(releaseOf("a"));
    expect(await stub.admit(request("b", 100))).toMatchObject({ ok: true });
  });

  it("lower a cap that was left open", async () => {
    const { stub } = await limited("account", { tpm_limit: 60 });
    const open = { bound: lowerable(10, 500) };
    expect(await stub.admit(request("a", 0, open))).toMatchObject({ hold: { outputCap: 50 } });
    expect(await stub.admit(request("b", 0, open))).toMatchObject({
      refusal: { level: "account", limit: "tpm_limit" },
    });
  });
});

describe("requests per day", () => {
  it("stay exact over restarts and roll-ups", async () => {
    const { stub } = await limited("team", { rpd_limit: 600 });
    const burst = (prefix: string, size: number) =>
      Promise.all(Array.from({ length: size }, (_, index) => stub.admit(request(`${prefix}${index}`))));
    await burst("a", 300);
    await evictDurableObject(stub);
    advance(3_600_000);
    await burst("b", 290);
    await evictDurableObject(stub);
    expect(
      (await rows(stub, "SELECT sum(requests) AS n FROM requests_by_slot WHERE subject = 'team:team-t'"))[0],
    ).toEqual({ n: 512 });
    const admissions = await burst("c", 40);
    expect(admissions.filter((admission) => admission.ok)).toHaveLength(10);
    // The first 300 leave when their ten minutes are a day old.
    advance(23 * 3_600_000 + 600_000);
    expect((await burst("d", 310)).filter((admission) => admission.ok)).toHaveLength(300);
    await expectSound(stub);
  });
});

describe("parallel requests", () => {
  it("are freed by each end: settled, released, expired", async () => {
    const { stub } = await limited("account", { max_parallel_requests: 3 });
    await fill(stub, "c", 1);
    await stub.settle(settlement("c0"));
    expect(await stub.admit(request("d0"))).toMatchObject({ ok: true });
    await stub.release(releaseOf("c1"));
    expect(await stub.admit(request("d1"))).toMatchObject({ ok: true });
    expect(await stub.admit(request("d2"))).toMatchObject({ refusal: { limit: "max_parallel_requests" } });
    await evictDurableObject(stub);
    expect(await stub.admit(request("d3"))).toMatchObject({ refusal: { limit: "max_parallel_requests" } });
    advance(121_000);
    expect(await fill(stub, "e", 1)).toMatchObject({ passed: 3 });
    await expectSound(stub);
  });
});

describe("budgets", () => {
  /** Until the next midnight UTC, ms. */
  const nextMidnight = () => 86_400_000 - (Date.now() % 86_400_000);

  it("count the ledger's charges since the window began, what is held, and what was spent before they were set", async () => {
    const { stub } = await newAccount({ balance: 1_000, team: {} });
    await stub.admit(request("a", 50));
    await stub.settle(settlement("a", 30));
    await stub.admit(request("b", 20));
    await manager(stub).amendTeam(teamId("t"), { limits: limits({ maxBudgetNanoUsd: 60, budgetDuration: "month" }) });
    expect(await stub.admit(request("c", 11))).toMatchObject({ refusal: { kind: "budget_spent", level: "team" } });
    await evictDurableObject(stub);
    expect(await stub.admit(request("d", 11))).toMatchObject({ refusal: { kind: "budget_spent", level: "team" } });
    expect(await stub.admit(request("e", 10))).toMatchObject({ ok: true });
  });

  it("begin anew at midnight UTC, when the refusal said; what is held over midnight counts in the new day", async () => {
    const { stub } = await limited("key", { maxBudgetNanoUsd: 100, budgetDuration: "day" });
    advance(nextMidnight() - 10_000);
    await stub.admit(request("a", 60));
    await stub.settle(settlement("a", 60));
    await stub.admit(request("b", 40));
    expect(await stub.admit(request("c", 1))).toMatchObject({
      refusal: { kind: "budget_spent", retryAfterMs: 10_000 },
    });
    advance(10_000);
    expect(await stub.admit(request("d", 61))).toMatchObject({ refusal: { kind: "budget_spent" } });
    expect(await stub.admit(request("e", 60))).toMatchObject({ ok: true });
    await stub.settle(settlement("b", 40));
    await stub.settle(settlement("e", 60));
    expect(await stub.admit(request("f", 1))).toMatchObject({ refusal: { kind: "budget_spent" } });
    await expectSound(stub);
  });

  it("stay exact over restarts and roll-ups of spending", async () => {
    const { stub } = await newAccount({ balance: 1_000_000 });
    for (let batch = 0; batch < 3; batch++) {
      const ids = Array.from({ length: 110 }, (_, index) => `c${batch}-${index}`);
      await Promise.all(ids.map((id) => stub.admit(request(id, 10))));
      await Promise.all(ids.map((id) => stub.settle(settlement(id, 7))));
      await evictDurableObject(stub);
      advance(61_000);
    }
    expect((await rows(stub, "SELECT entries_through AS n FROM marks"))[0]?.n).toBeGreaterThan(200);
    await stub.amend({ limits: limits({ maxBudgetNanoUsd: 330 * 7 + 5, budgetDuration: "total" }) });
    expect(await stub.admit(request("d", 6))).toMatchObject({ refusal: { kind: "budget_spent", level: "account" } });
    expect(await stub.admit(request("e", 5))).toMatchObject({ ok: true });
    await expectSound(stub);
  });

  it("spent leave free calls alone", async () => {
    const { stub } = await limited("key", { maxBudgetNanoUsd: 0 });
    const free = { ...request("x").row, free: true };
    expect(await stub.admit(request("a", 5, { row: free }))).toMatchObject({ ok: true });
    expect(await stub.admit(request("b", 1))).toMatchObject({ refusal: { kind: "budget_spent", retryAfterMs: null } });
  });
});

describe("several keys of several teams", () => {
  it("share their team's and account's limits and no others", async () => {
    const { stub } = await newAccount({
      balance: 1_000,
      account: { limits: limits({ rpm_limit: 6 }) },
      team: { limits: limits({ rpm_limit: 4 }) },
    });
    await addKey(stub, "sister", { team: teamId("t"), limits: limits({ rpm_limit: 3 }) });
    await addKey(stub, "alone");
    const as = (name: string, id: string) => stub.admit(request(id, 1, { keyDigest: digestOf(name) }));
    for (let index = 0; index < 3; index++) expect(await as("sister", `s${index}`)).toMatchObject({ ok: true });
    expect(await as("sister", "s3")).toMatchObject({ refusal: { level: "key" } });
    expect(await as("k", "k0")).toMatchObject({ ok: true, rates: { requests: { limit: 4, remaining: 0 } } });
    expect(await as("k", "k1")).toMatchObject({ refusal: { level: "team", allowed: 4 } });
    expect(await as("alone", "a0")).toMatchObject({ ok: true });
    expect(await as("alone", "a1")).toMatchObject({ ok: true });
    expect(await as("alone", "a2")).toMatchObject({ refusal: { level: "account", allowed: 6 } });
  });
});

describe("permission for what costs nothing", () => {
  it("counts nothing, and passes where every limit is spent", async () => {
    const { stub } = await newAccount({ key: { models: ["gpt-*"], limits: limits({ rpm_limit: 0 }) } });
    const permission = {
      ok: true,
      keyId: "key-k",
      teamId: null,
      models: ["gpt-*"],
      rates: { requests: { limit: 0, remaining: 0, resetMs: 0 } },
    };
    expect(await stub.authorize(digestOf("k"))).toMatchObject(permission);
    expect(await stub.authorize(digestOf("k"))).toMatchObject(permission);
    expect(await rows(stub, "SELECT * FROM holds")).toEqual([]);
  });
});

describe("renewal", () => {
  it("lets a hold live for its whole time from now, an hour at most, and only while it is open", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(request("a", 5));
    for (let minute = 1; minute <= 59; minute++) {
      advance(60_000);
      expect(await stub.renew(call("a"), null)).toBe(true);
    }
    expect(await stub.audit()).toMatchObject({ openHolds: 1 });
    advance(60_001);
    expect(await stub.audit()).toMatchObject({ openHolds: 0, operatorLossNanoUsd: 5 });
    expect(await stub.renew(call("a"), null)).toBe(false);
    expect(await stub.renew(call("nobody"), null)).toBe(false);
  });
});

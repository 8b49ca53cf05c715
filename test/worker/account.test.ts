import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NO_LIMITS } from "../../src/core/account/tenant.ts";
import { type AccountId, asId } from "../../src/core/ids.ts";
import { MAX_NANO_USD } from "../../src/core/pricing/money.ts";
import { LEDGER_SCENARIOS, type LedgerDriver, runLedgerScenario } from "../support/ledger-scenarios.ts";
import {
  breakStorage,
  call,
  credit,
  digestOf,
  expectSound,
  fakeClock,
  fakeQueue,
  freeCall,
  limits,
  lowerable,
  newAccount,
  newObject,
  perToken,
  progress,
  releaseOf,
  request,
  row,
  rows,
  type Stub,
  settlement,
} from "../support/worker/account-support.ts";
import { manager } from "../support/worker/manager.ts";

let advance: (byMs: number) => void;
beforeEach(() => {
  advance = fakeClock();
});
afterEach(() => {
  vi.useRealTimers();
});

/** The real object under the scenarios of the ledger. */
class ObjectLedger implements LedgerDriver {
  readonly #stub: Stub;
  #credits = 0;

  constructor(stub: Stub) {
    this.#stub = stub;
  }

  async credit(amount: number) {
    return (await credit(this.#stub, amount, `credit-${++this.#credits}`))?.kind ?? "closed";
  }

  async hold(id: string, amount: number) {
    const admission = await this.#stub.admit(request(id, amount));
    return admission.ok ? "ok" : admission.refusal.kind;
  }

  async settle(id: string, actual: number) {
    const { state, chargedNanoUsd: charged } = await this.#stub.settle(settlement(id, actual));
    return { state, charged };
  }

  async release(id: string) {
    const { state, chargedNanoUsd: charged } = await this.#stub.release(releaseOf(id));
    return { state, charged };
  }

  async report(id: string, soFar: number) {
    expect(await this.#stub.renew(call(id), progress(soFar))).toBe(true);
  }

  async expire() {
    advance(121_000);
    await this.#stub.audit();
  }

  async floor(amount: number) {
    await this.#stub.amend({ billsMonthly: amount < 0, creditLimitNanoUsd: -amount });
  }

  async state() {
    const audit = await this.#stub.audit();
    expect(audit?.problems).toEqual([]);
    return {
      balance: audit?.balanceNanoUsd ?? Number.NaN,
      held: audit?.heldNanoUsd ?? Number.NaN,
      overrun: audit?.overrunNanoUsd ?? Number.NaN,
      loss: audit?.operatorLossNanoUsd ?? Number.NaN,
    };
  }
}

describe("the ledger of the real object", () => {
  it.each(Object.entries(LEDGER_SCENARIOS))("%s", async (_, text) => {
    const { stub } = await newAccount();
    await runLedgerScenario(text, new ObjectLedger(stub));
    await expectSound(stub);
  });
});

describe("an object that was never opened", () => {
  it("refuses every call as an unknown key, knows nothing and writes nothing", async () => {
    const { stub } = newObject();
    const unknown = { ok: false, refusal: { kind: "bad_key", why: "unknown" } };
    expect(await stub.admit(request("c1"))).toEqual(unknown);
    expect(await stub.authorize(digestOf("k"))).toEqual(unknown);
    expect(await stub.settle(settlement("c1"))).toEqual({ state: "unknown", chargedNanoUsd: 0 });
    expect(await stub.renew(call("c1"), null)).toBe(false);
    expect(await stub.findKey(digestOf("k"))).toBeUndefined();
    expect(await stub.describe()).toBeUndefined();
    expect(await stub.audit()).toBeUndefined();
    expect(await credit(stub, 5, "r")).toBeUndefined();
    expect(await rows(stub, "SELECT name FROM sqlite_master")).toEqual([]);
  });
});

describe("an account", () => {
  it("opened twice answers what stands, and never becomes another", async () => {
    const { stub, number } = await newAccount({ balance: 5, account: { name: "First" } });
    const id = asId<AccountId>(`acc-${number}`);
    const fields = { ...(await stub.describe()), name: "Second" } as Parameters<Stub["open"]>[2];
    expect(await stub.open(id, number, fields)).toMatchObject({ id, name: "First", balanceNanoUsd: 5 });
    await expect(
      runInDurableObject(stub, (object) => object.open(asId<AccountId>("other"), number, fields)),
    ).rejects.toThrow();
  });

  it("is amended in the fields named and no others", async () => {
    const { stub } = await newAccount();
    const before = await stub.describe();
    expect(await stub.amend({ name: "New", limits: limits({ rpm_limit: 3 }) })).toEqual({
      ...before,
      name: "New",
      limits: { ...NO_LIMITS, rpm_limit: 3 },
    });
  });

  it("is closed when no hold is open; then its keys are refused and its ledger stays", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(request("c1", 10));
    expect(await stub.close()).toEqual({ kind: "holds_open", openHolds: 1 });
    await stub.settle(settlement("c1", 4));
    expect(await stub.close()).toEqual({ kind: "closed" });
    expect(await stub.admit(request("c2", 1))).toMatchObject({ refusal: { kind: "bad_key", why: "blocked" } });
    expect(await manager(stub).createTeam(asId("t"), { name: "t", blocked: false, limits: NO_LIMITS })).toBeUndefined();
    expect((await stub.entries({ cursor: null, limit: 10 }))?.data).toHaveLength(2);
    expect(await stub.describe()).toMatchObject({ balanceNanoUsd: 96, deletedAtMs: Date.now() });
  });
});

describe("admission", () => {
  it("holds a true upper bound at prices with the plan's markup, and says for how long", async () => {
    const plan = { markupPercent: 50, overrides: {} };
    const { stub } = await newAccount({ balance: 1_000, account: { plan, onDisconnect: "drain" } });
    expect(await stub.admit(request("c1", 100))).toEqual({
      ok: true,
      hold: {
        callId: "c1",
        keyId: "key-k",
        amountNanoUsd: 150,
        livesMs: 120_000,
        longestCallMs: 3_480_000,
        onDisconnect: "drain",
      },
      rates: {},
      owned: [],
    });
  });

  it("fixes the prices: what the price book says later changes nothing for this call", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 100));
    await stub.amend({ plan: { markupPercent: 900, overrides: {} } });
    expect(await stub.settle(settlement("c1", 100))).toEqual({ state: "settled", chargedNanoUsd: 100 });
  });

  it("of 64 at once on a balance for 10, exactly 10 are served and the books are in order", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const admissions = await Promise.all(
      Array.from({ length: 64 }, (_, index) => stub.admit(request(`c${index}`, 100))),
    );
    const served = admissions.filter((admission) => admission.ok);
    expect(served).toHaveLength(10);
    for (const admission of admissions) {
      if (!admission.ok)
        expect(admission.refusal).toMatchObject({ kind: "no_credit", neededNanoUsd: 100, availableNanoUsd: 0 });
    }
    await expectSound(stub);
    await Promise.all(served.map(({ hold }) => stub.settle(settlement(hold.callId, 100))));
    // Ten calls, and that the balance is empty.
    expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 0, heldNanoUsd: 0, outbox: 11 });
  });

  it("lowers a cap that was left open to what the balance pays for, and says which", async () => {
    const { stub } = await newAccount({ balance: 60 });
    expect(await stub.admit(request("c1", 0, { bound: lowerable(10, 500) }))).toMatchObject({
      hold: { outputCap: 50, amountNanoUsd: 60 },
    });
    expect(await stub.admit(request("c2", 0, { bound: lowerable(0, 500) }))).toMatchObject({
      refusal: { kind: "no_credit", neededNanoUsd: 16, availableNanoUsd: 0, heldNanoUsd: 60 },
    });
  });

  it("serves what is free with nothing in the account, and refuses what has no price", async () => {
    const { stub } = await newAccount();
    const free = row({ free: true, costNanoUsd: {} });
    expect(await stub.admit(request("c1", 100, { row: free }))).toMatchObject({ ok: true, hold: { amountNanoUsd: 0 } });
    const unpriced = row({ costNanoUsd: { output_tokens: 1 } });
    expect(await stub.admit(request("c2", 100, { row: unpriced }))).toMatchObject({
      refusal: { kind: "model_not_priced", model: "m" },
    });
    expect(await stub.settle(settlement("c1", 100))).toEqual({ state: "settled", chargedNanoUsd: 0 });
    expect((await stub.entries({ cursor: null, limit: 9 }))?.data).toMatchObject([
      { kind: "charge", amountNanoUsd: 0 },
    ]);
  });

  it("asked for twice for one call gives the hold it has; an ended call is not held again", async () => {
    const { stub } = await newAccount({ balance: 100, key: { limits: limits({ rpm_limit: 1 }) } });
    const first = await stub.admit(request("c1", 60));
    expect(await stub.admit(request("c1", 60))).toEqual(first);
    expect(await stub.audit()).toMatchObject({ heldNanoUsd: 60, openHolds: 1 });
    await stub.settle(settlement("c1", 5));
    await expect(runInDurableObject(stub, (object) => object.admit(request("c1", 60)))).rejects.toThrow("used before");
    await expectSound(stub);
  });
});

describe("storage that fails", () => {
  it("means no hold: the call is not admitted, and nothing in memory says it was", async () => {
    const { stub } = await newAccount({
      balance: 100,
      key: { limits: limits({ rpm_limit: 5, max_parallel_requests: 1 }) },
    });
    const mend = await breakStorage(stub, (query) => query.startsWith("INSERT INTO holds"));
    await expect(runInDurableObject(stub, (object) => object.admit(request("c1", 60)))).rejects.toThrow("disk is full");
    await mend();
    expect(await stub.audit()).toMatchObject({ ok: true, heldNanoUsd: 0, openHolds: 0 });
    expect(await stub.admit(request("c1", 60))).toMatchObject({ ok: true, rates: { requests: { remaining: 4 } } });
  });

  it.each(["INSERT INTO entries", "UPDATE holds", "INSERT INTO outbox", "INSERT INTO operator_book"])(
    "during a settlement (%s) leaves the hold as it was; the next word settles it once",
    async (broken) => {
      const { stub } = await newAccount({ balance: 100 });
      await stub.admit(request("c1", 10));
      const mend = await breakStorage(stub, (query) => query.startsWith(broken));
      await expect(runInDurableObject(stub, (object) => object.settle(settlement("c1", 25)))).rejects.toThrow();
      await mend();
      expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 100, heldNanoUsd: 10, outbox: 0 });
      expect(await stub.settle(settlement("c1", 25))).toEqual({ state: "settled", chargedNanoUsd: 10 });
      // Its event, and the alert of so high an overrun.
      expect(await stub.audit()).toMatchObject({ ok: true, balanceNanoUsd: 90, overrunNanoUsd: 15, outbox: 2 });
    },
  );
});

describe("restarts", () => {
  it("keep balance, holds and what ended: nothing is lost and nothing is charged twice", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(request("c1", 10));
    await stub.admit(request("c2", 20));
    await stub.settle(settlement("c1", 5));
    await evictDurableObject(stub);
    expect(await stub.audit()).toMatchObject({
      ok: true,
      balanceNanoUsd: 95,
      heldNanoUsd: 20,
      openHolds: 1,
      outbox: 1,
    });
    expect(await stub.settle(settlement("c1", 9))).toEqual({ state: "settled", chargedNanoUsd: 5 });
    expect(await stub.settle(settlement("c2", 20))).toEqual({ state: "settled", chargedNanoUsd: 20 });
  });
});

describe("credits and entries", () => {
  it("count once per reference; another amount under it is a conflict", async () => {
    const { stub } = await newAccount();
    const first = await credit(stub, 70, "invoice-1");
    expect(first).toMatchObject({ kind: "booked", entry: { kind: "top_up", amountNanoUsd: 70, balanceNanoUsd: 70 } });
    await evictDurableObject(stub);
    expect(await credit(stub, 70, "invoice-1")).toEqual({ ...first, kind: "already_booked" });
    expect(await credit(stub, 71, "invoice-1")).toMatchObject({
      kind: "reference_conflict",
      entry: { amountNanoUsd: 70 },
    });
    expect(await stub.describe()).toMatchObject({ balanceNanoUsd: 70 });
  });

  it("beyond what is stored exactly are refused", async () => {
    const { stub } = await newAccount({ balance: MAX_NANO_USD });
    expect(await credit(stub, 1, "more")).toEqual({ kind: "out_of_range" });
    expect(await credit(stub, -1, "less")).toMatchObject({ kind: "booked" });
  });

  it("are listed newest first, page by page, with the balance after each", async () => {
    const { stub } = await newAccount();
    for (let index = 1; index <= 5; index++) await credit(stub, index, `r${index}`);
    const first = await stub.entries({ cursor: null, limit: 2 });
    expect(first?.data.map((entry) => entry.balanceNanoUsd)).toEqual([15, 10]);
    const second = await stub.entries({ cursor: first?.nextCursor ?? null, limit: 3 });
    expect(second).toMatchObject({
      data: [{ reference: "r3" }, { reference: "r2" }, { reference: "r1" }],
      nextCursor: null,
    });
    expect(await stub.entries({ cursor: "junk", limit: 3 })).toEqual({ data: [], nextCursor: null });
  });

  it("name the call, model and key of a charge", async () => {
    const { stub } = await newAccount({ balance: 100 });
    await stub.admit(request("c1", 10));
    await stub.settle(settlement("c1", 4));
    expect((await stub.entries({ cursor: null, limit: 1 }))?.data).toEqual([
      expect.objectContaining({
        kind: "charge",
        amountNanoUsd: -4,
        callId: "c1",
        model: "m",
        keyId: "key-k",
        reference: null,
      }),
    ]);
  });
});

describe("ids that the service handed out", () => {
  const ref = { kind: "response", id: "resp_1" } as const;
  const made = { ...ref, callId: call("c1"), upstream: "eu", targetModel: "m:1", model: "m", continues: null };
  const stored = { ...ref, upstream: "eu", targetModel: "m:1", model: "m" };

  it("are this account's alone: somebody else's answers as an unknown one does, and nothing is held", async () => {
    const [{ stub: mine }, { stub: theirs }] = [await newAccount({ balance: 100 }), await newAccount({ balance: 100 })];
    await mine.admit(request("c1", 10));
    await mine.recordOwnership(made);
    expect(await mine.authorize(digestOf("k"), freeCall("upstream", [ref]))).toMatchObject({
      ok: true,
      owned: [stored],
    });
    const missing = { ok: false, refusal: { kind: "id_not_found", what: "response" } };
    expect(await theirs.authorize(digestOf("k"), freeCall("upstream", [ref]))).toEqual(missing);
    expect(await theirs.admit(request("c2", 1, { owned: [ref] }))).toEqual(missing);
    expect(await theirs.audit()).toMatchObject({ openHolds: 0 });
  });

  it("bring the conversation's tokens into the next hold: the bound until the exact figure is known", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    const heldFor = async (id: string, some: Parameters<typeof request>[2] = {}) => {
      const admission = await stub.admit(request(id, 5, { owned: [ref], ...some }));
      return admission.ok ? admission.hold.amountNanoUsd : admission.refusal;
    };
    await stub.admit(request("c1", 100));
    await stub.recordOwnership(made);
    await stub.recordOwnership(made);
    expect(await heldFor("before")).toBe(105);
    await stub.settle(settlement("c1", { input_tokens: 30, output_tokens: 10 }));
    expect(await heldFor("after")).toBe(45);
    expect(await heldFor("context", { row: row({ contextTokens: 20 }) })).toBe(20);
    expect(await heldFor("other", { model: "other" })).toMatchObject({ kind: "invalid_request", param: "model" });
  });

  it.each([
    ["by our own count", { source: "own_count" }],
    ["by a figure that is far too low", { source: "exact", lowInput: true }],
  ] as const)("of a call that was settled %s count their bound, which no next turn may exceed", async (_, how) => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 100));
    await stub.recordOwnership(made);
    await stub.settle(settlement("c1", 0, { reading: { ...how, usage: { input_tokens: 1, output_tokens: 1 } } }));
    expect(await stub.authorize(digestOf("k"), freeCall("upstream", [ref]))).toMatchObject({
      owned: [{ totalTokens: 100 }],
    });
  });

  it("are kept a day after the conversation's last turn, then gone and pruned", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await fakeQueue(stub);
    await stub.admit(request("c1", 1));
    await stub.recordOwnership(made);
    await stub.settle(settlement("c1", 1));
    advance(20 * 3_600_000);
    await stub.recordOwnership({ ...made, id: "resp_2", callId: call("c2"), continues: "resp_1" });
    advance(24 * 3_600_000 - 1);
    expect(await stub.authorize(digestOf("k"), freeCall("upstream", [ref]))).toMatchObject({ ok: true });
    advance(1);
    expect(await stub.authorize(digestOf("k"), freeCall("upstream", [ref]))).toMatchObject({
      refusal: { kind: "id_not_found" },
    });
    await runDurableObjectAlarm(stub);
    expect(await rows(stub, "SELECT * FROM owned_ids")).toEqual([]);
    expect(await rows(stub, "SELECT * FROM conversations")).toEqual([]);
  });
});

describe("the audit", () => {
  it.each([
    ["an entry's amount", "UPDATE entries SET amount_nano_usd = amount_nano_usd + 1 WHERE kind = 'top_up'"],
    ["a running balance", "UPDATE entries SET balance_nano_usd = 7 WHERE kind = 'top_up'"],
    ["a charge that vanished", "DELETE FROM entries WHERE call_id = 'c1'"],
    ["a hold's amount", "UPDATE holds SET amount_nano_usd = 99 WHERE call_id = 'c2'"],
    ["a hold that vanished", "DELETE FROM holds WHERE call_id = 'c2'"],
    ["a loss that vanished", "DELETE FROM operator_book"],
    ["a window's tokens", "UPDATE holds SET counted_tokens = 999 WHERE call_id = 'c1'"],
    [
      "an entry made twice",
      "INSERT INTO entries SELECT id + 10, kind, 0, balance_nano_usd, at_ms, call_id, model, key_id, team_id, reference, note, NULL FROM entries WHERE call_id = 'c1'",
    ],
  ])("names what does not add up: %s", async (_, tamper) => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c0", 7));
    advance(121_000);
    await stub.admit(request("c1", 10));
    await stub.admit(request("c2", 20));
    await stub.settle(settlement("c1", 5));
    await expectSound(stub);
    await rows(stub, tamper);
    const audit = await stub.audit();
    expect(audit?.ok).toBe(false);
    expect(audit?.problems.length).toBeGreaterThan(0);
  });

  it("a charged call whose earlier tries may have been executed: each is the operator's loss, up to what was held", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 10));
    await stub.settle(settlement("c1", 4, { lostTries: 2 }));
    await stub.settle(settlement("c1", 4, { lostTries: 2 }));
    await stub.admit(request("c2", 10));
    await stub.release(releaseOf("c2", 3));
    await stub.admit(request("late", 10));
    advance(121_000);
    await expectSound(stub);
    await stub.settle(settlement("late", 4, { lostTries: 1 }));
    expect(await stub.audit()).toMatchObject({
      ok: true,
      balanceNanoUsd: 992,
      operatorLossNanoUsd: 2 * 10 + 3 * 10 + 10,
      overrunNanoUsd: 0,
    });
    const events = await rows(stub, "SELECT event FROM outbox ORDER BY seq");
    const losses = events.map(({ event }) => (JSON.parse(String(event)) as { lossNanoUsd: number }).lossNanoUsd);
    expect(losses).toEqual([20, 30, 10, 0]);
  });

  it("reports what is open, lost and overrun", async () => {
    const { stub } = await newAccount({ balance: 1_000 });
    await stub.admit(request("c1", 10));
    await stub.settle(settlement("c1", 12));
    await stub.admit(request("c2", 20));
    await stub.release(releaseOf("c2", 1));
    await stub.admit(request("c3", 30, { row: row({ costNanoUsd: perToken(2) }) }));
    expect(await stub.audit()).toEqual({
      ok: true,
      entriesNanoUsd: 990,
      balanceNanoUsd: 990,
      heldNanoUsd: 60,
      overrunNanoUsd: 2,
      operatorLossNanoUsd: 20,
      openHolds: 1,
      openLeases: 0,
      oldestHoldAtMs: Date.now(),
      // Two calls, and the high overrun.
      outbox: 3,
      problems: [],
    });
  });
});

it("the audit names storage that holds money past its first day, or owes or was charged a day that has not begun", async () => {
  const { stub } = await newAccount();
  const insert = (id: number, rental: object) =>
    runInDurableObject(stub, (_, { storage }) => {
      storage.sql.exec(
        "INSERT INTO resources VALUES (?1, 'drive', ?2, 'seat', 'book', ?3, 0, NULL, 1)",
        id,
        `tag-${id}`,
        JSON.stringify({ rental: { phase: "kept", heldNanoUsd: null, n: 3, unpaid: [], ...rental } }),
      );
    });
  await insert(1000, {});
  await insert(1001, { unpaid: [2, 3] });
  expect((await stub.audit())?.problems).toEqual([]);
  await insert(1002, { heldNanoUsd: 5 });
  await insert(1003, { unpaid: [3, 4] });
  await insert(1004, { unpaid: [3, 2] });
  await insert(1005, { unpaid: [2, 2] });
  expect((await stub.audit())?.problems).toEqual([
    "a resource's open hold is not the one that its row has: tag-1002",
    "a drive or filesystem holds money for more than its first day: tag-1002",
    "a day of storage is owed that has not begun, or twice: tag-1003, tag-1004, tag-1005",
  ]);
});

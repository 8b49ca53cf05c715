import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  creditRefusal,
  floorOf,
  lateCharge,
  type Money,
  mayCredit,
  moneyRoom,
  splitCharge,
} from "../../../src/core/account/ledger.ts";
import { MAX_NANO_USD } from "../../../src/core/pricing/money.ts";
import { LEDGER_SCENARIOS, type LedgerDriver, runLedgerScenario } from "../../support/ledger-scenarios.ts";

/** The smallest ledger that the rules make: sums and a map of holds. */
class RuleLedger implements LedgerDriver {
  #money = { balanceNanoUsd: 0, heldNanoUsd: 0, floorNanoUsd: 0 };
  readonly #holds = new Map<
    string,
    { amount: number; state: string; charged: number; reported: number; corrected: boolean; loss: number }
  >();
  #overrun = 0;

  async credit(amount: number) {
    if (!mayCredit(this.#money, amount > 0 ? "top_up" : "correction", amount)) return "out_of_range";
    this.#money.balanceNanoUsd += amount;
    return "booked";
  }

  async hold(id: string, amount: number) {
    const refusal = creditRefusal(this.#money, amount);
    if (refusal) return refusal.kind;
    this.#holds.set(id, { amount, state: "open", charged: 0, reported: 0, corrected: false, loss: 0 });
    this.#money.heldNanoUsd += amount;
    return "ok";
  }

  async settle(id: string, actual: number) {
    return this.#end(id, "settled", actual);
  }

  async release(id: string) {
    return this.#end(id, "released", 0);
  }

  async report(id: string, soFar: number) {
    const hold = this.#holds.get(id);
    if (hold) hold.reported = soFar;
  }

  async expire() {
    for (const [id, hold] of this.#holds) {
      if (hold.state !== "open") continue;
      this.#end(id, "expired", Math.min(hold.reported, hold.amount));
      hold.loss = hold.amount - hold.charged;
    }
  }

  async floor(amount: number) {
    this.#money.floorNanoUsd = amount;
  }

  async state() {
    const loss = [...this.#holds.values()].reduce((sum, each) => sum + each.loss, 0);
    return { balance: this.#money.balanceNanoUsd, held: this.#money.heldNanoUsd, overrun: this.#overrun, loss };
  }

  #end(id: string, state: string, actual: number) {
    const hold = this.#holds.get(id);
    if (!hold) return { state: "unknown", charged: 0 };
    if (hold.state === "expired" && !hold.corrected) this.#correct(hold, state, actual);
    if (hold.state === "open") {
      const { chargedNanoUsd, overrunNanoUsd } = splitCharge(actual, hold.amount);
      this.#money.balanceNanoUsd -= chargedNanoUsd;
      this.#money.heldNanoUsd -= hold.amount;
      this.#overrun += overrunNanoUsd;
      Object.assign(hold, { state, charged: chargedNanoUsd });
    }
    return { state: hold.state, charged: hold.charged };
  }

  #correct(hold: { amount: number; charged: number; corrected: boolean; loss: number }, state: string, actual: number) {
    hold.corrected = true;
    hold.loss = 0;
    if (state === "released") return;
    const late = lateCharge(
      actual,
      { amountNanoUsd: hold.amount, chargedNanoUsd: hold.charged },
      moneyRoom(this.#money),
    );
    this.#money.balanceNanoUsd += hold.charged - late.chargedNanoUsd;
    this.#overrun += late.overrunNanoUsd;
    Object.assign(hold, { charged: late.chargedNanoUsd, loss: late.unpaidNanoUsd });
  }
}

describe("the ledger's rules", () => {
  it.each(Object.entries(LEDGER_SCENARIOS))("%s", (_, text) => runLedgerScenario(text, new RuleLedger()));
});

const money = fc.record({
  balanceNanoUsd: fc.integer({ min: -MAX_NANO_USD, max: MAX_NANO_USD }),
  heldNanoUsd: fc.integer({ min: 0, max: MAX_NANO_USD }),
  floorNanoUsd: fc.integer({ min: -MAX_NANO_USD, max: 0 }),
});
const amount = fc.integer({ min: 1, max: MAX_NANO_USD });

describe("room", () => {
  it("what is admitted leaves the balance less holds at the floor or above; what is not would not", () => {
    fc.assert(
      fc.property(money, amount, (now, more) => {
        const after: Money = { ...now, heldNanoUsd: now.heldNanoUsd + more };
        expect(creditRefusal(now, more) === undefined).toBe(moneyRoom(after) >= 0);
      }),
    );
  });

  it("whatever a call came to, tenant and operator together pay exactly that, the tenant at most the hold", () => {
    fc.assert(
      fc.property(amount, amount, (actual, held) => {
        const { chargedNanoUsd, overrunNanoUsd } = splitCharge(actual, held);
        expect(chargedNanoUsd + overrunNanoUsd).toBe(actual);
        expect(chargedNanoUsd).toBeLessThanOrEqual(held);
        expect(overrunNanoUsd).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  it("what costs nothing needs no credit, not even where the floor was raised over the balance", () => {
    const below: Money = { balanceNanoUsd: 1, heldNanoUsd: 0, floorNanoUsd: 5 };
    expect(creditRefusal(below, 0)).toBeUndefined();
    expect(creditRefusal(below, 1)).toMatchObject({ kind: "no_credit", availableNanoUsd: 0 });
  });

  it("a late charge is what is due, or what there is room for; tenant and operator together bear all of it", () => {
    const any = fc.integer({ min: 0, max: 1_000 });
    fc.assert(
      fc.property(any, any, any, fc.integer({ min: -500, max: 1_000 }), (actual, held, reported, room) => {
        const before = Math.min(reported, held);
        const late = lateCharge(actual, { amountNanoUsd: held, chargedNanoUsd: before }, room);
        expect(late.chargedNanoUsd + late.unpaidNanoUsd + late.overrunNanoUsd).toBe(actual);
        expect(late.chargedNanoUsd).toBeLessThanOrEqual(Math.min(actual, held));
        expect(late.chargedNanoUsd - before).toBeLessThanOrEqual(Math.max(0, room));
        expect(Math.min(late.unpaidNanoUsd, late.overrunNanoUsd, late.chargedNanoUsd)).toBeGreaterThanOrEqual(0);
        // Nothing is lost while there is room.
        if (room >= held) expect(late.chargedNanoUsd).toBe(Math.min(actual, held));
      }),
    );
  });

  it("the floor is zero, or the credit limit of who pays monthly, and never beyond what is stored exactly", () => {
    expect(floorOf({ billsMonthly: false, creditLimitNanoUsd: 5 })).toBe(0);
    expect(floorOf({ billsMonthly: true, creditLimitNanoUsd: 5 })).toBe(-5);
    expect(floorOf({ billsMonthly: true, creditLimitNanoUsd: Number.MAX_SAFE_INTEGER })).toBe(-MAX_NANO_USD);
  });
});

describe("credits", () => {
  const empty: Money = { balanceNanoUsd: 0, heldNanoUsd: 0, floorNanoUsd: 0 };

  it("keep the balance within what is stored exactly", () => {
    expect(mayCredit(empty, "top_up", MAX_NANO_USD)).toBe(true);
    expect(mayCredit({ ...empty, balanceNanoUsd: 1 }, "top_up", MAX_NANO_USD)).toBe(false);
    expect(mayCredit({ ...empty, floorNanoUsd: -MAX_NANO_USD }, "correction", -MAX_NANO_USD)).toBe(true);
    expect(mayCredit({ ...empty, floorNanoUsd: -MAX_NANO_USD, balanceNanoUsd: -1 }, "refund", -MAX_NANO_USD)).toBe(
      false,
    );
    for (const odd of [0.5, Number.NaN, Number.POSITIVE_INFINITY])
      expect(mayCredit(empty, "correction", odd)).toBe(false);
  });

  it("are each within 9 million USD, also where the balance would be", () => {
    expect(mayCredit({ ...empty, balanceNanoUsd: -1 }, "top_up", MAX_NANO_USD + 1)).toBe(false);
    expect(mayCredit({ ...empty, balanceNanoUsd: -1 }, "top_up", MAX_NANO_USD)).toBe(true);
  });

  it("that take nothing away are booked below the floor too", () => {
    const below: Money = { balanceNanoUsd: -10, heldNanoUsd: 0, floorNanoUsd: 0 };
    expect(mayCredit(below, "top_up", 5)).toBe(true);
    expect(mayCredit(below, "correction", 0)).toBe(true);
    expect(mayCredit(below, "correction", -1)).toBe(false);
  });

  it("add, where they are top-ups", () => {
    expect(mayCredit({ ...empty, balanceNanoUsd: 10 }, "top_up", -5)).toBe(false);
    expect(mayCredit({ ...empty, balanceNanoUsd: 10 }, "top_up", 0)).toBe(false);
    expect(mayCredit({ ...empty, balanceNanoUsd: 10 }, "refund", -5)).toBe(true);
    expect(mayCredit({ ...empty, balanceNanoUsd: 10 }, "refund", 5)).toBe(false);
  });
});

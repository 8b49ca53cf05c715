/** The smallest books that a rental's acts can be booked in: a balance, holds by number, charges, losses. */
import { expect } from "vitest";
import type { Act, MoneyAct } from "../../../src/core/compute/rental.ts";

type Charge = Extract<MoneyAct, { act: "charge" }>;

export class RentalBooks {
  balance: number;
  readonly holds = new Map<number, number>();
  readonly charges: Charge[] = [];
  readonly corrections: Extract<MoneyAct, { act: "correct" }>[] = [];
  readonly ended = new Map<number, "charged" | "released">();
  readonly losses = new Map<number, number>();
  readonly events: string[] = [];
  #newest = 0;

  constructor(balance: number) {
    this.balance = balance;
  }

  get held(): number {
    return [...this.holds.values()].reduce((sum, amount) => sum + amount, 0);
  }
  get room(): number {
    return this.balance - this.held;
  }

  book(acts: readonly Act[]): void {
    for (const act of acts) this.#bookOne(act);
    expect(this.room).toBeGreaterThanOrEqual(0);
    expect(this.holds.size).toBeLessThanOrEqual(1);
  }

  #bookOne(act: Act): void {
    switch (act.act) {
      case "hold":
        // A day of storage that was unpaid may be paid later than a newer number: numbers only rise by one.
        expect(act.n).toBe(this.#newest + 1);
        this.#newest = act.n;
        expect(act.amountNanoUsd).toBeGreaterThanOrEqual(0);
        this.holds.set(act.n, act.amountNanoUsd);
        return;
      case "resize":
        expect(this.holds.has(act.n)).toBe(true);
        expect(act.amountNanoUsd).toBeGreaterThanOrEqual(0);
        this.holds.set(act.n, act.amountNanoUsd);
        return;
      case "charge":
        expect(act.amountNanoUsd).toBeGreaterThanOrEqual(0);
        expect(act.amountNanoUsd).toBeLessThanOrEqual(this.holds.get(act.n) ?? -1);
        this.#end(act.n, "charged");
        this.balance -= act.amountNanoUsd;
        this.charges.push(act);
        return;
      case "release":
        expect(this.holds.has(act.n)).toBe(true);
        this.#end(act.n, "released");
        return;
      case "correct":
        expect(act.amountNanoUsd).toBeGreaterThanOrEqual(0);
        expect(act.costNanoUsd).toBeGreaterThanOrEqual(0);
        this.balance += act.amountNanoUsd;
        this.corrections.push(act);
        return;
      case "loss":
        expect(act.costNanoUsd).toBeGreaterThanOrEqual(0);
        this.losses.set(act.n, act.costNanoUsd);
        return;
      case "event":
        this.events.push(act.event);
    }
  }

  #end(n: number, how: "charged" | "released"): void {
    expect(this.ended.has(n)).toBe(false);
    this.ended.set(n, how);
    this.holds.delete(n);
  }

  /** What stayed charged: each period without what was given back of it. */
  stretches(): { n: number; fromMs: number; toMs: number; amountNanoUsd: number }[] {
    return this.charges.map(({ n, fromMs, toMs, amountNanoUsd }) => {
      const back = this.corrections.filter((one) => one.n === n);
      return {
        n,
        fromMs,
        toMs: Math.min(toMs, ...back.map((one) => one.fromMs)),
        amountNanoUsd: back.reduce((left, one) => left - one.amountNanoUsd, amountNanoUsd),
      };
    });
  }
}

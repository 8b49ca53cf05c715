import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { askEnd, closeMachine } from "../../../src/core/compute/machine-books.ts";
import {
  begin,
  extend,
  extensionHold,
  launchHold,
  openMachine,
  preempt,
  resume,
  takeBackExtension,
} from "../../../src/core/compute/machine-rental.ts";
import {
  gpuMs,
  type MachineRental,
  msFor,
  type Rate,
  rateFor,
  type Step,
  type TurnFacts,
} from "../../../src/core/compute/rental.ts";
import { turn, turnDueMs } from "../../../src/core/compute/rental-turn.ts";
import { RentalBooks } from "../../support/compute/books.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const LENGTHS = { hourMs: HOUR, dayMs: DAY };
const RATE: Rate = { unit: "gpu_hours", size: 2, priceNanoUsd: 4_000_000_007, costNanoUsd: 3_000_000_001 };
const START = 1_700_000_000_000;

/** A rental beside its books: every step is booked at once. */
class Life {
  rental: MachineRental;
  readonly books: RentalBooks;
  stop: string | null = null;
  readonly rate: Rate;

  constructor(balance: number, hours: number | null, rate = RATE) {
    this.rate = rate;
    this.books = new RentalBooks(balance);
    const opened = openMachine(rate, hours);
    this.rental = opened.rental;
    this.books.book(opened.acts);
  }
  take(step: Step<MachineRental>): this {
    this.rental = step.rental;
    this.books.book(step.acts);
    if (step.stop && this.stop === null) {
      this.stop = step.stop;
    }
    return this;
  }
  facts(room = this.books.room): TurnFacts {
    return { ...LENGTHS, roomNanoUsd: room, graceDays: 7, mounted: false };
  }
  turn(nowMs: number, room?: number): this {
    return this.take(turn(this.rental, nowMs, this.facts(room)));
  }
  get charged(): number {
    return this.books.stretches().reduce((sum, one) => sum + one.amountNanoUsd, 0);
  }
}

const usd = (amount: number) => amount * 1_000_000_000;

describe("amounts", () => {
  const ms = fc.integer({ min: 0, max: 80 * HOUR });
  const rate = fc.integer({ min: 1, max: usd(500) });
  it("what an amount pays for never costs more than it, and one ms more would", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: usd(10_000) }),
        fc.integer({ min: 1_000_000, max: usd(500) }),
        (amount, price) => {
          const paid = msFor(amount, price, HOUR);
          expect(rateFor(price, paid, HOUR)).toBeLessThanOrEqual(amount);
          expect(BigInt(price) * BigInt(paid + 1) > BigInt(amount) * BigInt(HOUR)).toBe(true);
        },
      ),
    );
  });
  it("a stretch is rounded up, once, and is exact over whole hours", () => {
    fc.assert(
      fc.property(ms, rate, (length, price) => {
        const exact = BigInt(price) * BigInt(length);
        const amount = BigInt(rateFor(price, length, HOUR)) * BigInt(HOUR);
        expect(amount - exact >= 0n && amount - exact < BigInt(HOUR)).toBe(true);
      }),
    );
    expect(rateFor(RATE.priceNanoUsd, 3 * HOUR, HOUR)).toBe(3 * RATE.priceNanoUsd);
  });
  it("usage counts true hours where the billing hour is short", () => {
    expect(gpuMs(8, 1_000, 1_000)).toBe(8 * HOUR);
    expect(msFor(Number.POSITIVE_INFINITY, 1, HOUR)).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe("by the hour", () => {
  it("an hour is held at launch, and each turn charges the hour that ends and holds the next", () => {
    const life = new Life(usd(100), null);
    expect(life.books.held).toBe(launchHold(RATE, null));
    life.take(begin(life.rental, START, LENGTHS)).turn(START + HOUR - 1);
    expect(life.books.charges).toEqual([]);
    life.turn(START + HOUR);
    expect(life.charged).toBe(RATE.priceNanoUsd);
    expect(life.rental).toMatchObject({ n: 2, heldNanoUsd: RATE.priceNanoUsd });
    expect(turnDueMs(life.rental, life.facts())).toBe(START + 2 * HOUR);
  });

  it("a late turn pays for what it missed and for the hour from now on", () => {
    const life = new Life(usd(100), null);
    life.take(begin(life.rental, START, LENGTHS)).turn(START + 3 * HOUR);
    expect(life.rental.phase).toMatchObject({ fromMs: START + HOUR, paidUntilMs: START + 4 * HOUR });
    expect(life.rental.heldNanoUsd).toBe(3 * RATE.priceNanoUsd);
  });

  it("where an hour cannot be paid the rest is held, and money that comes in is taken every 10 s", () => {
    const life = new Life(RATE.priceNanoUsd + RATE.priceNanoUsd / 2 - 0.5, null);
    life.take(begin(life.rental, START, LENGTHS)).turn(START + HOUR);
    expect(life.stop).toBeNull();
    expect(life.rental.phase).toMatchObject({ goalMs: START + 2 * HOUR });
    const due = turnDueMs(life.rental, life.facts());
    expect(due).toBe(START + HOUR + 10_000);
    life.books.balance += usd(50);
    life.turn(START + HOUR + 9_999);
    expect(turnDueMs(life.rental, life.facts())).toBe(due);
    life.turn(START + HOUR + 10_000);
    expect(life.rental.heldNanoUsd).toBe(RATE.priceNanoUsd);
    expect(turnDueMs(life.rental, life.facts())).toBe(START + 2 * HOUR);
  });

  it("without room it is stopped at the end of what is paid, and the charge is the hold", () => {
    const life = new Life(RATE.priceNanoUsd, null);
    life.take(begin(life.rental, START, LENGTHS)).turn(START + HOUR + 500);
    expect(life.stop).toBe("credit_depleted");
    expect(life.charged).toBe(RATE.priceNanoUsd);
    expect(life.rental.phase).toMatchObject({ at: "ending", endMs: START + HOUR });
    const seen = { endMs: START + 2 * HOUR, ranUntilMs: START + 2 * HOUR };
    life.take(closeMachine(life.rental, seen, START + 2 * HOUR, LENGTHS));
    expect(life.charged).toBe(RATE.priceNanoUsd);
    expect([...life.books.losses.values()]).toEqual([RATE.costNanoUsd]);
  });

  it("a stop that does not land is a growing loss, and said to be overdue every five minutes", () => {
    const life = new Life(RATE.priceNanoUsd, null);
    life.take(begin(life.rental, START, LENGTHS)).turn(START + HOUR);
    for (let at = START + HOUR; at <= START + 4 * HOUR; at = turnDueMs(life.rental, life.facts()) as number) {
      life.turn(at);
    }
    expect(life.books.events).toHaveLength(36);
    expect(new Set(life.books.events)).toEqual(new Set(["stop_overdue"]));
    expect(life.books.losses.get(life.rental.n)).toBe(3 * RATE.costNanoUsd);
    expect(life.charged).toBe(RATE.priceNanoUsd);
  });

  it("the request to end ends the charge, booked when the end is seen or ten minutes later", () => {
    const life = new Life(usd(100), null);
    life.take(begin(life.rental, START, LENGTHS)).take(askEnd(life.rental, START + 60_000));
    life.turn(START + 659_999);
    expect(life.books.charges).toEqual([]);
    life.turn(START + 660_000);
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 60_000, HOUR));
    expect(life.books.held).toBe(0);
    life.take(
      closeMachine(life.rental, { endMs: START + 700_000, ranUntilMs: START + 700_000 }, START + 700_000, LENGTHS),
    );
    expect(life.books.losses.get(1)).toBe(rateFor(RATE.costNanoUsd, 640_000, HOUR));
  });

  it("what never ran costs nothing", () => {
    const life = new Life(usd(100), null);
    life.take(askEnd(life.rental, START)).take(begin(life.rental, START + 5, LENGTHS));
    life.take(closeMachine(life.rental, { endMs: START + 9, ranUntilMs: null }, START + 9, LENGTHS));
    expect(life.books.ended.get(1)).toBe("released");
    expect(life.books.balance).toBe(usd(100));
  });

  it("what failed is charged to its end, and what was charged past it comes back", () => {
    const life = new Life(usd(100), null);
    life
      .take(begin(life.rental, START, LENGTHS))
      .turn(START + HOUR)
      .turn(START + 2 * HOUR);
    const endMs = START + HOUR / 2;
    life.take(closeMachine(life.rental, { endMs, ranUntilMs: endMs }, START + 2 * HOUR + 9, LENGTHS));
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, HOUR / 2, HOUR));
    expect(life.books.corrections.map(({ n, quantity }) => [n, quantity])).toEqual([
      [1, HOUR],
      [2, 2 * HOUR],
    ]);
    expect(life.books.held).toBe(0);
  });
});

describe("a fixed run", () => {
  it("is held whole, charged by the hour out of its hold, and needs no room", () => {
    const life = new Life(5 * RATE.priceNanoUsd, 5);
    life.take(begin(life.rental, START, LENGTHS));
    for (let hour = 1; hour <= 5; hour++) life.turn(START + hour * HOUR, -1);
    expect(life.charged).toBe(4 * RATE.priceNanoUsd);
    life.turn(START + 5 * HOUR + 29_999, -1);
    expect(life.stop).toBeNull();
    life.turn(START + 5 * HOUR + 30_000, -1);
    expect(life.stop).toBe("duration_expired");
    expect(life.charged).toBe(5 * RATE.priceNanoUsd);
  });

  it("an extension moves the end and its money, and taking it back restores both", () => {
    const life = new Life(usd(100), 2);
    life.take(begin(life.rental, START, LENGTHS));
    const before = life.rental;
    expect(extensionHold(before, 3)).toBe(3 * RATE.priceNanoUsd);
    life.take(extend(life.rental, 3, LENGTHS));
    expect(life.books.held).toBe(5 * RATE.priceNanoUsd);
    expect(life.rental).toMatchObject({ hours: 5, phase: { paidUntilMs: START + 5 * HOUR } });
    life.take(takeBackExtension(life.rental, 3, LENGTHS));
    expect(life.rental).toEqual(before);
  });

  it("preempted: nothing is charged meanwhile, and the end moves along", () => {
    const life = new Life(usd(100), 3);
    life.take(begin(life.rental, START, LENGTHS)).take(preempt(life.rental, START + HOUR / 2, LENGTHS));
    expect(life.charged).toBe(RATE.priceNanoUsd / 2 + 0.5);
    life.turn(START + 2 * HOUR).take(resume(life.rental, START + 2 * HOUR, LENGTHS));
    expect(life.rental.phase).toMatchObject({ fromMs: START + 2 * HOUR, paidUntilMs: START + 4.5 * HOUR });
    life.turn(START + 5 * HOUR);
    expect(life.stop).toBe("duration_expired");
    expect(Math.abs(life.charged - 3 * RATE.priceNanoUsd)).toBeLessThanOrEqual(life.books.charges.length);
  });

  it("preempted for a day it is released, and stopped if it returns", () => {
    const life = new Life(usd(100), 3);
    life.take(begin(life.rental, START, LENGTHS)).take(preempt(life.rental, START + HOUR, LENGTHS));
    life.turn(START + HOUR + DAY);
    expect(life.books.held).toBe(0);
    life.take(resume(life.rental, START + HOUR + DAY + 1, LENGTHS));
    expect(life.stop).toBe("preempted");
    expect(life.books.events).toEqual(["resumed_late"]);
  });
});

it("a fixed run whose hold was released while it was preempted has no money to run on", () => {
  const life = new Life(usd(100), 3);
  life.take(begin(life.rental, START, LENGTHS)).take(preempt(life.rental, START + HOUR, LENGTHS));
  life.turn(START + HOUR + DAY);
  // Seen late: it had resumed just before its day was over.
  life.take(resume(life.rental, START + HOUR + DAY - 1_000, LENGTHS));
  expect([life.stop, life.books.held]).toEqual(["preempted", 0]);
});

/** What may happen after a while. `late`: an alarm that comes later than it was due, in ms. */
const act = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("turn" as const), late: fc.nat(2 * HOUR) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("due" as const), late: fc.nat(30_000) }) },
  fc.record({ kind: fc.constant("credit" as const), amount: fc.nat(usd(9)) }),
  fc.record({ kind: fc.constant("spend" as const), amount: fc.nat(usd(9)) }),
  fc.record({ kind: fc.constant("preempt" as const), ago: fc.nat(90_000) }),
  fc.record({ kind: fc.constant("resume" as const), after: fc.nat(2 * HOUR) }),
  fc.record({ kind: fc.constant("extend" as const), hours: fc.integer({ min: 1, max: 4 }), back: fc.boolean() }),
);
const history = fc.record({
  balance: fc.integer({ min: usd(5), max: usd(60) }),
  price: fc.integer({ min: 1, max: usd(5) }),
  hours: fc.option(fc.integer({ min: 1, max: 6 })),
  acts: fc.array(act, { maxLength: 25 }),
  end: fc.constantFrom("terminate" as const, "fail" as const, "none" as const),
});

it("whatever happens: one hold, dense periods that tile, no charge above its hold or while preempted", () => {
  fc.assert(
    fc.property(history, ({ balance, price, hours, acts, end }) => {
      const rate: Rate = { ...RATE, priceNanoUsd: price };
      fc.pre(launchHold(rate, hours) <= balance);
      const life = new Life(balance, hours, rate);
      let now = START + 1_000;
      const pauses: [number, number][] = [];
      life.take(begin(life.rental, START, LENGTHS));
      for (const one of acts) {
        const { phase } = life.rental;
        if (one.kind === "turn" || one.kind === "due") {
          const due = turnDueMs(life.rental, life.facts());
          now = Math.max(now, (one.kind === "due" ? (due ?? now) : now) + one.late);
          const { room } = life.books;
          const held = life.rental.heldNanoUsd ?? 0;
          const before = life.stop;
          life.turn(now);
          const again = turn(life.rental, now, life.facts());
          expect(again.acts).toEqual([]);
          expect(again.stop).toBeNull();
          if (life.stop === "credit_depleted" && before === null && phase.at === "running") {
            // Who can pay what was missed and a millisecond more is not stopped.
            const rest = room + held - rateFor(price, phase.paidUntilMs - phase.fromMs, HOUR);
            expect(rest).toBeLessThan(rateFor(price, now + 1 - phase.paidUntilMs, HOUR));
          }
        } else if (one.kind === "credit") life.books.balance += one.amount;
        else if (one.kind === "spend") life.books.balance -= Math.min(one.amount, life.books.room);
        else if (one.kind === "preempt") {
          if (phase.at !== "running") continue;
          life.turn(now);
          // It was last seen running after it was seen to resume.
          const sinceMs = Math.max(now - one.ago, pauses.at(-1)?.[1] ?? START);
          const was = life.rental.phase.at;
          life.take(preempt(life.rental, sinceMs, LENGTHS));
          if (was !== "running") continue;
          const before = pauses.at(-1);
          // Preempted again before it ran: one pause.
          if (before?.[1] === sinceMs) before[1] = now;
          else pauses.push([sinceMs, now]);
        } else if (one.kind === "resume") {
          if (phase.at !== "preempted") continue;
          now += one.after;
          const [last] = pauses.slice(-1);
          if (last) last[1] = now;
          life.take(resume(life.rental, now, LENGTHS)).turn(now);
        } else {
          life.turn(now);
          if (extensionHold(life.rental, one.hours) > life.books.room) continue;
          life.take(extend(life.rental, one.hours, LENGTHS));
          if (one.back) life.take(takeBackExtension(life.rental, one.hours, LENGTHS));
        }
      }
      if (end === "terminate") {
        life.turn(now).take(askEnd(life.rental, now));
        now += 700_000;
        life.turn(now).take(closeMachine(life.rental, { endMs: now, ranUntilMs: now }, now, LENGTHS));
      } else if (end === "fail") {
        const endMs = now - 30_000;
        life.turn(now).take(closeMachine(life.rental, { endMs, ranUntilMs: endMs }, now, LENGTHS));
        for (const { toMs, fromMs } of life.books.stretches()) {
          if (toMs > fromMs) expect(toMs).toBeLessThanOrEqual(endMs);
        }
      }
      if (end !== "none") {
        expect(life.books.held).toBe(0);
        expect(life.rental.phase.at).toBe("ended");
      }
      const stretches = life.books.stretches();
      expect(stretches.map(({ n }) => n)).toEqual(stretches.map((_, index) => index + 1));
      let at = START;
      for (const { fromMs, toMs } of stretches.filter((one) => one.toMs > one.fromMs)) {
        expect(fromMs).toBeGreaterThanOrEqual(at);
        // A gap is a preemption, nothing else.
        if (fromMs > at) expect(pauses.some(([from, to]) => from <= at && to >= fromMs)).toBe(true);
        at = toMs;
        for (const [from, to] of pauses) expect(Math.min(toMs, to) - Math.max(fromMs, from)).toBeLessThanOrEqual(0);
      }
      const ms = stretches.reduce((sum, one) => sum + one.toMs - one.fromMs, 0);
      const exact = (BigInt(price) * BigInt(ms)) / BigInt(HOUR);
      const off = BigInt(life.charged) - exact;
      expect(off >= -BigInt(stretches.length) - 1n && off <= BigInt(stretches.length)).toBe(true);
    }),
    { numRuns: 400 },
  );
});

/** A clock that was ahead and is set back: what its rows say lies after now is moved to now, with the money. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rentalSetBack, rowSetBack } from "../../../src/core/compute/clock-back.ts";
import { extend } from "../../../src/core/compute/machine-rental.ts";
import { type MachineDocument, observed } from "../../../src/core/compute/observe.ts";
import { rateFor } from "../../../src/core/compute/rental.ts";
import { turnDueMs } from "../../../src/core/compute/rental-turn.ts";
import { instanceStatus, type MachineRow } from "../../../src/core/compute/resource.ts";
import { next, sent, wantEnd } from "../../../src/core/compute/wants.ts";
import { HOUR, LENGTHS, RATE, RowLife, SENT, shows } from "../../support/compute/rows.ts";

const START = SENT + 2_000;
const MINUTE = 60_000;
const facts = { ...LENGTHS, graceDays: null };

class Clocked extends RowLife {
  sees(document: MachineDocument, nowMs: number): this {
    const shown = { kind: "found", document, sameUntilMs: null } as const;
    return this.take(observed(this.row, shown, nowMs - 50, nowMs, LENGTHS)).turn(nowMs);
  }
  setBack(nowMs: number): this {
    const { row, acts } = rowSetBack(this.row, nowMs, LENGTHS);
    return this.take({ row: row as MachineRow, acts }).turn(nowMs);
  }
  ends(nowMs: number): this {
    this.turn(nowMs);
    this.row = wantEnd(this.row, "user", nowMs);
    return this.sees(shows("ended", { terminatedAtMs: nowMs }), nowMs + 1_000);
  }
  get chargedMs(): number {
    return this.books.stretches().reduce((sum, one) => sum + one.toMs - one.fromMs, 0);
  }
}

/** The stretches that stayed charged follow one another from the start on. */
function expectTiled(life: Clocked, toMs: number): void {
  const charged = life.books.stretches().filter((one) => one.toMs > one.fromMs);
  let at = START;
  for (const one of charged) {
    expect(one.fromMs).toBe(at);
    at = one.toMs;
  }
  expect(at).toBe(toMs);
}

const whileAhead = fc.array(
  fc.record({ afterMs: fc.integer({ min: 1_000, max: 25 * MINUTE }), looks: fc.boolean(), extends: fc.boolean() }),
  { minLength: 1, maxLength: 4 },
);

it.each([
  ["by the hour", null, 100 * HOUR],
  ["for a fixed time", 60, 20 * HOUR],
] as const)("a machine %s pays what ran, however far the clock was ahead meanwhile", (_, hours, mostAheadMs) => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 * HOUR }),
      fc.integer({ min: 6_000, max: mostAheadMs }),
      whileAhead,
      fc.integer({ min: 1, max: 6 * HOUR }),
      (beforeMs, aheadMs, steps, afterMs) => {
        const life = new Clocked(hours, 1_000_000_000_000_000).sees(shows("running", { hours }), START);
        let now = START + beforeMs;
        life.turn(now).sees(shows("running", { hours }), now);
        for (const { afterMs, looks, extends: longer } of steps) {
          now += afterMs;
          life.turn(now + aheadMs);
          if (looks) life.sees(shows("running", { hours: life.row.rental.hours }), now + aheadMs);
          const step = extend(life.row.rental, 1, LENGTHS);
          if (longer && hours !== null) life.take({ row: { ...life.row, rental: step.rental }, acts: step.acts });
        }
        now += 1;
        life.setBack(now);
        const again = rowSetBack(life.row, now, LENGTHS);
        expect([again.acts, again.row]).toEqual([[], life.row]);
        const { phase } = life.row.rental;
        expect(phase.at === "running" && phase.fromMs <= now).toBe(true);
        if (hours !== null && phase.at === "running") {
          expect(phase.paidUntilMs).toBe(START + (life.row.rental.hours ?? 0) * HOUR);
          // The rest of the run is held.
          const rest = rateFor(RATE.priceNanoUsd, phase.paidUntilMs - phase.fromMs, HOUR);
          expect(life.row.rental.heldNanoUsd).toBeGreaterThanOrEqual(rest - life.books.charges.length);
        }
        const endMs = now + afterMs;
        for (let due = turnDueMs(life.row.rental, facts); due !== null && due < endMs; ) {
          life.turn(due);
          due = turnDueMs(life.row.rental, facts);
        }
        life.ends(endMs);
        expectTiled(life, endMs);
        expect(life.chargedMs).toBe(endMs - START);
        expect(life.books.held).toBe(0);
      },
    ),
  );
});

describe("a clock set back", () => {
  it("lets upstream's documents of now count, and a stop be repeated within a minute", () => {
    const life = new Clocked(null).sees(shows("running"), SENT + MINUTE + 5 * HOUR);
    life.row = sent(
      wantEnd(life.row, "user", SENT + 5 * HOUR + 2 * MINUTE),
      { verb: "stop" },
      SENT + 5 * HOUR + 2 * MINUTE,
    );
    const now = SENT + 2 * MINUTE;
    expect(life.sees(shows("ended"), now).row.seen.state).toBe("running");
    life.setBack(now);
    const call = next(life.row, now + MINUTE);
    expect(call.do).toBe("send");
    life.sees(shows("ended", { terminatedAtMs: now }), now + 1_000);
    expect([instanceStatus(life.row), life.books.held]).toEqual(["terminated", 0]);
    // What was charged of the hours that had not come came back.
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, now - START, HOUR));
  });

  it("that showed an end while it was ahead charges no time that had not come", () => {
    const life = new Clocked(null).sees(shows("running"), START);
    life.turn(START + 3 * HOUR);
    life.row = wantEnd(life.row, "user", START + 3 * HOUR + MINUTE);
    const now = START + 10 * MINUTE;
    life.setBack(now).sees(shows("ended", { terminatedAtMs: now - MINUTE }), now + 1_000);
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 9 * MINUTE, HOUR));
    expect(life.books.held).toBe(0);
  });

  it("after more periods than are known lets the time run that stays paid", () => {
    const life = new Clocked(null, 1_000_000_000_000_000).sees(shows("running"), START);
    const aheadMs = 50 * HOUR;
    for (let hour = 0; hour < 8; hour++) life.turn(START + aheadMs + hour * HOUR + MINUTE);
    life.sees(shows("running"), START + aheadMs + 8 * HOUR);
    const paid = life.charged;
    const now = START + 8 * HOUR;
    life.setBack(now);
    const [first] = life.row.rental.recent;
    const back = rateFor(RATE.priceNanoUsd, 3 * HOUR, HOUR);
    expect(paid - life.charged).toBeGreaterThanOrEqual(back - 3);
    const { phase } = life.row.rental;
    expect(phase.at === "running" && phase.fromMs).toBeGreaterThan(now);
    expect(first).toBeUndefined();
    life.ends(now + HOUR);
    expect(life.books.held).toBe(0);
    expect(rentalSetBack(life.row.rental, now, LENGTHS).acts).toEqual([]);
  });

  it("gives a preempted machine back what it had not run, and changes nothing of one that has ended", () => {
    for (const hours of [null, 10]) {
      const life = new Clocked(hours).sees(shows("running", { hours }), START);
      life.sees(shows("running", { hours }), START + 2 * HOUR + MINUTE);
      life.sees(shows("preempted", { hours }), START + 2 * HOUR + 2 * MINUTE).setBack(START + MINUTE);
      expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, MINUTE, HOUR));
      const { phase, heldNanoUsd } = life.row.rental;
      const leftMs = hours === null ? null : hours * HOUR - MINUTE;
      expect(phase).toEqual({ at: "preempted", sinceMs: START + MINUTE, leftMs });
      if (leftMs !== null) expect(heldNanoUsd).toBeGreaterThanOrEqual(rateFor(RATE.priceNanoUsd, leftMs, HOUR) - 4);
    }
    const over = new Clocked(null).sees(shows("running"), START).ends(START + MINUTE);
    const before = over.books.balance;
    expect(over.setBack(START).books.balance).toBe(before);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Rate, Step, StorageRental } from "../../../src/core/compute/rental.ts";
import { turn, turnDueMs } from "../../../src/core/compute/rental-turn.ts";
import {
  askStorageEnd,
  beginStorage,
  closeStorage,
  createdUpstream,
  isUnpaid,
  openStorage,
} from "../../../src/core/compute/storage-rental.ts";
import { RentalBooks } from "../../support/compute/books.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const LENGTHS = { hourMs: HOUR, dayMs: DAY };
const RATE: Rate = { unit: "storage_gb_days", size: 50, priceNanoUsd: 100_000_000, costNanoUsd: 70_000_000 };
const START = 1_700_000_000_000;

class Life {
  rental: StorageRental;
  readonly books: RentalBooks;
  stop: string | null = null;
  graceDays: number | null = 7;
  mounted = false;

  constructor(days: number) {
    this.books = new RentalBooks(days * RATE.priceNanoUsd);
    const opened = openStorage(RATE, START);
    this.rental = opened.rental;
    this.books.book(opened.acts);
  }
  take(step: Step<StorageRental>): this {
    this.rental = step.rental;
    this.books.book(step.acts);
    this.stop ??= step.stop;
    return this;
  }
  get facts() {
    return { ...LENGTHS, roomNanoUsd: this.books.room, graceDays: this.graceDays, mounted: this.mounted };
  }
  turn(day: number): this {
    return this.take(turn(this.rental, START + day * DAY, this.facts));
  }
  get due(): number | null {
    const at = turnDueMs(this.rental, this.facts);
    return at === null ? null : (at - START) / DAY;
  }
  get days(): number[] {
    return this.books.charges.map(({ n }) => n);
  }
  begun(): this {
    return this.take(beginStorage(this.rental, LENGTHS));
  }
}

/** Upstream kept it until so many days after its creation. */
const keptFor = (days: number) => ({ untilMs: START + days * DAY, estimated: false });

describe("days of storage", () => {
  it("day 1 is held and charged when it is available; each later day at its start", () => {
    const life = new Life(10);
    expect(life.books.held).toBe(RATE.priceNanoUsd);
    life.turn(0.5);
    expect(life.days).toEqual([]);
    life.begun();
    expect(life.days).toEqual([1]);
    expect(life.due).toBe(1);
    life.turn(0.99).turn(1).turn(3.5);
    expect(life.days).toEqual([1, 2, 3, 4]);
    expect(life.books.charges.every(({ quantity }) => quantity === 50)).toBe(true);
  });

  it("what was never made costs nothing", () => {
    const life = new Life(1);
    life.take(closeStorage(life.rental, START + 9, null, LENGTHS)).turn(3);
    expect(life.books.ended.get(1)).toBe("released");
    expect(life.due).toBeNull();
  });

  it("a day that begins after the deletion was asked for is not charged", () => {
    const life = new Life(10).begun();
    life.take(askStorageEnd(life.rental, START + 2 * DAY - 1)).turn(5);
    expect(life.days).toEqual([1, 2]);
    life.take(closeStorage(life.rental, START + 2 * DAY + 5, null, LENGTHS)).turn(9);
    expect(life.days).toEqual([1, 2]);
    expect(life.due).toBeNull();
  });

  it.each([
    ["before its turn", 1],
    ["after its turn", 2],
  ])("a day that begins in the very millisecond of a delete is charged: %s", (_, turned) => {
    const life = new Life(10).begun().turn(turned);
    life.take(askStorageEnd(life.rental, START + 2 * DAY));
    life.take(closeStorage(life.rental, START + 2 * DAY, keptFor(2), LENGTHS)).turn(9);
    // Upstream bills it too.
    expect([life.days, life.books.losses.size]).toEqual([[1, 2, 3], 0]);
  });

  it("unpaid days wait, and are paid oldest first", () => {
    const life = new Life(2).begun().turn(1).turn(4);
    expect(life.days).toEqual([1, 2]);
    expect(isUnpaid(life.rental)).toBe(true);
    expect(life.rental.unpaid).toEqual([3, 4, 5]);
    life.books.balance += 2 * RATE.priceNanoUsd;
    life.turn(4.1);
    expect(life.days).toEqual([1, 2, 3, 4]);
    life.books.balance += RATE.priceNanoUsd;
    life.turn(4.2);
    expect(isUnpaid(life.rental)).toBe(false);
  });

  it("it is told once that it is suspended: not while it is mounted, and again after it was paid", () => {
    const life = new Life(1).begun();
    life.mounted = true;
    life.turn(1.1).turn(2.2);
    expect(life.books.events).toEqual([]);
    life.mounted = false;
    life.turn(2.3).turn(2.4).turn(3.1);
    expect(life.books.events).toEqual(["storage.suspended"]);
    // One of three days is paid: it stays as it is.
    life.books.balance += RATE.priceNanoUsd;
    life.turn(3.2);
    expect(life.books.events).toEqual(["storage.suspended"]);
    life.books.balance += 2 * RATE.priceNanoUsd;
    life.turn(3.3).turn(4);
    expect(life.books.events).toEqual(["storage.suspended", "storage.suspended"]);
  });

  it("it is deleted after the grace, warned of three days and one day before, and the unpaid days are a loss", () => {
    const life = new Life(1).begun();
    const warnings: number[] = [];
    life.turn(1);
    expect(life.books.events).toEqual(["storage.suspended"]);
    for (let at = life.due as number; life.stop === null; at = Math.max(life.due as number, at + 0.01)) {
      const before = life.books.events.length;
      life.turn(at);
      if (life.books.events.length > before) warnings.push(at);
      expect(at).toBeLessThan(9);
    }
    expect(warnings).toEqual([5, 7]);
    expect(life.rental.endMs).toBe(START + 8 * DAY);
    life.take(closeStorage(life.rental, START + 8 * DAY, keptFor(7.9), LENGTHS)).turn(8.1);
    expect([...life.books.losses.keys()]).toEqual([2, 3, 4, 5, 6, 7, 8]);
    expect(life.due).toBeNull();
  });

  it("a warning that came late moves the deletion; nothing is deleted while mounted, or with a grace of null", () => {
    const late = new Life(1).begun().turn(7.9).turn(7.91).turn(8.5);
    expect(late.stop).toBeNull();
    expect(late.books.events).toEqual(["storage.suspended", "storage.deleting"]);
    expect(late.turn(9.95).turn(10.94).stop).toBeNull();
    expect(late.turn(10.96).stop).toBe("credit_depleted");
    const mounted = new Life(1).begun();
    mounted.mounted = true;
    for (let day = 1; day < 30; day++) mounted.turn(day);
    expect(mounted.stop).toBeNull();
    mounted.mounted = false;
    expect(mounted.turn(30).stop).toBe("credit_depleted");
    const never = new Life(1).begun();
    never.graceDays = null;
    for (let day = 1; day < 30; day++) never.turn(day);
    expect([never.stop, never.books.events]).toEqual([null, ["storage.suspended"]]);
  });

  it("who deletes with unpaid days still owes them, until the grace is over", () => {
    const life = new Life(1).begun().turn(2);
    life.take(askStorageEnd(life.rental, START + 2 * DAY + 1));
    life.take(closeStorage(life.rental, START + 2 * DAY + 1, keptFor(2.01), LENGTHS));
    expect(life.rental.unpaid).toEqual([2, 3]);
    life.books.balance += RATE.priceNanoUsd;
    life.turn(3);
    expect(life.days).toEqual([1, 2]);
    life.turn(9.1);
    expect([...life.books.losses.keys()]).toEqual([3]);
  });
});

describe("days that upstream keeps it beyond those that are owed", () => {
  it.each([
    ["a delete that took two days to get there", 4, 2.5, 4.5, { 4: 2 }],
    ["a day that began on the way", 3, 2.9999, 3.0001, { 4: 1 }],
    ["none", 3, 2.5, 2.5, {}],
  ])("are the operator's loss: %s", (_, turned, asked, kept, losses) => {
    const life = new Life(10)
      .begun()
      .turn(2)
      .turn(Math.min(turned, asked) - 0.00001);
    life.take(askStorageEnd(life.rental, START + asked * DAY)).turn(turned);
    life.take(closeStorage(life.rental, START + asked * DAY, keptFor(kept), LENGTHS));
    expect(life.days).toEqual([1, 2, 3]);
    const expected = Object.entries(losses).map(([n, days]) => [Number(n), days * RATE.costNanoUsd]);
    expect([...life.books.losses]).toEqual(expected);
  });

  it("count from upstream's creation: one that came late is charged its days from then", () => {
    const life = new Life(10);
    life.rental = createdUpstream(life.rental, START + 0.5 * DAY);
    life.begun().turn(1.4);
    expect([life.days, life.due]).toEqual([[1], 1.5]);
    life.turn(1.5);
    expect(createdUpstream(life.rental, START)).toEqual(life.rental);
  });

  it("are all its days, if it was lost before it was seen available", () => {
    const life = new Life(1);
    life.take(closeStorage(life.rental, START + 5, keptFor(1.5), LENGTHS));
    expect([life.days, [...life.books.losses]]).toEqual([[], [[1, 2 * RATE.costNanoUsd]]]);
  });
});

const act = fc.record({
  after: fc.integer({ min: 0, max: 3 * DAY }),
  credit: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.nat(6)),
  mounted: fc.boolean(),
});
it("whatever is paid when: each day that began before the end is charged once, in order, or lost after the grace", () => {
  fc.assert(
    fc.property(
      fc.array(act, { maxLength: 30 }),
      fc.boolean(),
      fc.nat(3),
      fc.nat(3 * DAY),
      fc.oneof(fc.constant(0), fc.constant(DAY), fc.nat(2 * DAY)),
      (acts, deleted, days, late, unturned) => {
        const life = new Life(days + 1).begun();
        let now = START;
        for (const one of acts) {
          now += one.after;
          life.books.balance += one.credit * RATE.priceNanoUsd;
          life.mounted = one.mounted;
          life.take(turn(life.rental, now, life.facts));
          expect(turn(life.rental, now, life.facts).acts.filter(({ act: kind }) => kind !== "event")).toEqual([]);
          if (life.stop) break;
        }
        if (deleted && !life.stop) {
          // The delete need not come right after a turn.
          now += unturned;
          life.take(askStorageEnd(life.rental, now));
        }
        const endMs = life.rental.endMs;
        if (endMs !== null)
          life.take(closeStorage(life.rental, now, { untilMs: now + late, estimated: false }, LENGTHS));
        // A day that begins at the moment of a delete is charged; upstream bills it too. A deletion for want of money
        // leaves it out.
        const begun = life.stop ? Math.ceil(((endMs ?? now) - START) / DAY) : Math.floor((now - START) / DAY) + 1;
        const taken = [...life.days, ...life.rental.unpaid];
        expect(taken).toEqual(Array.from({ length: Math.max(1, begun) }, (_, index) => index + 1));
        life.mounted = false;
        if (endMs !== null) {
          life.take(turn(life.rental, now + 400 * DAY, life.facts));
          // With what is lost it comes to what upstream bills.
          const lost = [...life.books.losses.values()].reduce((sum, loss) => sum + loss, 0) / RATE.costNanoUsd;
          expect(life.days.length + lost).toBe(Math.floor((now + late - START) / DAY) + 1);
        }
      },
    ),
    {
      numRuns: 300,
      examples: [
        [
          [
            { after: 12, credit: 0, mounted: false },
            { after: 3 * DAY - 12, credit: 0, mounted: false },
          ],
          true,
          0,
          0,
          0,
        ],
        [[], true, 3, 0, DAY],
      ],
    },
  );
});

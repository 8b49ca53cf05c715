import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  inTransition,
  type MachineDocument,
  observed,
  overUnseen,
  type Shown,
} from "../../../src/core/compute/observe.ts";
import { rateFor } from "../../../src/core/compute/rental.ts";
import { turnDueMs } from "../../../src/core/compute/rental-turn.ts";
import { clusterStatus, gpusOf, instanceStatus } from "../../../src/core/compute/resource.ts";
import { next, turned, wantEnd } from "../../../src/core/compute/wants.ts";
import { DAY, HOUR, LENGTHS, launchedRow, RATE, RowLife, SENT, shows } from "../../support/compute/rows.ts";

class Watched extends RowLife {
  sees(document: MachineDocument, askedAtMs: number, nowMs = askedAtMs + 100, sameUntilMs: number | null = null): this {
    return this.shown({ kind: "found", document, sameUntilMs }, askedAtMs, nowMs);
  }
  shown(shown: Shown, askedAtMs: number, nowMs = askedAtMs + 100): this {
    return this.take(observed(this.row, shown, askedAtMs, nowMs, LENGTHS)).turn(nowMs);
  }
}

describe("what upstream shows", () => {
  it("running begins the charge at upstream's time, moved between the launch and now", () => {
    const from = (startedAtMs: number | null) =>
      new Watched(null).sees(shows("running", { startedAtMs }), SENT + 5_000).row.rental.phase;
    expect(from(SENT + 2_000)).toMatchObject({ at: "running", fromMs: SENT + 2_000 });
    expect(from(SENT - HOUR)).toMatchObject({ fromMs: SENT });
    expect(from(SENT + DAY)).toMatchObject({ fromMs: SENT + 5_100 });
    expect(from(null)).toMatchObject({ fromMs: SENT + 5_100 });
  });

  it("pending is charged only after it was seen running, whatever start upstream shows", () => {
    const life = new Watched(null).sees(shows("pending", { startedAtMs: SENT }), SENT + 5_000);
    life.sees(shows("pending", { startedAtMs: SENT }), SENT + 3 * HOUR);
    expect([life.row.rental.phase, life.charged]).toEqual([{ at: "waiting" }, 0]);
    life.sees(shows("running", { startedAtMs: SENT + 3 * HOUR }), SENT + 3 * HOUR + 5_000);
    expect(life.row.rental.phase).toMatchObject({ at: "running", fromMs: SENT + 3 * HOUR });
  });

  it("a start of before the launch, or ahead of our clock, makes no loss for time in which it cannot have run", () => {
    const year = 366 * DAY;
    const gone = new Watched(null).sees(shows("pending", { startedAtMs: SENT + year }), SENT + 5_000);
    gone.shown({ kind: "not_found" }, SENT + 10_000).shown({ kind: "not_found" }, SENT + 80_000);
    expect([gone.row.seen.state, gone.books.losses.size]).toEqual(["ended", 0]);
    const orphan = new Watched(null)
      .shown({ kind: "absent" }, SENT + 130_000)
      .shown({ kind: "absent" }, SENT + 190_000);
    expect(orphan.row.create).toBe("lost");
    orphan.sees(shows("running", { startedAtMs: SENT - year }), SENT + 250_000);
    expect(orphan.books.losses.get(1)).toBe(rateFor(RATE.costNanoUsd, 250_000, HOUR));
  });

  it("a document from before the last change, or older than the last, is ignored", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 5_000);
    const { row } = life;
    expect(life.sees(shows("ended"), SENT + 4_000, SENT + 9_000).row).toEqual(row);
    life.row = wantEnd(row, "user", SENT + 20_000);
    expect(life.sees(shows("ended"), SENT + 19_999, SENT + 21_000).row.seen.state).toBe("running");
  });

  it("another machine with the same tag is not taken for it", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 5_000);
    expect(life.sees(shows("ended", { upstreamId: 502 }), SENT + 6_000).row.seen.state).toBe("running");
  });

  it("a cost that is not the book's is told once, and is the cost from then on", () => {
    const life = new Watched(null).sees(shows("running", { rateNanoUsd: 1_600_000_000 }), SENT + 5_000);
    life.sees(shows("running", { rateNanoUsd: 1_700_000_000 }), SENT + 6_000);
    expect(life.books.events).toEqual(["compute_cost_differs"]);
    expect(life.row.rental.rate.costNanoUsd).toBe(1_600_000_000);
  });

  it("an end without upstream's time is charged to when it was last seen running, unchanged lists included", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 2_000);
    life.sees(shows("ended", { reason: "failed" }), SENT + 200_000, SENT + 200_100, SENT + 140_000);
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 138_000, HOUR));
    expect(instanceStatus(life.row)).toBe("failed");
    const early = new Watched(null).sees(shows("running"), SENT + 2_000).shown({ kind: "same" }, SENT + 90_000);
    early.sees(shows("ended", { terminatedAtMs: SENT }), SENT + 95_000);
    expect(early.charged).toBe(rateFor(RATE.priceNanoUsd, 88_000, HOUR));
    expect([instanceStatus(early.row), early.row.seen.reason]).toEqual(["terminated", "admin"]);
  });

  it("what is gone after its stop was answered is charged to the last list that showed it running", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 2_000);
    life.row = wantEnd(life.row, "user", SENT + 200_000);
    life.sees(shows("stopping"), SENT + 200_000);
    life.sees(shows("stopping"), SENT + 205_000, SENT + 205_100, SENT + 180_000);
    // A list of the very moment of the stop may show it stopping.
    life.sees(shows("stopping"), SENT + 210_000, SENT + 210_100, SENT + 200_000);
    life.shown({ kind: "not_found" }, SENT + 300_000).shown({ kind: "not_found" }, SENT + 361_000);
    expect(instanceStatus(life.row)).toBe("terminated");
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 178_000, HOUR));
  });

  it("what only 404s show to be gone is charged to the last list that showed it running, told or not", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 2_000);
    life.row = wantEnd(life.row, "user", SENT + 200_000);
    const gone = { kind: "not_found", sameUntilMs: SENT + 180_000 } as const;
    life.shown(gone, SENT + 200_000).shown(gone, SENT + 261_000);
    expect(instanceStatus(life.row)).toBe("terminated");
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 178_000, HOUR));
  });

  it("what is first seen when it is over is paid by a turn at its end for the hours that nobody saw", () => {
    const endMs = SENT + 2_000 + 2.5 * HOUR;
    const over = { kind: "found", document: shows("ended", { terminatedAtMs: endMs }), sameUntilMs: null } as const;
    const life = new Watched(null);
    const unseen = overUnseen(life.row, over, SENT + 3 * HOUR, SENT + 3 * HOUR, LENGTHS);
    expect(unseen?.atMs).toBe(endMs);
    if (unseen) life.row = unseen.row;
    life.turn(endMs).take(observed(life.row, over, SENT + 3 * HOUR, SENT + 3 * HOUR, LENGTHS));
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 2.5 * HOUR, HOUR));
    expect([life.books.held, life.books.losses.size]).toEqual([0, 0]);
    const short = { ...over, document: shows("ended", { terminatedAtMs: SENT + 10_000 }) };
    expect(overUnseen(new Watched(null).row, short, SENT + 3 * HOUR, SENT + 3 * HOUR, LENGTHS)).toBeUndefined();
    expect(overUnseen(new Watched(3).row, over, SENT + 3 * HOUR, SENT + 3 * HOUR, LENGTHS)).toBeUndefined();
  });

  it("what ran and ended between two lists is charged; what failed before it started is not", () => {
    const life = new Watched(2).sees(shows("ended", { terminatedAtMs: SENT + 62_000 }), SENT + 70_000);
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 60_000, HOUR));
    const failed = new Watched(2).sees(shows("ended", { reason: "failed", startedAtMs: null }), SENT + 70_000);
    expect([failed.charged, failed.books.ended.get(1)]).toEqual([0, "released"]);
  });

  it("two 404 a minute apart prove the end; one does not, and a list without it does not", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 5_000).shown({ kind: "absent" }, SENT + 65_000);
    expect(life.row.seen.state).toBe("running");
    expect(next(life.row, SENT + 65_001)).toEqual({ do: "send", call: { verb: "read" } });
    life.shown({ kind: "not_found" }, SENT + 65_002);
    expect(next(life.row, SENT + 70_000)).toEqual({ do: "wait", atMs: SENT + 125_002 });
    life.shown({ kind: "not_found" }, SENT + 125_001);
    expect(life.row.seen.state).toBe("running");
    const back = new Watched(null, undefined, life.row);
    back.sees(shows("running"), SENT + 130_000).shown({ kind: "not_found" }, SENT + 200_000);
    expect(back.row.seen.state).toBe("running");
    life.shown({ kind: "not_found" }, SENT + 125_002);
    expect([life.row.seen.state, instanceStatus(life.row)]).toEqual(["ended", "failed"]);
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 3_000, HOUR));
  });

  it("a create without an answer has failed when two lists lack it two minutes later, not by one list told twice", () => {
    const life = new Watched(3).shown({ kind: "absent" }, SENT + 60_000).shown({ kind: "absent" }, SENT + 119_999);
    life.shown({ kind: "absent" }, SENT + 120_000).shown({ kind: "absent" }, SENT + 120_000);
    expect(life.row.seen.state).toBe("none");
    life.shown({ kind: "absent" }, SENT + 125_000);
    expect([instanceStatus(life.row), life.books.held, life.charged]).toEqual(["failed", 0, 0]);
    expect(next(life.row, SENT + 125_000)).toEqual({ do: "none" });
    life.sees(shows("running"), SENT + 302_000);
    expect(life.books.events).toEqual(["late_orphan"]);
    expect(next(life.row, SENT + 302_001)).toEqual({ do: "send", call: { verb: "stop" } });
    expect(life.books.losses.get(1)).toBe(rateFor(RATE.costNanoUsd, 300_000, HOUR));
    life.sees(shows("ended", { terminatedAtMs: SENT + 310_000 }), SENT + 320_000);
    expect(life.books.losses.get(1)).toBe(rateFor(RATE.costNanoUsd, 308_000, HOUR));
    expect([next(life.row, SENT + 320_001), life.charged]).toEqual([{ do: "none" }, 0]);
  });

  it("a lost create that is found is adopted", () => {
    const life = new Watched(3).shown({ kind: "absent" }, SENT + 130_000).sees(shows("pending"), SENT + 140_000);
    expect(life.row).toMatchObject({ create: "done", upstreamId: 501, seen: { missing: null } });
  });

  it("ended stays ended: seen running again it is stopped, at the operator's cost", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 5_000);
    life.sees(shows("ended", { terminatedAtMs: SENT + 62_000 }), SENT + 70_000);
    const { charged } = life;
    life.sees(shows("running"), SENT + 122_000);
    expect(instanceStatus(life.row)).toBe("terminated");
    expect(life.books.events).toEqual(["ended_runs"]);
    expect(next(life.row, SENT + 122_001)).toEqual({ do: "send", call: { verb: "stop" } });
    expect([life.charged, life.books.losses.get(1)]).toEqual([charged, rateFor(RATE.costNanoUsd, 60_000, HOUR)]);
  });

  it("a resumed one is charged from when it runs again", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 2_000);
    life.sees(shows("preempted"), SENT + 62_000, SENT + 62_100, SENT + 57_000);
    expect([instanceStatus(life.row), life.charged]).toEqual(["preempted", rateFor(RATE.priceNanoUsd, 55_000, HOUR)]);
    life.sees(shows("running"), SENT + HOUR);
    expect(life.row.rental.phase).toMatchObject({ at: "running", fromMs: SENT + HOUR });
    const late = new Watched(null).sees(shows("running"), SENT + 2_000).sees(shows("preempted"), SENT + 62_000);
    late.turn(SENT + 2 * DAY).sees(shows("running"), SENT + 2 * DAY + 5);
    expect(late.row.wants.end?.reason).toBe("preempted");
    expect(next(late.row, SENT + 2 * DAY + 500)).toEqual({ do: "send", call: { verb: "stop" } });
  });

  it("one that is stopped while it is preempted pays for what ran before, once, and nothing when it comes back", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 2_000);
    life.sees(shows("preempted"), SENT + 62_000, SENT + 62_100, SENT + 57_000);
    const { charged } = life;
    life.row = wantEnd(life.row, "admin", SENT + 120_000);
    life.turn(SENT + 120_000).sees(shows("preempted"), SENT + 200_000);
    life
      .sees(shows("running"), SENT + 300_000)
      .sees(shows("ended", { terminatedAtMs: SENT + 310_000 }), SENT + 320_000);
    expect([charged, life.charged]).toEqual([rateFor(RATE.priceNanoUsd, 55_000, HOUR), charged]);
    // From when it was first seen to run again.
    expect(life.books.losses.get(life.row.rental.n)).toBe(rateFor(RATE.costNanoUsd, 10_000, HOUR));
  });

  it("one that is preempted while its stop is wanted is no loss and not overdue, until it runs again", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 2_000);
    life.row = wantEnd(life.row, "user", SENT + 60_000);
    life.sees(shows("preempted"), SENT + 62_000);
    const booked = life.turn(SENT + 2 * DAY).charged;
    expect([life.books.events, life.books.losses.size, life.books.held]).toEqual([[], 0, 0]);
    expect(turnDueMs(life.row.rental, { ...LENGTHS, graceDays: null })).toBeNull();
    life.sees(shows("running"), SENT + 2 * DAY + 1_000).turn(SENT + 2 * DAY + 1_000 + HOUR);
    expect(life.books.events).toEqual(["stop_overdue"]);
    expect([...life.books.losses.values()]).toEqual([RATE.costNanoUsd]);
    const endMs = SENT + 2 * DAY + 1_000 + 2 * HOUR;
    life.sees(shows("ended", { terminatedAtMs: endMs }), endMs + 1_000);
    expect([...life.books.losses.values()]).toEqual([2 * RATE.costNanoUsd]);
    expect(life.charged).toBe(booked);
  });

  it("one that is stopped before it runs is a loss from its start on, and overdue from then on", () => {
    const life = new Watched(null).sees(shows("pending"), SENT + 2_000);
    life.row = wantEnd(life.row, "admin", SENT + 10_000);
    life.turn(SENT + HOUR);
    expect([life.books.events, life.books.losses.size, life.books.held]).toEqual([[], 0, 0]);
    const startedAtMs = SENT + HOUR;
    life.sees(shows("running", { startedAtMs }), SENT + HOUR + 1_000).turn(SENT + HOUR + 300_000);
    expect(life.books.events).toEqual(["stop_overdue"]);
    const end = { startedAtMs, terminatedAtMs: SENT + HOUR + 400_000 };
    life.sees(shows("ended", end), SENT + 2 * HOUR);
    expect([life.charged, life.books.losses.get(1)]).toEqual([0, rateFor(RATE.costNanoUsd, 400_000, HOUR)]);
  });

  it("after a PATCH it shows pending until a document asked for afterwards shows it running; the charge goes on", () => {
    const life = new Watched(null).sees(shows("running"), SENT + 5_000);
    life.row = { ...life.row, wants: { ...life.row.wants, rebuild: { answeredMs: SENT + 10_000 } } };
    life.sees(shows("running"), SENT + 10_000);
    expect(instanceStatus(life.row)).toBe("pending");
    life.sees(shows("pending"), SENT + 12_000);
    expect([instanceStatus(life.row), life.row.rental.phase.at]).toEqual(["pending", "running"]);
    life.sees(shows("running"), SENT + 15_000);
    expect(instanceStatus(life.row)).toBe("running");
  });

  it("is looked at often in transition, and for SSH five minutes only", () => {
    const life = new Watched(null);
    expect(inTransition(life.row, SENT)).toBe(true);
    life.sees(shows("running"), SENT + 5_000);
    expect(inTransition(life.row, SENT + 6_000)).toBe(false);
    const launched = { ...life.row.launched, sshEnabled: true, sshPublicKey: "ssh-ed25519 AAAA" };
    const ssh = { ...life.row, launched };
    expect(inTransition(ssh, SENT + 304_999)).toBe(true);
    expect(inTransition(ssh, SENT + 305_000)).toBe(false);
    const ready = { host: "h", port: 1, ready: true, command: "ssh -p 1 root@h" };
    expect(inTransition({ ...ssh, seen: { ...ssh.seen, ssh: ready } }, SENT + 6_000)).toBe(false);
    expect(inTransition(wantEnd(life.row, "user", SENT + 7_000), SENT + 8_000)).toBe(true);
  });

  it("a cluster's status and GPUs follow what will run", () => {
    const row = launchedRow(2, { kind: "cluster", wants: { ...launchedRow(2).wants, replicas: 4 } });
    expect([clusterStatus(row), gpusOf(row)]).toEqual(["pending", 4]);
    const seen = (state: MachineDocument["state"]) => clusterStatus({ ...row, seen: { ...row.seen, state } });
    expect([seen("running"), seen("degraded"), seen("ended")]).toEqual(["running", "degraded", "stopped"]);
    expect(gpusOf({ ...row, seen: { ...row.seen, state: "ended" } })).toBe(0);
  });
});

/** What truly happens upstream: it starts, perhaps is preempted and resumed, and ends. */
const truth = fc.record({
  start: fc.integer({ min: 0, max: 20_000 }),
  preemptAfter: fc.option(fc.integer({ min: 1_000, max: 3 * HOUR })),
  pausedFor: fc.integer({ min: 1_000, max: 3 * HOUR }),
  runsFor: fc.integer({ min: 1_000, max: 5 * HOUR }),
  saysWhen: fc.boolean(),
});
const look = fc.record({ at: fc.nat(8 * HOUR), delay: fc.nat(90_000), twice: fc.boolean() });

it("documents in any order, twice and late: it never charges what did not run, and an end is final", () => {
  fc.assert(
    fc.property(
      truth,
      fc.array(look, { maxLength: 30 }),
      fc.option(fc.nat(4 * HOUR)),
      fc.option(fc.integer({ min: 1, max: 6 })),
      (upstream, looks, stopAfter, hours) => {
        const startMs = SENT + upstream.start;
        const pause = upstream.preemptAfter === null ? null : startMs + upstream.preemptAfter;
        const ranMs = upstream.runsFor + (pause === null ? 0 : (upstream.preemptAfter ?? 0));
        const endMs = startMs + ranMs + (pause === null ? 0 : upstream.pausedFor);
        const stateAt = (atMs: number): MachineDocument =>
          atMs < startMs
            ? shows("pending", { startedAtMs: null })
            : atMs >= endMs
              ? shows("ended", { startedAtMs: startMs, terminatedAtMs: upstream.saysWhen ? endMs : null })
              : pause !== null && atMs >= pause && atMs < pause + upstream.pausedFor
                ? shows("preempted", { startedAtMs: startMs })
                : shows("running", { startedAtMs: startMs });
        const life = new Watched(hours);
        const arrivals = looks
          .flatMap(({ at, delay, twice }) => {
            const one = { askedMs: SENT + at, atMs: SENT + at + delay };
            return twice ? [one, { ...one, atMs: one.atMs + 5_000 }] : [one];
          })
          .sort((one, other) => one.atMs - other.atMs);
        const stopMs = stopAfter === null ? null : SENT + stopAfter;
        let stopped = false;
        let wasEnded = false;
        for (const { askedMs, atMs } of arrivals) {
          if (stopMs !== null && atMs > stopMs && !stopped) {
            stopped = true;
            life.turn(stopMs);
            life.row = wantEnd(life.row, "user", stopMs);
          }
          life.sees(stateAt(askedMs), askedMs, atMs);
          if (wasEnded) expect(life.row.seen.state).toBe("ended");
          wasEnded = life.row.seen.state === "ended";
        }
        const lastMs = SENT + 9 * DAY;
        life.sees(stateAt(Math.max(endMs, lastMs)), lastMs, lastMs + 50);
        expect(life.row.seen.state).toBe("ended");
        expect(life.books.held).toBe(0);
        for (const { fromMs, toMs } of life.books.stretches()) {
          if (toMs === fromMs) continue;
          expect(fromMs).toBeGreaterThanOrEqual(startMs);
          expect(toMs).toBeLessThanOrEqual(endMs);
          if (stopped && stopMs !== null) expect(toMs).toBeLessThanOrEqual(Math.max(stopMs, fromMs));
        }
        const charged = life.books.stretches().reduce((sum, one) => sum + one.toMs - one.fromMs, 0);
        // With a pause that no look saw upstream's documents say nothing of it.
        if (pause === null) expect(charged).toBeLessThanOrEqual(ranMs);
        if (pause === null && upstream.saysWhen && !stopped && hours === null) {
          // Where nobody looked for the first hour, what was not held is the operator's.
          expect(charged).toBeGreaterThanOrEqual(Math.min(ranMs, HOUR));
          const lost = [...life.books.losses.values()].reduce((sum, cost) => sum + cost, 0);
          expect(lost).toBe(rateFor(RATE.costNanoUsd, ranMs - charged, HOUR));
        }
      },
    ),
    { numRuns: 300 },
  );
});

const anyTime = fc.option(fc.integer({ min: SENT - 2 * DAY, max: SENT + 2 * DAY }));
const lie = fc.record({
  afterMs: fc.nat(3 * HOUR),
  delayMs: fc.nat(60_000),
  state: fc.constantFrom("pending", "running", "degraded", "preempted", "stopping", "ended"),
  startedAtMs: anyTime,
  terminatedAtMs: anyTime,
  rateNanoUsd: fc.option(fc.integer({ min: 0, max: 9_000_000_000 })),
  hours: fc.option(fc.integer({ min: 0, max: 500 })),
  upstreamId: fc.constantFrom(501, 501, 501, 502),
});

it("whatever an upstream says, by whatever clock: one hold, and charges between the launch, now and the request to end", () => {
  fc.assert(
    fc.property(
      fc.array(lie, { maxLength: 20 }),
      fc.option(fc.nat(20)),
      fc.option(fc.integer({ min: 1, max: 6 })),
      (lies, stopAt, hours) => {
        const life = new Watched(hours);
        let nowMs = SENT;
        let stopMs = Number.POSITIVE_INFINITY;
        for (const [index, { afterMs, delayMs, state, ...over }] of lies.entries()) {
          const askedMs = nowMs + afterMs;
          nowMs = askedMs + delayMs;
          if (index === stopAt) {
            stopMs = askedMs;
            life.turn(stopMs);
            life.row = wantEnd(life.row, "user", stopMs);
          }
          const was = life.row.seen.state;
          life.sees(shows(state as MachineDocument["state"], over), askedMs, nowMs);
          if (was === "ended") expect(life.row.seen.state).toBe("ended");
          let atMs = SENT;
          for (const { fromMs, toMs } of life.books.stretches().filter((one) => one.toMs > one.fromMs)) {
            expect(fromMs).toBeGreaterThanOrEqual(atMs);
            expect(toMs).toBeLessThanOrEqual(Math.min(nowMs, stopMs));
            atMs = toMs;
          }
          if (life.row.seen.state === "ended") expect(life.books.held).toBe(0);
          // The operator loses no time in which it cannot have run.
          const { costNanoUsd } = life.row.rental.rate;
          const lost = [...life.books.losses.values()].reduce((sum, cost) => sum + cost, 0);
          expect(lost).toBeLessThanOrEqual(rateFor(Math.max(costNanoUsd, RATE.costNanoUsd), nowMs - SENT, HOUR));
        }
      },
    ),
  );
});

it("a turn's stop becomes the row's want, for the first reason only", () => {
  const life = new Watched(null, RATE.priceNanoUsd).sees(shows("running"), SENT + 5_000);
  life.turn(SENT + 2_000 + HOUR);
  expect(life.row.wants.end).toEqual({ reason: "credit_depleted", askedMs: SENT + 2_000 + HOUR });
  expect(instanceStatus(life.row)).toBe("terminating_low_balance");
  const later = wantEnd(life.row, "user", SENT + 2 * HOUR);
  expect(later.wants.end?.reason).toBe("credit_depleted");
  const facts = { ...LENGTHS, roomNanoUsd: 0, graceDays: 7, mounted: false };
  expect(turned(later, SENT + 2 * HOUR, facts).row.wants.end?.reason).toBe("credit_depleted");
});

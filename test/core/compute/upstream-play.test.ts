/**
 * `next` and `answered` against a made-up upstream that loses calls and answers: both end up in the state asked for.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { extendMachine, patchInstance, scaleCluster, stopMachine } from "../../../src/core/compute/changes.ts";
import type { Facts } from "../../../src/core/compute/facts.ts";
import { observed } from "../../../src/core/compute/observe.ts";
import type { MachineRow, MachineState } from "../../../src/core/compute/resource.ts";
import { answered, type CallOutcome, next, type RowCall, sent } from "../../../src/core/compute/wants.ts";
import type { AccountNumber } from "../../../src/core/ids.ts";
import { HOUR, LENGTHS, RowLife, SENT, shows } from "../../support/compute/rows.ts";

/** What becomes of a call: with its answer, executed without one, or not executed and known or unknown to be so. */
const FATES = ["done", "done", "lost_answer", "reset", "busy", "conflict"] as const;
type Fate = (typeof FATES)[number];

class Play extends RowLife {
  nowMs = SENT + 5_000;
  hours = 10;
  replicas = 2;
  image = "img:1";
  state: Exclude<MachineState, "none"> = "running";
  endedAtMs: number | null = null;
  fates: Fate[] = [];
  readonly sends: RowCall["verb"][] = [];
  /** How often the newest extension was executed, and whether one was more than once. */
  extended = 0;
  isDoubled = false;

  constructor() {
    super(10, 1_000_000_000_000, { kind: "cluster" });
    this.look();
  }

  look(): void {
    const { state, hours, replicas } = this;
    const document = shows(state, { hours, replicas, terminatedAtMs: this.endedAtMs });
    const shown = { kind: "found", document, sameUntilMs: null } as const;
    this.take(observed(this.row, shown, this.nowMs, this.nowMs, LENGTHS));
  }

  facts(kind: MachineRow["kind"]): Facts {
    const money = { balanceNanoUsd: this.books.balance, heldNanoUsd: this.books.held, floorNanoUsd: 0 };
    return {
      ...LENGTHS,
      account: 7 as AccountNumber,
      nowMs: this.nowMs,
      money,
      budgets: [],
      maxGpus: { key: null, team: null, account: null },
      rows: [{ ...this.row, kind }],
    } as unknown as Facts;
  }

  /** A tenant's call: the row is stored with it, then it is sent. */
  wants(what: "extend" | "scale" | "patch" | "stop", amount: number): void {
    const { row } = this;
    if (what === "stop") {
      const stop = stopMachine(row, this.nowMs);
      if (stop.row === row) return;
      this.row = stop.row;
      if (stop.call) this.carryOut(stop.call);
      return;
    }
    const facts = this.facts(what === "patch" ? "instance" : "cluster");
    const decision =
      what === "extend"
        ? extendMachine(facts, "cluster", row.id, amount)
        : what === "scale"
          ? scaleCluster(facts, row.id, amount)
          : patchInstance(facts, row.id, { container_image: `img:${amount}` });
    if (!decision.ok) return;
    if (what === "extend") this.extended = 0;
    this.row = { ...(decision.row as MachineRow), kind: "cluster" };
    this.books.book(decision.acts);
    if (decision.call) this.carryOut(decision.call as RowCall);
  }

  carryOut(call: RowCall): void {
    this.sends.push(call.verb);
    // Upstream changes nothing that has ended.
    const fate = this.state === "ended" ? "conflict" : (this.fates.shift() ?? "done");
    const isDone = fate === "done" || fate === "lost_answer";
    if (isDone) this.execute(call);
    const document = shows(this.state, { hours: this.hours, replicas: this.replicas, terminatedAtMs: this.endedAtMs });
    const outcome: CallOutcome =
      fate === "done"
        ? { kind: "done", document: call.verb === "patch" ? null : document }
        : fate === "busy"
          ? { kind: "not_executed", retryAfterMs: 1_000 }
          : fate === "conflict"
            ? { kind: "refused", status: 409, text: "not now" }
            : { kind: "unknown" };
    const sentMs = this.nowMs;
    this.nowMs += 40;
    this.take(answered(this.row, call, outcome, sentMs, this.nowMs, LENGTHS));
  }

  execute(call: RowCall): void {
    expect(this.state).not.toBe("ended");
    if (call.verb === "extend") {
      this.hours += call.hours;
      this.extended += 1;
      this.isDoubled ||= this.extended > 1;
    }
    if (call.verb === "scale") this.replicas = call.replicas;
    if (call.verb === "patch") this.image = call.setup.containerImage;
    if (call.verb === "stop") {
      this.state = "ended";
      this.endedAtMs ??= this.nowMs;
    }
  }

  /** The alarm and the lists, for so long. */
  pass(ms: number): void {
    for (const untilMs = this.nowMs + ms; this.nowMs < untilMs; this.nowMs += 1_000) {
      const wanted = next(this.row, this.nowMs);
      if (wanted.do === "send") {
        this.row = sent(this.row, wanted.call, this.nowMs);
        this.carryOut(wanted.call);
      } else if (wanted.do === "wait") expect(wanted.atMs - this.nowMs).toBeLessThanOrEqual(60_000);
      if (this.nowMs % 5_000 < 1_000) this.look();
    }
    this.turn(this.nowMs);
  }
}

const act = fc.record({
  what: fc.constantFrom("extend", "extend", "scale", "patch", "none"),
  amount: fc.integer({ min: 1, max: 4 }),
  fates: fc.array(fc.constantFrom(...FATES), { maxLength: 3 }),
  afterMs: fc.integer({ min: 0, max: 90_000 }),
});

it("whatever is lost: upstream ends up as it was asked to be, and nothing is sent twice that adds up", () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 7 }), fc.option(act), (acts, stop) => {
      const play = new Play();
      for (const { what, amount, fates, afterMs } of acts) {
        play.fates = [...fates];
        const before = play.sends.length;
        if (what !== "none") play.wants(what, amount);
        // One at a time: what it needs to say twice at most is over after two minutes.
        play.pass(afterMs);
        expect(play.sends.slice(before).filter((verb) => verb === "extend").length).toBeLessThanOrEqual(3);
      }
      if (stop) {
        play.fates = [...stop.fates];
        play.wants("stop", 0);
        play.pass(stop.afterMs);
      }
      play.fates = [];
      play.pass(400_000);
      const { row } = play;
      expect([row.sending, next(row, play.nowMs)]).toEqual([null, { do: "none" }]);
      if (stop) {
        expect([play.state, row.seen.state, play.books.held]).toEqual(["ended", "ended", 0]);
        return;
      }
      // What was bought is held and runs; what upstream runs longer was told.
      const { hours } = row.rental;
      expect(play.hours).toBeGreaterThanOrEqual(hours ?? 0);
      if (play.hours > (hours ?? 0)) {
        expect(play.isDoubled).toBe(true);
        expect(play.books.events).toContain("extended_twice");
      }
      expect([row.wants.replicas, row.wants.setup.containerImage]).toEqual([play.replicas, play.image]);
      const paidMs = row.rental.phase.at === "running" ? row.rental.phase.paidUntilMs - (SENT + 2_000) : 0;
      expect(paidMs).toBe((hours ?? 0) * HOUR);
    }),
  );
});

import { describe, expect, it } from "vitest";
import type { ControlAnswer } from "../../../src/core/compute/control.ts";
import { extend } from "../../../src/core/compute/machine-rental.ts";
import { observed } from "../../../src/core/compute/observe.ts";
import { rateFor } from "../../../src/core/compute/rental.ts";
import { instanceStatus } from "../../../src/core/compute/resource.ts";
import {
  answered,
  type CallOutcome,
  formerOf,
  next,
  outcomeOf,
  type RowCall,
  retryDelayMs,
  sent,
  wantEnd,
} from "../../../src/core/compute/wants.ts";
import { HOUR, LENGTHS, RATE, RowLife, SENT, shows } from "../../support/compute/rows.ts";

class Sending extends RowLife {
  at = SENT;
  refusal: unknown = null;
  running(hours: number | null = null): this {
    this.at = SENT + 5_000;
    return this.sees("running", { hours });
  }
  sees(state: Parameters<typeof shows>[0], over = {}): this {
    const shown = { kind: "found", document: shows(state, over), sameUntilMs: null } as const;
    return this.take(observed(this.row, shown, this.at, this.at, LENGTHS));
  }
  /** Sends what `next` wants, and takes the outcome in. */
  sends(outcome: CallOutcome): RowCall["verb"] {
    const wanted = next(this.row, this.at);
    if (wanted.do !== "send") throw new Error(`nothing to send: ${JSON.stringify(wanted)}`);
    this.row = sent(this.row, wanted.call, this.at);
    return this.gets(wanted.call, outcome);
  }
  gets(call: RowCall, outcome: CallOutcome): RowCall["verb"] {
    const step = answered(this.row, call, outcome, this.at, this.at + 50, LENGTHS);
    this.take(step);
    this.refusal = step.refusal;
    return call.verb;
  }
  /** As the rule of an extension does. */
  extends(hours: number): this {
    const former = formerOf(this.row);
    const step = extend(this.row.rental, hours, LENGTHS);
    this.books.book(step.acts);
    this.row = sent({ ...this.row, rental: step.rental }, { verb: "extend", hours }, this.at, former);
    return this;
  }
}
const CREATE: RowCall = { verb: "create" };
const LOST: CallOutcome = { kind: "unknown" };
const BUSY: CallOutcome = { kind: "not_executed", retryAfterMs: 9_000 };

describe("a create", () => {
  it("is never asked for by a row: it is sent once, by the launch", () => {
    expect(next(new Sending(null).row, SENT + 60_000)).toEqual({ do: "none" });
  });

  it("answered: the row has its object", () => {
    const life = new Sending(null);
    life.gets(CREATE, { kind: "done", document: shows("pending") });
    expect(life.row).toMatchObject({ upstreamId: 501, create: "done" });
    expect([life.refusal, instanceStatus(life.row)]).toEqual([null, "pending"]);
  });

  it("answered with another's object adopts nothing: it is found by its tag", () => {
    const life = new Sending(null);
    life.gets(CREATE, { kind: "done", document: { ...shows("running"), tag: "tgabcdef-8-1000-bbbbbb" } });
    expect(life.row).toMatchObject({ upstreamId: null, create: "unknown" });
    expect([life.refusal, instanceStatus(life.row), life.books.held]).toEqual([null, "pending", RATE.priceNanoUsd]);
  });

  it("without an answer keeps its hold and is pending", () => {
    const life = new Sending(null);
    life.gets(CREATE, LOST);
    expect([life.refusal, instanceStatus(life.row), life.books.held]).toEqual([null, "pending", RATE.priceNanoUsd]);
  });

  it.each<[CallOutcome, object]>([
    [BUSY, { kind: "unavailable", retryAfterMs: 9_000 }],
    [
      { kind: "refused", status: 409, text: "no free capacity" },
      { kind: "upstream_refused", status: 409, text: "no free capacity" },
    ],
    [
      { kind: "operator_fault", status: 402 },
      { kind: "unavailable", retryAfterMs: null },
    ],
  ])("that was not executed releases its hold, hides the row and is refused: %j", (outcome, refusal) => {
    const life = new Sending(null);
    life.gets(CREATE, outcome);
    expect(life.refusal).toEqual(refusal);
    expect([life.books.held, life.charged, life.row.create]).toEqual([0, 0, "refused"]);
    expect(life.row.hiddenAtMs).not.toBeNull();
    // A lie of upstream: it made one after all.
    life.at = SENT + 9_000;
    life.sees("running");
    expect(life.books.events).toEqual(["late_orphan"]);
    expect(next(life.row, SENT + 9_001)).toEqual({ do: "send", call: { verb: "stop" } });
  });

  it("found by a list before its answer came is not refused any more", () => {
    const life = new Sending(null).running();
    life.gets(CREATE, BUSY);
    expect([life.refusal, instanceStatus(life.row)]).toEqual([null, "running"]);
  });
});

describe("a stop", () => {
  it("is repeated for ever, 1 s doubling to 60 s, whatever the answer, until the end is seen", () => {
    const life = new Sending(null).running();
    life.row = wantEnd(life.row, "user", SENT + 6_000);
    life.at = SENT + 6_000;
    const waits: number[] = [];
    const answers: CallOutcome[] = [LOST, BUSY, { kind: "operator_fault", status: 401 }];
    for (let tries = 0; tries < 12; tries++) {
      expect(life.sends(answers[tries % 3] as CallOutcome)).toBe("stop");
      const wanted = next(life.row, life.at);
      if (wanted.do !== "wait") throw new Error("it should wait");
      waits.push(wanted.atMs - life.at);
      life.at = wanted.atMs;
    }
    expect(waits.slice(0, 8)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    life.at += 1_000;
    life.sees("ended", { terminatedAtMs: SENT + 7_000 });
    expect(next(life.row, life.at)).toEqual({ do: "none" });
    expect(life.charged).toBe(rateFor(RATE.priceNanoUsd, 4_000, HOUR));
  });

  it("answered 404 begins the proof that it is gone, and waits for a second one", () => {
    const life = new Sending(null).running();
    life.at = SENT + 10_000;
    life.row = wantEnd(life.row, "user", life.at);
    life.sends({ kind: "not_found" });
    expect(instanceStatus(life.row)).toBe("terminating_requested");
    life.at = SENT + 70_000;
    expect(life.sends({ kind: "not_found" })).toBe("read");
    expect([instanceStatus(life.row), life.row.seen.reason]).toEqual(["terminated", "user"]);
  });

  it("comes before every other change", () => {
    const life = new Sending(4).running(4).extends(2);
    life.row = wantEnd(life.row, "admin", life.at + 1);
    expect(next(life.row, life.at + 2)).toEqual({ do: "send", call: { verb: "stop" } });
  });
});

describe("an extension", () => {
  it("that upstream certainly did not execute is taken back with its money, and refused", () => {
    const life = new Sending(4).running(4);
    const before = life.row;
    life.extends(2);
    expect(life.books.held).toBe(6 * RATE.priceNanoUsd);
    life.gets({ verb: "extend", hours: 2 }, BUSY);
    expect(life.refusal).toEqual({ kind: "unavailable", retryAfterMs: 9_000 });
    expect(life.row.rental).toEqual(before.rental);
    expect(life.books.held).toBe(4 * RATE.priceNanoUsd);
  });

  it("without an answer is read back, sent once more after a minute without change, never a third time", () => {
    const life = new Sending(4).running(4).extends(2);
    life.gets({ verb: "extend", hours: 2 }, LOST);
    expect(life.refusal).toBeNull();
    expect(next(life.row, life.at + 59_999)).toMatchObject({ do: "wait" });
    // Nothing was seen since.
    expect(next(life.row, life.at + 60_000)).toEqual({ do: "none" });
    life.at += 60_000;
    life.sees("running", { hours: 4 });
    expect(life.sends(LOST)).toBe("extend");
    life.at += 59_999;
    life.sees("running", { hours: 4 });
    expect(next(life.row, life.at)).toEqual({ do: "none" });
    expect(life.books.held).toBe(6 * RATE.priceNanoUsd);
    // A minute after the second one without effect it certainly was not executed: the hold comes back.
    life.at += 1;
    life.sees("running", { hours: 4 });
    expect([life.books.held, life.row.sending, life.row.rental.hours]).toEqual([4 * RATE.priceNanoUsd, null, 4]);
    expect(next(life.row, life.at)).toEqual({ do: "none" });
  });

  it("seen done is not sent again", () => {
    const life = new Sending(4).running(4).extends(2);
    life.gets({ verb: "extend", hours: 2 }, LOST);
    life.at += 61_000;
    life.sees("running", { hours: 6 });
    expect([next(life.row, life.at), life.row.sending]).toEqual([{ do: "none" }, null]);
    const sure = new Sending(4).running(4).extends(2);
    sure.gets({ verb: "extend", hours: 2 }, { kind: "done", document: null });
    expect([next(sure.row, sure.at + 100), sure.row.seen.hours]).toEqual([{ do: "none" }, 6]);
  });
});

describe("an accepted change whose answer shows it running", () => {
  it("is charged to that moment where it vanished after, whatever list was read before", () => {
    const life = new Sending(4).running(4).extends(2);
    life.at += 30_000;
    const done = { kind: "done", document: shows("running", { hours: 6 }) } as const;
    life.gets({ verb: "extend", hours: 2 }, done);
    const gone = { kind: "not_found", sameUntilMs: life.at - 20_000 } as const;
    for (const atMs of [life.at + 1_000, life.at + 62_000]) life.take(observed(life.row, gone, atMs, atMs, LENGTHS));
    expect(life.row.seen).toMatchObject({ state: "ended", endedAtMs: SENT + 35_000 });
  });
});

describe("a run that upstream extended beyond what was bought", () => {
  it("is told to the operator once, and ends when what was bought ends", () => {
    const life = new Sending(4).running(4).extends(2);
    life.gets({ verb: "extend", hours: 2 }, LOST);
    life.at += 60_000;
    life.sees("running", { hours: 4 });
    expect(life.sends(LOST)).toBe("extend");
    // Both were executed.
    life.at += 1_000;
    life.sees("running", { hours: 8 }).sees("running", { hours: 8 });
    expect(life.books.events).toEqual(["extended_twice"]);
    expect([life.row.sending, life.books.held]).toEqual([null, 6 * RATE.priceNanoUsd]);
    life.turn(SENT + 2_000 + 6 * HOUR + 30_000);
    expect([life.row.wants.end?.reason, life.charged]).toEqual(["duration_expired", 6 * RATE.priceNanoUsd]);
  });

  it("in the answer to the second try is told too", () => {
    const life = new Sending(4).running(4).extends(2);
    life.gets({ verb: "extend", hours: 2 }, LOST);
    life.at += 60_000;
    life.sees("running", { hours: 4 });
    life.sends({ kind: "done", document: shows("running", { hours: 8 }) });
    expect(life.books.events).toEqual(["extended_twice"]);
  });

  it("a document from before an accepted extension does not make it be sent again", () => {
    const life = new Sending(4).running(4).extends(2);
    life.gets({ verb: "extend", hours: 2 }, { kind: "done", document: null });
    life.at += 100;
    life.sees("running", { hours: 4 });
    expect(next(life.row, life.at)).toEqual({ do: "none" });
  });
});

describe("a read by id", () => {
  it("comes once a minute where lists lack what reads show, and 5 s later without an answer", () => {
    const life = new Sending(null).running();
    const lacks = () => life.take(observed(life.row, { kind: "absent" }, life.at, life.at, LENGTHS));
    life.at += 5_000;
    lacks();
    expect(next(life.row, life.at)).toEqual({ do: "wait", atMs: SENT + 65_000 });
    life.at = SENT + 65_000;
    expect(life.sends(LOST)).toBe("read");
    expect(next(life.row, life.at + 4_999)).toEqual({ do: "wait", atMs: life.at + 5_000 });
    life.at += 5_000;
    expect(life.sends({ kind: "done", document: shows("running") })).toBe("read");
    life.at += 5_000;
    lacks();
    expect(next(life.row, life.at)).toEqual({ do: "wait", atMs: SENT + 130_000 });
  });
});

describe("a scale or PATCH", () => {
  const scaled = (replicas: number) => {
    const life = new Sending(4).running(4);
    const former = formerOf(life.row);
    const wanted = { ...life.row, wants: { ...life.row.wants, replicas }, seen: { ...life.row.seen, replicas: 1 } };
    life.row = sent(wanted, { verb: "scale", replicas }, life.at, former);
    return life;
  };

  it("is repeated until it is seen: it names an end state", () => {
    const life = scaled(3);
    life.gets({ verb: "scale", replicas: 3 }, LOST);
    life.at += retryDelayMs(1);
    expect(life.sends({ kind: "done", document: null })).toBe("scale");
    expect(next(life.row, life.at + 60_000)).toEqual({ do: "none" });
  });

  it("seen done without an answer is over", () => {
    const life = scaled(3);
    life.gets({ verb: "scale", replicas: 3 }, LOST);
    life.at += 500;
    life.sees("running", { replicas: 3 });
    expect([life.row.sending, next(life.row, life.at)]).toEqual([null, { do: "none" }]);
  });

  it("that is refused restores what was wanted before, and the tenant reads why", () => {
    const life = scaled(3);
    life.gets({ verb: "scale", replicas: 3 }, { kind: "refused", status: 409, text: "too few free GPUs" });
    expect(life.row.wants.replicas).toBe(1);
    expect(life.refusal).toEqual({ kind: "upstream_refused", status: 409, text: "too few free GPUs" });
  });

  it("that gets 409 after a try without an answer may be done: a PATCH is repeated, a scale for a minute", () => {
    const life = new Sending(null).running();
    const former = formerOf(life.row);
    const setup = { ...former.setup, containerImage: "img:2" };
    const patched = { ...life.row, wants: { ...life.row.wants, setup, rebuild: { answeredMs: null } } };
    life.row = sent(patched, { verb: "patch", setup }, life.at, former);
    life.gets({ verb: "patch", setup }, LOST);
    const BUILDING = { kind: "refused", status: 409, text: "it is being rebuilt" } as const;
    life.at += retryDelayMs(1);
    expect(life.sends(BUILDING)).toBe("patch");
    expect(life.row.wants.setup).toEqual(setup);
    life.at += retryDelayMs(2);
    expect(life.sends({ kind: "done", document: null })).toBe("patch");
    expect(life.row).toMatchObject({ sending: null, wants: { setup } });

    const scale = scaled(3);
    scale.gets({ verb: "scale", replicas: 3 }, LOST);
    const began = scale.at;
    for (let tries = 1; scale.row.sending !== null; tries++) {
      scale.at += retryDelayMs(tries);
      scale.sees("running", { replicas: 1 }).sends({ kind: "refused", status: 409, text: "too few free GPUs" });
    }
    expect(scale.at - began).toBeGreaterThanOrEqual(60_000);
    expect(scale.row.wants.replicas).toBe(1);
  });

  it("a PATCH that was accepted shows pending until it runs again; a refused one changes nothing", () => {
    const life = new Sending(null).running();
    const former = formerOf(life.row);
    const setup = { ...former.setup, containerImage: "img:2" };
    const wants = { ...life.row.wants, setup, rebuild: { answeredMs: null } };
    const call: RowCall = { verb: "patch", setup };
    life.row = sent({ ...life.row, wants }, call, life.at, former);
    const refused = answered(life.row, call, { kind: "refused", status: 400, text: "no" }, life.at, life.at, LENGTHS);
    expect(refused.row.wants).toMatchObject({ setup: former.setup, rebuild: null });
    life.gets(call, { kind: "done", document: null });
    expect(instanceStatus(life.row)).toBe("pending");
    life.at += 100;
    life.sees("running");
    expect(instanceStatus(life.row)).toBe("running");
  });
});

it.each<[RowCall["verb"], ControlAnswer, string]>([
  ["create", { kind: "unknown", sentAtMs: 1 }, "unknown"],
  ["create", { kind: "not_sent", why: "budget", retryAfterMs: 5 }, "not_executed"],
  ["create", { kind: "answered", status: 202, body: "{}", sentAtMs: 1 }, "done"],
  ["create", { kind: "answered", status: 202, body: "", sentAtMs: 1 }, "unknown"],
  ["stop", { kind: "answered", status: 202, body: "", sentAtMs: 1 }, "done"],
  ["create", { kind: "answered", status: 503, body: "", sentAtMs: 1 }, "not_executed"],
  ["create", { kind: "answered", status: 429, body: "", sentAtMs: 1 }, "not_executed"],
  ["create", { kind: "answered", status: 404, body: "", sentAtMs: 1 }, "operator_fault"],
  ["stop", { kind: "answered", status: 404, body: "", sentAtMs: 1 }, "not_found"],
  ["create", { kind: "answered", status: 401, body: "", sentAtMs: 1 }, "operator_fault"],
  ["create", { kind: "answered", status: 402, body: "", sentAtMs: 1 }, "operator_fault"],
  ["create", { kind: "answered", status: 400, body: "x", sentAtMs: 1 }, "refused"],
  ["create", { kind: "answered", status: 422, body: "x", sentAtMs: 1 }, "refused"],
  ["create", { kind: "answered", status: 409, body: "x", sentAtMs: 1 }, "refused"],
  ["create", { kind: "answered", status: 500, body: "x", sentAtMs: 1 }, "unknown"],
  ["create", { kind: "answered", status: 302, body: "x", sentAtMs: 1 }, "unknown"],
])("what an answer to a %s means: %j is %s", (verb, answer, kind) => {
  expect(outcomeOf(verb, answer, (body) => (body === "{}" ? shows("pending") : null)).kind).toBe(kind);
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  BUDGET_SPAN_MS,
  type CallClass,
  callsOfSpan,
  type SentCall,
  waitForCall,
} from "../../../src/core/compute/call-budget.ts";
import { dueLists, type Watch } from "../../../src/core/compute/listing.ts";
import { streamOf } from "../../soak/random.ts";

const CLASSES: readonly CallClass[] = ["stop", "create", "call", "list"];
const many = (cls: CallClass, count: number, atMs: number): SentCall[] =>
  Array.from({ length: count }, () => ({ cls, atMs }));

describe("the broker's budget of calls", () => {
  it("keeps 15 of 55 calls a minute for stops", () => {
    const sent = many("call", 40, 1_000);
    expect(waitForCall(sent, "call", 2_000)).toBe(59_000);
    expect(waitForCall(sent, "create", 2_000)).toBe(59_000);
    expect(waitForCall(sent, "list", 2_000)).toBe(59_000);
    expect(waitForCall(sent, "stop", 2_000)).toBe(0);
    expect(waitForCall([...sent, ...many("stop", 15, 1_500)], "stop", 2_000)).toBe(59_000);
  });

  it("stops leave 6 to lists, and to nothing else", () => {
    expect(waitForCall(many("stop", 48, 0), "stop", 1)).toBe(0);
    const stops = many("stop", 49, 0);
    for (const cls of ["stop", "call", "create"] as const) expect(waitForCall(stops, cls, 1)).toBe(59_999);
    expect(waitForCall([...stops, ...many("list", 5, 0)], "list", 1)).toBe(0);
    expect(waitForCall([...stops, ...many("list", 6, 0)], "list", 1)).toBe(59_999);
  });

  it("a thousand stops that are repeated leave lists to see what has ended", () => {
    const sent: SentCall[] = [];
    for (let nowMs = 0; nowMs < 600_000; nowMs += 500) {
      for (const cls of ["stop", "list"] as const) {
        while (waitForCall(sent, cls, nowMs) === 0) sent.push({ cls, atMs: nowMs });
      }
      if (nowMs >= BUDGET_SPAN_MS) expect(callsOfSpan(sent, nowMs).list).toBeGreaterThanOrEqual(6);
    }
  });

  it("lists take at most 24, launches at most 10", () => {
    expect(waitForCall(many("list", 23, 0), "list", 10)).toBe(0);
    expect(waitForCall(many("list", 24, 0), "list", 10)).toBe(59_990);
    expect(waitForCall(many("list", 24, 0), "call", 10)).toBe(0);
    expect(waitForCall(many("create", 9, 0), "create", 10)).toBe(0);
    expect(waitForCall(many("create", 10, 0), "create", 10)).toBe(59_990);
  });

  it("a clock set back frees no call", () => {
    expect(waitForCall(many("stop", 55, 1_000_000), "stop", 0)).toBe(BUDGET_SPAN_MS);
  });

  it("in no stretch of 60 s are more sent than each rule allows, however calls come", () => {
    const arrivals = fc.array(fc.tuple(fc.nat({ max: 4_000 }), fc.constantFrom(...CLASSES)), { maxLength: 400 });
    fc.assert(
      fc.property(arrivals, (steps) => {
        const sent: SentCall[] = [];
        let nowMs = 0;
        for (const [gapMs, cls] of steps) {
          nowMs += gapMs;
          if (waitForCall(sent, cls, nowMs) === 0) sent.push({ atMs: nowMs, cls });
          const counted = callsOfSpan(sent, nowMs);
          const all = counted.stop + counted.create + counted.call + counted.list;
          expect(all).toBeLessThanOrEqual(55);
          expect(counted.list).toBeLessThanOrEqual(24);
          expect(counted.create).toBeLessThanOrEqual(10);
          expect(counted.stop).toBeLessThanOrEqual(49);
          expect(all - counted.stop).toBeLessThanOrEqual(40);
          if ((cls === "call" || cls === "create") && sent.at(-1)?.atMs === nowMs && sent.at(-1)?.cls === cls) {
            expect(all).toBeLessThanOrEqual(40);
          }
        }
      }),
    );
  });

  it("what it says to wait is enough, and not too much", () => {
    const logs = fc.array(fc.tuple(fc.nat({ max: 2_000 }), fc.constantFrom(...CLASSES)), { maxLength: 80 });
    fc.assert(
      fc.property(logs, fc.constantFrom(...CLASSES), (steps, cls) => {
        let atMs = 0;
        const sent = steps.map(([gapMs, of]): SentCall => {
          atMs += gapMs;
          return { atMs, cls: of };
        });
        const waitMs = waitForCall(sent, cls, atMs);
        expect(waitForCall(sent, cls, atMs + waitMs)).toBe(0);
        if (waitMs > 0) expect(waitForCall(sent, cls, atMs + waitMs - 1)).toBeGreaterThan(0);
      }),
    );
  });
});

it("1,000 machines on 100 accounts for three days fit into it: lists every 5 s, stops at once, launches within their minute", () => {
  const random = streamOf(1, "machines");
  const S = 1_000;
  const HOUR = 3_600 * S;
  const machines = Array.from({ length: 1_000 }, (_, index) => ({
    account: index % 100,
    state: "off" as "off" | "starting" | "running" | "stopping",
    // A morning on which all begin, then each lives for hours and comes again.
    nextMs: Math.floor(random() * 3 * HOUR),
    changedMs: 0,
  }));
  let sent: SentCall[] = [];
  let listedMs = -60 * S;
  const longest = { stop: 0, create: 0, list: 0 };
  let calls = 0;
  let busiest = 0;
  let launches = 0;
  const send = (cls: CallClass, nowMs: number): boolean => {
    if (waitForCall(sent, cls, nowMs) > 0) return false;
    sent = [...sent.filter(({ atMs }) => atMs > nowMs - BUDGET_SPAN_MS), { cls, atMs: nowMs }];
    calls += 1;
    busiest = Math.max(busiest, sent.length);
    return true;
  };
  const isAtRest = ({ state }: (typeof machines)[number]) => state === "off" || state === "running";
  let moving: typeof machines = [];
  // Each second of three days: the thousand are looked through only when one of them is due or has moved.
  let soonestMs = 0;
  for (let nowMs = 0; nowMs < 72 * HOUR; nowMs += S) {
    const anyDue = soonestMs <= nowMs;
    for (const machine of anyDue ? machines : []) {
      if (machine.nextMs > nowMs || !isAtRest(machine)) continue;
      const cls = machine.state === "off" ? "create" : "stop";
      if (!send(cls, nowMs)) continue;
      longest[cls] = Math.max(longest[cls], nowMs - machine.nextMs);
      machine.state = cls === "create" ? "starting" : "stopping";
      machine.changedMs = nowMs;
      launches += cls === "create" ? 1 : 0;
    }
    if (anyDue) {
      moving = machines.filter((machine) => !isAtRest(machine));
      soonestMs = Math.min(...machines.filter(isAtRest).map(({ nextMs }) => nextMs));
    }
    const watches: Watch[] = [
      { account: 1, kind: "instance", tags: ["t"], inTransition: moving.map(({ account }) => `${account}`) },
    ];
    const dueMs = dueLists(watches, new Map([["instance", listedMs]]))[0]?.atMs ?? 0;
    if (dueMs > nowMs || !send("list", nowMs)) continue;
    const sinceMs = Math.min(...moving.map(({ changedMs }) => changedMs));
    if (moving.length > 0) longest.list = Math.max(longest.list, nowMs - Math.max(dueMs, sinceMs));
    listedMs = nowMs;
    for (const machine of moving) {
      if (nowMs < machine.changedMs + 3 * S) continue;
      machine.nextMs = nowMs + Math.floor((machine.state === "starting" ? 1 + random() * 30 : random() * 2) * HOUR);
      machine.state = machine.state === "starting" ? "running" : "off";
      soonestMs = 0;
    }
  }
  expect(launches).toBeGreaterThan(3_000);
  expect(busiest).toBeLessThanOrEqual(55);
  expect(longest.stop).toBeLessThanOrEqual(2 * S);
  expect(longest.list).toBeLessThanOrEqual(5 * S);
  // A thousand that begin in one morning are more than ten a minute only by chance.
  expect(longest.create).toBeLessThanOrEqual(3 * 60 * S);
  expect(calls / (72 * 60)).toBeLessThan(15);
});

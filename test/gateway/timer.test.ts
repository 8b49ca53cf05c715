import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { After } from "../../src/gateway/ports.ts";
import { after, every } from "../../src/gateway/timer.ts";
import { oneTimer } from "../../src/platform/one-timer.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("the waits of one call share a timer, and each acts when a timer of its own would", () => {
  const act = fc.record({
    kind: fc.constantFrom("wait", "stop", "pass"),
    ms: fc.integer({ min: 0, max: 400 }),
    which: fc.nat(20),
    /** What the wait does when it is over: waits again, or takes another back. */
    after: fc.constantFrom("nothing", "wait", "stop"),
  });

  /** Names of the waits in the order in which they acted, with the time. */
  function play(wait: After, acts: readonly Act[]): string[] {
    vi.setSystemTime(0);
    const startedMs = performance.now();
    const told: string[] = [];
    const stops: (() => void)[] = [];
    const begin = (ms: number, next: string, which: number) => {
      const name = stops.length;
      const over = () => {
        told.push(`${name} at ${performance.now() - startedMs}`);
        if (next === "wait") begin(ms + 1, "nothing", 0);
        if (next === "stop") stops[which % stops.length]?.();
      };
      stops.push(wait(ms, over));
    };
    for (const { kind, ms, which, after: next } of acts) {
      if (kind === "wait") begin(ms, next, which);
      else if (kind === "stop") stops[which % Math.max(1, stops.length)]?.();
      else vi.advanceTimersByTime(ms);
    }
    vi.advanceTimersByTime(2_000);
    return told;
  }
  type Act = { kind: string; ms: number; which: number; after: string };

  it("whatever is begun and taken back, and in whatever order", () => {
    fc.assert(
      fc.property(fc.array(act, { maxLength: 40 }), (acts) => {
        const alone = play(after, acts);
        expect(play(oneTimer(true), acts)).toEqual(alone);
        expect(play(oneTimer(false), acts)).toEqual(alone);
      }),
    );
  });
});

it("a call whose waits are all taken back sets its timer once", () => {
  const set = vi.spyOn(globalThis, "setTimeout");
  const wait = oneTimer(true);
  for (const ms of [1_000, 60_000, 2_500, 1_000, 6_500]) wait(ms, () => expect.unreachable())();
  expect(set).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(100_000);
  expect([set.mock.calls.length, vi.getTimerCount()]).toEqual([1, 0]);
});

it("in an object no timer is left once all waits are taken back", () => {
  const wait = oneTimer(false);
  const stops = [1_000, 60_000].map((ms) => wait(ms, () => expect.unreachable()));
  stops[0]?.();
  expect(vi.getTimerCount()).toBe(1);
  stops[1]?.();
  stops[1]?.();
  expect(vi.getTimerCount()).toBe(0);
});

it("a clock that is set back delays no wait", () => {
  const clock = vi.spyOn(performance, "now").mockReturnValue(1_000_000);
  const told: string[] = [];
  const wait = oneTimer(false);
  wait(100, () => told.push("first"));
  wait(300, () => told.push("second"));
  clock.mockReturnValue(500_000);
  vi.advanceTimersByTime(100);
  expect(told).toEqual(["first"]);
  clock.mockReturnValue(500_200);
  vi.advanceTimersByTime(200);
  expect(told).toEqual(["first", "second"]);
});

it("what acts again and again stops when it is told to, also by itself", () => {
  let acted = 0;
  const stop = every(
    10,
    () => {
      acted += 1;
      if (acted === 6) stop();
    },
    oneTimer(true),
  );
  vi.advanceTimersByTime(1_000);
  expect(acted).toBe(6);
});

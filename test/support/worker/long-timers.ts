/**
 * Long timers of the account objects and brokers, on a test's faked clock. They look at it in true time, in the context
 * of whoever set them.
 */
import { vi } from "vitest";

/** Timers of at least this length go by the test's clock. */
const LONG_TIMER_MS = 100;
const trueSetTimeout = globalThis.setTimeout;
const trueClearTimeout = globalThis.clearTimeout;

/** What waits for its turn to call upstream. */
const turnTimers = new Set<unknown>();
let set = 0;

/** A moment of true time, in which what can go on does. */
export const turn = (): Promise<void> => new Promise((resolve) => trueSetTimeout(resolve, 2));

/** How many calls of brokers wait for their turn; they go on when the clock moves. */
export const waitingTurns = (): number => turnTimers.size;

/** How many were ever set. */
export const longTimersSet = (): number => set;

/** Until the mocks are restored. */
export function simulateLongTimers(): void {
  turnTimers.clear();
  const simulated = (callback: (...given: unknown[]) => void, ms = 0, ...given: unknown[]): unknown => {
    const { stack = "" } = new Error();
    const isOurs = /platform\/(account|broker)\//.test(stack);
    if (ms < LONG_TIMER_MS || !isOurs) return trueSetTimeout(callback, ms, ...given);
    set += 1;
    const dueMs = Date.now() + ms;
    const timer = setInterval(() => {
      if (Date.now() < dueMs) return;
      clearInterval(timer);
      turnTimers.delete(timer);
      callback(...given);
    }, 5);
    if (stack.includes("broker/sender.ts")) turnTimers.add(timer);
    return timer;
  };
  vi.spyOn(globalThis, "setTimeout").mockImplementation(simulated as never);
  vi.spyOn(globalThis, "clearTimeout").mockImplementation(((timer: never) => {
    turnTimers.delete(timer);
    trueClearTimeout(timer);
  }) as never);
}

/** Waiting that takes its timer back when it is over. */
import type { After } from "./ports.ts";
import { after } from "./timer.ts";

const sleep = (ms: number): Promise<void> => new Promise((resume) => setTimeout(resume, ms));

/**
 * Repeats work until it succeeds. `pauseAfter` takes the failure and the number of tries and gives the pause, ms; null
 * gives up and rejects with that failure.
 */
export async function retry<Result>(
  work: () => Promise<Result>,
  pauseAfter: (error: unknown, tries: number) => number | null,
): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const pauseMs = pauseAfter(error, tries);
      if (pauseMs === null) throw error;
      if (pauseMs > 0) await sleep(pauseMs);
    }
  }
}

/** Gives the work a promise that rejects with `late()` after `ms`, to race with what it waits for. */
export async function inTime<Result>(
  ms: number,
  late: () => Error,
  work: (late: Promise<never>) => Promise<Result>,
): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(late()), ms);
  promise.catch(() => undefined);
  try {
    return await work(promise);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether the work finished within `ms`. Rejects if the work rejected by then. */
export async function settledWithin(work: Promise<unknown>, ms: number, wait: After = after): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<false>();
  const stop = wait(ms, () => resolve(false));
  // Ignore a rejection after the time limit.
  work.catch(() => undefined);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    stop();
  }
}

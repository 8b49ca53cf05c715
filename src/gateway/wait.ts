/** Waiting that leaves no timer behind. */

export const sleep = (ms: number): Promise<void> => new Promise((resume) => setTimeout(resume, ms));

/** Whether the work has ended by then; rejects where it did before. */
export async function settledWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<false>();
  const timer = setTimeout(() => resolve(false), ms);
  // Nobody waits for what comes later.
  work.catch(() => undefined);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

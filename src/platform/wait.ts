/** Waiting that leaves no timer behind. */

/** What the work gives, or `late` if it takes longer than `ms`. The work goes on. */
export async function within<Result, Late>(ms: number, work: Promise<Result>, late: Late): Promise<Result | Late> {
  const { promise, resolve } = Promise.withResolvers<Late>();
  const timer = setTimeout(() => resolve(late), ms);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for what comes by itself. */

/** Tries until `probe` gives a value that is not undefined, false or null; says `what` was awaited when it does not. */
export async function eventually<T>(
  what: string,
  probe: () => T | undefined | null | false | Promise<T | undefined | null | false>,
  { withinMs = 5_000, everyMs = 50 } = {},
): Promise<T> {
  const deadline = Date.now() + withinMs;
  let lastError: unknown;
  while (true) {
    try {
      const value = await probe();
      if (value !== undefined && value !== null && value !== false) return value;
      lastError = undefined;
    } catch (error) {
      lastError = error;
    }
    if (Date.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`, { cause: lastError });
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

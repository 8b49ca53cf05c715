/** Waits for what comes by itself. */
import { allowedMs } from "./slowness.ts";

/**
 * Tries until `probe` gives a value that is not undefined, false or null; says `what` was awaited when it does not. A
 * busy machine is given longer.
 */
export async function eventually<T>(
  what: string,
  probe: () => T | undefined | null | false | Promise<T | undefined | null | false>,
  { withinMs = 5_000, everyMs = 50 } = {},
): Promise<T> {
  const startedMs = performance.now();
  const waitedMs = () => performance.now() - startedMs;
  let lastError: unknown;
  while (true) {
    try {
      const value = await probe();
      if (value !== undefined && value !== null && value !== false) return value;
      lastError = undefined;
    } catch (error) {
      lastError = error;
    }
    if (waitedMs() > withinMs && waitedMs() > allowedMs(withinMs))
      throw new Error(`not within ${withinMs} ms: ${what}`, { cause: lastError });
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

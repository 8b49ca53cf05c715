/**
 * Asking an account object that may be slow, restarting, overloaded or out of reach. Calls time out and
 * fail closed. A stub that threw is broken, so the retry uses a fresh one; an object that says it is overloaded is not
 * asked again. Every question may be asked twice: the object answers by call id.
 */
import type { AccountNumber } from "../core/ids.ts";
import type { AccountPort, Ports } from "./ports.ts";

/** The longest that a client waits for the account object, ms. */
export const LONGEST_ANSWER_MS = 5_000;

/** The object said nothing in time; what was asked may still happen. */
class Unanswered extends Error {
  constructor() {
    super("the account object did not answer in time");
  }
}

/** Set by the runtime on errors of an object that has too much to do. */
export const isOverloaded = (error: unknown): boolean =>
  typeof error === "object" && error !== null && (error as { overloaded?: unknown }).overloaded === true;

/** Rejects with `Unanswered` after `LONGEST_ANSWER_MS`, else with what the object or its stub threw. */
export async function ask<T>(
  ports: Pick<Ports, "account">,
  number: AccountNumber,
  word: (account: AccountPort) => Promise<T>,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Unanswered()), LONGEST_ANSWER_MS);
  late.promise.catch(() => undefined);
  const say = () => Promise.race([word(ports.account(number)), late.promise]);
  try {
    return await say().catch((error) => {
      if (error instanceof Unanswered || isOverloaded(error)) throw error;
      return say();
    });
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Runs the same work once at a time in an isolate; callers that come meanwhile wait for its result.
 *
 * A promise of another request never settles if that request is torn down. So a caller waits at most `LONGEST_WAIT_MS`
 * for another's run, and then does the work itself.
 */
import { within } from "../wait.ts";

const LONGEST_WAIT_MS = 2_000;

export class Flights<T> {
  readonly #running = new Map<string, Promise<T>>();

  /** Runs the work, or joins a run of the same name that is under way. */
  async run(name: string, work: () => Promise<T>): Promise<T> {
    const running = this.#running.get(name);
    const shared =
      running &&
      (await within(
        LONGEST_WAIT_MS,
        running.then((value) => ({ value })),
        undefined,
      ));
    if (shared) return shared.value;
    const mine = work();
    this.#running.set(name, mine);
    try {
      return await mine;
    } finally {
      if (this.#running.get(name) === mine) this.#running.delete(name);
    }
  }

  has(name: string): boolean {
    return this.#running.has(name);
  }
}

/**
 * Long work on bodies that goes on at once in an isolate. Each work pauses between its turns, and the more there are,
 * the longer: together they leave the isolate free for others between two turns, however many accounts send large
 * bodies.
 *
 * A request that was torn down says nothing any more, and is forgotten.
 */

/** About what one turn takes, ms. */
const TURN_MS = 4;
const SILENT_MS = 5_000;

export class LongWork {
  readonly #heardAtMs = new Map<object, number>();

  /** How long this work pauses now, ms. */
  pauseMs(work: object, nowMs: number): number {
    this.#heardAtMs.set(work, nowMs);
    for (const [one, heardAtMs] of this.#heardAtMs) {
      if (Math.abs(nowMs - heardAtMs) > SILENT_MS) this.#heardAtMs.delete(one);
    }
    return (this.#heardAtMs.size - 1) * TURN_MS;
  }

  done(work: object): void {
    this.#heardAtMs.delete(work);
  }
}

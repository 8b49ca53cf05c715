/**
 * Long work in steps, so that others may have their turn in between: a generator yields the work of each step, in bytes
 * or what costs as much, and returns the result. A step is a few milliseconds at most.
 */
export type Steps<Result> = Generator<number, Result>;

/** How much work one step is, about. */
const STEP_WORK = 64 * 1024;
/** What a named value costs to look at, as bytes of text. */
export const WORK_PER_NAME = 64;
/** The same for a number or a short text in a list. */
export const WORK_PER_ITEM = 8;

/** All steps at once. */
export function toEnd<Result>(steps: Iterator<number, Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** A result that takes no step. */
// biome-ignore lint/correctness/useYield: that is what it is for.
export function* atOnce<Result>(result: Result): Steps<Result> {
  return result;
}

/** Adds up work until it is a step. */
export class Work {
  #sum = 0;

  /** True once a step is full. Then yield `take()`. */
  add(work: number): boolean {
    this.#sum += work;
    return this.#sum >= STEP_WORK;
  }

  take(): number {
    const sum = this.#sum;
    this.#sum = 0;
    return sum;
  }
}

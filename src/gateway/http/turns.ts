/** Long work in turns, so that other requests get theirs in between. */

import type { Steps } from "../../core/steps.ts";

/** About so many bytes are worked at in one turn: a few milliseconds. */
const TURN_WORK = 256 * 1024;

/** Runs all steps. Small work is done at once. */
export async function inTurns<Result>(steps: Steps<Result>): Promise<Result> {
  let work = 0;
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    work += step.value;
    if (work < TURN_WORK) continue;
    work = 0;
    await new Promise<void>((resume) => setTimeout(resume, 0));
  }
}

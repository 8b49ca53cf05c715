/** Long work in turns, so that other requests get theirs in between. */
import type { Steps } from "../../core/steps.ts";
import type { Ports } from "../ports.ts";

/** About so many bytes are worked at in one turn: a few milliseconds. */
const TURN_WORK = 256 * 1024;

/** Runs all steps. Small work is done at once. */
export async function inTurns<Result>(steps: Steps<Result>, ports: Pick<Ports, "bodies" | "now">): Promise<Result> {
  const { longWork } = ports.bodies;
  let work = 0;
  for (;;) {
    const step = steps.next();
    if (step.done) {
      longWork.done(steps);
      return step.value;
    }
    work += step.value;
    if (work < TURN_WORK) continue;
    work = 0;
    const pauseMs = longWork.pauseMs(steps, ports.now());
    await new Promise<void>((resume) => setTimeout(resume, pauseMs));
  }
}

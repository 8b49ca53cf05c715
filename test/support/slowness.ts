/**
 * How slow the machine is. Bounds of time are for the machine that they were measured on, when it had time; where
 * another is slower, or others share its cores, a bound that a test asserts grows with that. So it stays strict where
 * it can be, and fails nobody who runs two things.
 */

const SPINS = 10_000_000;
/** What the spins take where the bounds were measured, with nothing else running. */
const SPUN_MS = 30;
/** Below this, others take nothing worth mentioning. */
const QUIET = 1.2;
/** Work that a test waits for passes through several processes, each of which waits for its turn. */
const PROCESSES = 2;

let warm = false;

/** How many times longer than there a short piece of work takes here, now. */
function slowness(): number {
  if (!warm) spin();
  warm = true;
  const startedMs = performance.now();
  spin();
  return (performance.now() - startedMs) / SPUN_MS;
}

function spin(): void {
  let state = 1;
  for (let count = 0; count < SPINS; count++) state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 1;
  // Never true; without a use of `state` the compiler may leave the loop out.
  if (state === 0.5) throw new Error("no number");
}

/** What a bound of `ms` comes to on this machine as busy as it is now. Ask after the fact, not before. */
export function allowedMs(ms: number): number {
  const slow = slowness();
  return slow < QUIET ? ms : ms * slow * PROCESSES;
}

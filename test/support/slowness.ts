/**
 * How busy the machine is. Bounds of time are for a machine that has time; where others share its cores, a bound that a
 * test asserts grows with what they leave. So it stays strict where it can be, and fails nobody who runs two things.
 */

const SPIN_CPU_MS = 25;
/** Below this, others take nothing worth mentioning. */
const QUIET = 1.2;
/** Work that a test waits for passes through several processes, each of which waits for its turn. */
const PROCESSES = 2;

/** Wall time over CPU time of a short piece of work, now: 1 on a quiet machine, 3 where three want each core. */
function slowness(): number {
  const startedMs = performance.now();
  const started = process.threadCpuUsage();
  let usedMs = 0;
  while (usedMs < SPIN_CPU_MS) {
    const { user, system } = process.threadCpuUsage(started);
    usedMs = (user + system) / 1_000;
  }
  return (performance.now() - startedMs) / usedMs;
}

/** What a bound of `ms` comes to on this machine as busy as it is now. Ask after the fact, not before. */
export function allowedMs(ms: number): number {
  const slow = slowness();
  return slow < QUIET ? ms : ms * slow * PROCESSES;
}

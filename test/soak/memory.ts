/**
 * Resident memory of the gateway's workerd, read from Linux. A figure of a killed process cannot be compared with the
 * next one's.
 */
import { sleep } from "../support/eventually.ts";
import { residentMb } from "../support/memory.ts";
import type { TollgateProcess } from "../support/process.ts";

interface Sample {
  readonly pid: number;
  readonly mb: number;
}

/** Objects leave memory after ten idle seconds. */
const SETTLED_AFTER_MS = 15_000;
const SAMPLE_EVERY_MS = 5_000;
/** The allocator's normal variation. */
const FLAT_MB = 32;
const LEAK_MB = 100;

function sampleOf(tollgate: TollgateProcess): Sample | null {
  try {
    const pid = tollgate.workerdPid();
    return { pid, mb: residentMb(pid).now };
  } catch {
    // Killed a moment ago.
    return null;
  }
}

/** Samples after unused objects had time to leave memory. */
export async function restingMemory(tollgate: TollgateProcess): Promise<Sample | null> {
  await sleep(SETTLED_AFTER_MS);
  return sampleOf(tollgate);
}

/** Samples until it is stopped. */
export function watchMemory(tollgate: TollgateProcess): { stop: () => readonly Sample[] } {
  const samples: Sample[] = [];
  const timer = setInterval(() => {
    const sample = sampleOf(tollgate);
    if (sample) samples.push(sample);
  }, SAMPLE_EVERY_MS);
  return {
    stop: () => {
      clearInterval(timer);
      return samples;
    },
  };
}

export interface MemoryReport {
  readonly lines: readonly string[];
  /** Meaningful only if the same process ran since the warm-up. */
  readonly leaked: boolean;
}

/** `before`: at rest after the warm-up; `after`: at rest after the load; `loaded`: in between. */
export function memoryReport(before: Sample | null, loaded: readonly Sample[], after: Sample | null): MemoryReport {
  if (!before || !after) return { lines: ["memory       unknown: only Linux tells"], leaked: false };
  const ofLast = loaded.filter(({ pid }) => pid === after.pid).map(({ mb }) => mb);
  const under = `memory       under load: ${trendOf(ofLast)}`;
  if (before.pid !== after.pid) {
    const lines = [
      `memory       at rest: ${after.mb} MB; this and the next line are of the last process only`,
      under,
      "memory flat  not shown: processes were killed (--no-kills shows it)",
    ];
    return { lines, leaked: false };
  }
  const grown = after.mb - before.mb;
  const lines = [
    `memory       at rest: ${before.mb} MB after the warm-up, ${after.mb} MB after the load; one process`,
    under,
    `memory flat  ${grown <= FLAT_MB ? "yes" : "NO"}: it grew by ${grown} MB (flat: at most ${FLAT_MB} MB)`,
  ];
  return { lines, leaked: grown > LEAK_MB };
}

function trendOf(readings: readonly number[]): string {
  if (readings.length < 3) return `${readings.length} readings, too few`;
  const third = Math.floor(readings.length / 3);
  const [first, last] = [readings.slice(0, third), readings.slice(-third)];
  const range = `${Math.min(...readings)} to ${Math.max(...readings)} MB, median ${median(readings)}`;
  return `${range}; ${median(first)} in the first third, ${median(last)} in the last (${readings.length} readings)`;
}

const median = (readings: readonly number[]): number =>
  [...readings].sort((a, b) => a - b)[Math.floor(readings.length / 2)] ?? 0;

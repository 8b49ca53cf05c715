/**
 * What the gateway keeps in memory: the heap of its isolate after a collection, and the resident memory of workerd,
 * read from Linux. A figure of a killed process cannot be compared with the next one's.
 */
import { sleep } from "../support/eventually.ts";
import { HeapMeter } from "../support/heap-meter.ts";
import { residentMb } from "../support/memory.ts";
import type { TollgateProcess } from "../support/process.ts";

interface Sample {
  readonly pid: number;
  readonly mb: number;
}

interface RestingSample extends Sample {
  readonly heapMb: number;
}

/** Objects leave memory after ten idle seconds. */
const SETTLED_AFTER_MS = 15_000;
const SAMPLE_EVERY_MS = 5_000;
/** Caches of names and keys fill up. */
const FLAT_HEAP_MB = 16;
/**
 * Bodies of 30 MB pass through workerd, and its allocator keeps pages that they took: at four rests, a minute of load
 * apart, the same process had 340, 347, 440 and 409 MB, while the heaps of all its isolates came to 60 MB.
 */
const KEPT_BY_ALLOCATOR_MB = 256;

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
export async function restingMemory(tollgate: TollgateProcess, inspectorPort: number): Promise<RestingSample | null> {
  await sleep(SETTLED_AFTER_MS);
  const heapMb = await HeapMeter.afterCollection(inspectorPort);
  const sample = sampleOf(tollgate);
  return sample && { ...sample, heapMb };
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
export function memoryReport(
  before: RestingSample | null,
  loaded: readonly Sample[],
  after: RestingSample | null,
): MemoryReport {
  if (!before || !after) return { lines: ["memory       unknown: only Linux tells"], leaked: false };
  const ofLast = loaded.filter(({ pid }) => pid === after.pid).map(({ mb }) => mb);
  const under = `memory       under load: ${trendOf(ofLast)}`;
  if (before.pid !== after.pid) {
    const lines = [
      `memory       at rest: ${after.mb} MB, heap ${after.heapMb} MB; this and the next line are of the last process only`,
      under,
      "memory flat  not shown: processes were killed (--no-kills shows it)",
    ];
    return { lines, leaked: false };
  }
  const [heapGrown, grown] = [after.heapMb - before.heapMb, after.mb - before.mb];
  const leaked = heapGrown > FLAT_HEAP_MB || grown > KEPT_BY_ALLOCATOR_MB;
  const lines = [
    `memory       at rest: ${before.mb} MB after the warm-up, ${after.mb} MB after the load; one process`,
    `memory       heap of the gateway's isolate after a collection: ${before.heapMb}, then ${after.heapMb} MB`,
    under,
    `memory flat  ${leaked ? "NO" : "yes"}: the heap grew by ${heapGrown} MB (flat: at most ${FLAT_HEAP_MB} MB), the ` +
      `process by ${grown} MB (its allocator keeps up to ${KEPT_BY_ALLOCATOR_MB} MB)`,
  ];
  return { lines, leaked };
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

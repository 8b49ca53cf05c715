/** What the gateway's workerd holds in memory. */
import { readFileSync } from "node:fs";
import { sleep } from "../../test/support/eventually.ts";
import type { TollgateProcess } from "../../test/support/process.ts";

/** Resident, as Linux tells it; -1 elsewhere. */
export function workerdMegabytes(tollgate: TollgateProcess): number {
  try {
    const status = readFileSync(`/proc/${tollgate.workerdPid()}/status`, "utf8");
    return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  } catch {
    return -1;
  }
}

/** After it had a moment to let go of what nobody uses. */
export async function settleMemory(tollgate: TollgateProcess): Promise<number> {
  await sleep(3_000);
  return workerdMegabytes(tollgate);
}

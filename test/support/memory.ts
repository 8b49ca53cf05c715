/** Memory of a process as the kernel counts it. Linux only. */
import { readFileSync, writeFileSync } from "node:fs";

const MB = 1024 * 1024;

/** Resident now, and at most since `forgetPeak`, in MB. */
export function residentMb(pid: number): { now: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const megabytes = (field: string) =>
    Math.round((Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) * 1024) / MB);
  return { now: megabytes("VmRSS"), peak: megabytes("VmHWM") };
}

export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** What counts against the limits of rows. */
import type { KeyId } from "../../core/ids.ts";
import type { NamedLimit } from "../../core/refusal.ts";
import type { AccountState } from "./state.ts";

/** When the calls that count against a row's limit were admitted, in any order. */
export function countedFor(
  { resources, computeRequests, jobs }: AccountState,
  { name, windowMs }: NamedLimit,
  endpoint: string,
  key: KeyId,
  nowMs: number,
): readonly number[] {
  const sinceMs = nowMs - windowMs;
  switch (name) {
    case "launches":
      return resources.launches(sinceMs);
    case "compute_calls":
      return computeRequests.calls(key, sinceMs);
    case "submissions":
      return jobs.submissions(endpoint, sinceMs);
  }
}

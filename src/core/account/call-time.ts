/**
 * Call ids that begin with their time, as UUIDs of version 7 do: the archive finds a call's part by it. 74 bits are
 * random, so nobody guesses one.
 */
import { asId, type CallId } from "../ids.ts";

/** `uuid`: of version 4. */
export function timedCallId(uuid: string, nowMs: number): CallId {
  const time = nowMs.toString(16).padStart(12, "0");
  return asId<CallId>(`${time.slice(0, 8)}-${time.slice(8, 12)}-7${uuid.slice(15)}`);
}

const TIMED = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(\.|$)/;

/** When the call was made, ms; undefined: its id does not say. */
export function timeIn(callId: string): number | undefined {
  const [, high, low] = TIMED.exec(callId) ?? [];
  return high === undefined ? undefined : Number.parseInt(high + low, 16);
}

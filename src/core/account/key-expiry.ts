/** When the holder of a key is told that it expires: a week before, or a day before where it lives no longer. */
import { DAY_MS } from "./budgets.ts";

const WARNED_DAYS = [7, 1];

/** Null: it never expires, or there is less than a day left. */
export function keyWarnMs(expiresAtMs: number | null, nowMs: number): number | null {
  if (expiresAtMs === null) return null;
  const days = WARNED_DAYS.find((before) => expiresAtMs - before * DAY_MS > nowMs);
  return days === undefined ? null : expiresAtMs - days * DAY_MS;
}

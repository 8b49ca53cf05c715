/** When a webhook is tried again, and when it is given up. */
const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];

/** The wait before each further try. */
export const RETRY_AFTER_MS: readonly number[] = [
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
];
/** Chance adds up to this part of the wait, so that deliveries that failed together do not come back together. */
const JITTER = 0.1;

/** The wait after so many failed tries; null: none is left. `chance`: from 0 to 1. */
export function retryAfterMs(attempts: number, chance: number): number | null {
  const waitMs = RETRY_AFTER_MS[attempts - 1];
  return waitMs === undefined ? null : Math.round(waitMs * (1 + JITTER * chance));
}

/** A receiver that only fails is given up after this. Longer than all tries of one alert take. */
export const FAILING_LIFE_MS = 5 * DAY;
const GONE = 410;

/** Why a webhook is disabled by a failed try; undefined: it is not. */
export function disabledBy(status: number | null, failingSinceMs: number, nowMs: number) {
  if (status === GONE) return "gone";
  return nowMs - failingSinceMs >= FAILING_LIFE_MS ? "failing" : undefined;
}

/** After this long without a try, a receiver's earlier failures no longer count. */
export const FORGOTTEN_MS = 2 * DAY;

/** While a receiver fails it is tried at most this often, so that its many alerts hold up nobody else's. */
export const FAILING_PAUSE_MS = 4 * SECOND;
/** One that takes longer than this is slow: it waits ten times what it took, so that it keeps few places busy. */
const SLOW_MS = 3 * SECOND;
const SLOW_PAUSES = 10;
/** How long a receiver is left alone after a try. */
export const pauseMs = (failed: boolean, tookMs: number): number =>
  Math.max(failed ? FAILING_PAUSE_MS : 0, tookMs > SLOW_MS ? SLOW_PAUSES * tookMs : 0);

const [LEAST_PUT_OFF_MS, MOST_PUT_OFF_MS] = [60 * SECOND, HOUR];
/** How long to put off a try that comes during a pause. `backlogMs`: what all waiting deliveries take, one by one. */
export const putOffMs = (backlogMs: number, chance: number): number =>
  Math.round(Math.min(MOST_PUT_OFF_MS, Math.max(LEAST_PUT_OFF_MS, backlogMs)) * (1 + chance));
/** The most deliveries that wait for a receiver that fails; any more fail at once. */
export const MOST_WAITING = 1_000;

/** Both secrets sign for so long after a rotation. */
export const ROTATION_MS = DAY;
export const DELIVERIES_KEPT_MS = 30 * DAY;

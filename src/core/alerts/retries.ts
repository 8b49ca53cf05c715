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
/** A part of the wait that chance adds, so that what failed together does not come back together. */
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

/** A receiver that was not tried for so long is not held to be failing since then. */
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
/** How long a try is put off that comes during a pause. `backlogMs`: what all that wait there take, one by one. */
export const putOffMs = (backlogMs: number, chance: number): number =>
  Math.round(Math.min(MOST_PUT_OFF_MS, Math.max(LEAST_PUT_OFF_MS, backlogMs)) * (1 + chance));
/** Deliveries that may wait for a receiver that fails; what comes on top has failed at once. */
export const MOST_WAITING = 1_000;

/** Both secrets sign for so long after a rotation. */
export const ROTATION_MS = DAY;
export const DELIVERIES_KEPT_MS = 30 * DAY;

/**
 * Is this target healthy enough to be asked? One breaker per target, like Envoy's outlier detection, reduced to what
 * one isolate can see (docs/design.md, section 5, "Health").
 *
 * Closed: every call may ask. After `STRIKES` failures in a row the target is ejected for `EJECTION_MS`. Then it is
 * due: exactly one call, the probe, may ask, and its result closes the breaker or ejects again. A 429 ejects at once,
 * for as long as the target said. Each ejection starts an epoch, and a result counts only in the epoch in which its
 * call was sent: an answer to a call from before the ejection proves nothing about the time after it. The caller
 * supplies the time.
 */

/** Failures in a row that eject. */
const STRIKES = 3;
/** How long a failing target is left alone, ms: the refresh interval of the contract's instance cache. */
export const EJECTION_MS = 10_000;
/** A probe that never reports its result (its request was torn down) blocks other probes for this long, ms. */
export const PROBE_FORGOTTEN_MS = 60_000;
/** Bounds on what a 429's `retry-after` may ask for, ms. */
const LEAST_LIMIT_MS = 1_000;
const LONGEST_LIMIT_MS = 60_000;

export interface Breaker {
  /** Failures in a row since the last answer. */
  failures: number;
  /** Null if closed. */
  ejectedUntilMs: number | null;
  /** It was ejected by a 429: until then it takes nothing. */
  limited: boolean;
  /** Null if no probe is running. */
  probeSinceMs: number | null;
  /** Grows with each ejection. */
  epoch: number;
}

/** A call keeps this to report its result later. */
export interface Ticket {
  readonly epoch: number;
  readonly probe: boolean;
}

export const newBreaker = (): Breaker => ({
  failures: 0,
  ejectedUntilMs: null,
  limited: false,
  probeSinceMs: null,
  epoch: 0,
});

/** `due`: the ejection is over and no probe is running. */
export function stateOf(breaker: Breaker, nowMs: number): "closed" | "due" | "ejected" {
  if (breaker.ejectedUntilMs === null) return "closed";
  if (nowMs < breaker.ejectedUntilMs) return "ejected";
  const probing = breaker.probeSinceMs !== null && nowMs - breaker.probeSinceMs < PROBE_FORGOTTEN_MS;
  return probing ? "ejected" : "due";
}

/** Records that a call is sent. To a due target it is the probe. To an ejected one only a success counts. */
export function send(breaker: Breaker, nowMs: number): Ticket {
  const probe = stateOf(breaker, nowMs) === "due";
  if (probe) breaker.probeSinceMs = nowMs;
  return { epoch: breaker.epoch, probe };
}

/** The target answered, with any status. */
export function answered(breaker: Breaker, ticket: Ticket): void {
  if (ticket.epoch !== breaker.epoch) return;
  breaker.failures = 0;
  breaker.ejectedUntilMs = null;
  breaker.probeSinceMs = null;
}

/** The call was refused or reset, got no first byte in time, or got 503. */
export function struck(breaker: Breaker, ticket: Ticket, nowMs: number): void {
  if (ticket.epoch !== breaker.epoch) return;
  breaker.failures += 1;
  const closed = breaker.ejectedUntilMs === null;
  if (closed ? breaker.failures >= STRIKES : ticket.probe) eject(breaker, nowMs + EJECTION_MS, false);
}

/** The target answered 429. `retryAfterMs`: how long it wants to be left alone; null if it did not say. */
export function limited(breaker: Breaker, ticket: Ticket, retryAfterMs: number | null, nowMs: number): void {
  const untilMs = Math.max(nowMs + limitMs(retryAfterMs), breaker.ejectedUntilMs ?? 0);
  if (ticket.epoch === breaker.epoch) eject(breaker, untilMs, true);
  // Sent before the ejection, so it can only extend it.
  else if (breaker.ejectedUntilMs !== null) {
    breaker.ejectedUntilMs = untilMs;
    breaker.limited = true;
  }
}

/** How long a 429 keeps a target out, ms. */
export const limitMs = (retryAfterMs: number | null): number =>
  Math.min(Math.max(retryAfterMs ?? EJECTION_MS, LEAST_LIMIT_MS), LONGEST_LIMIT_MS);

/** The client left before the target answered: nothing is known, and a probe's place is free again. */
export function abandoned(breaker: Breaker, ticket: Ticket): void {
  if (ticket.probe && ticket.epoch === breaker.epoch) breaker.probeSinceMs = null;
}

function eject(breaker: Breaker, untilMs: number, limited: boolean): void {
  breaker.ejectedUntilMs = untilMs;
  breaker.limited = limited;
  breaker.probeSinceMs = null;
  // Stryker disable next-line AssignmentOperator: any other number ends the epoch
  breaker.epoch += 1;
}

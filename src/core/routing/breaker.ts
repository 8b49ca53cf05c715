/**
 * Is this target well enough to be asked? One breaker per target, as Envoy's outlier detection has it, cut to what one
 * isolate can see (docs/design.md, section 5, "Health").
 *
 * Closed: every call may ask. After `STRIKES` failures in a row it is ejected for `EJECTION_MS`; then it is due: exactly
 * one call, the probe, may ask, and what comes of it closes the breaker or ejects again. A 429 ejects at once, for as
 * long as the target said. Each ejection begins an epoch, and a call's end counts in the epoch in which it was sent: an
 * answer from before the fall proves nothing about after it. Pure data and functions; the caller gives the time.
 */

/** Failures in a row that eject. */
const STRIKES = 3;
/** How long a failing target is left alone, ms: the refresh of the contract's instance cache. */
export const EJECTION_MS = 10_000;
/** A probe whose end nobody told (its request was torn down) holds the place this long, ms. */
export const PROBE_FORGOTTEN_MS = 60_000;
/** Bounds on what a 429's `retry-after` may ask for, ms. */
const LEAST_LIMIT_MS = 1_000;
const LONGEST_LIMIT_MS = 60_000;

export interface Breaker {
  /** Failures in a row since the last answer. */
  failures: number;
  /** Null: closed. */
  ejectedUntilMs: number | null;
  /** Null: nobody is probing. */
  probeSinceMs: number | null;
  /** Grows with each ejection. */
  epoch: number;
}

/** What a call takes along to say later how it ended. */
export interface Ticket {
  readonly epoch: number;
  readonly probe: boolean;
}

export const newBreaker = (): Breaker => ({ failures: 0, ejectedUntilMs: null, probeSinceMs: null, epoch: 0 });

/** `due`: ejected long enough, and nobody is probing. */
export function stateOf(breaker: Breaker, nowMs: number): "closed" | "due" | "ejected" {
  if (breaker.ejectedUntilMs === null) return "closed";
  if (nowMs < breaker.ejectedUntilMs) return "ejected";
  const probing = breaker.probeSinceMs !== null && nowMs - breaker.probeSinceMs < PROBE_FORGOTTEN_MS;
  return probing ? "ejected" : "due";
}

/** A call is sent. To a due target it is the probe; to an ejected one it proves something only if it is answered. */
export function send(breaker: Breaker, nowMs: number): Ticket {
  const probe = stateOf(breaker, nowMs) === "due";
  if (probe) breaker.probeSinceMs = nowMs;
  return { epoch: breaker.epoch, probe };
}

/** The target answered, whatever its status says of the request. */
export function answered(breaker: Breaker, ticket: Ticket): void {
  if (ticket.epoch !== breaker.epoch) return;
  breaker.failures = 0;
  breaker.ejectedUntilMs = null;
  breaker.probeSinceMs = null;
}

/** It was refused, reset, silent before the first byte, or said 503. */
export function struck(breaker: Breaker, ticket: Ticket, nowMs: number): void {
  if (ticket.epoch !== breaker.epoch) return;
  breaker.failures += 1;
  const closed = breaker.ejectedUntilMs === null;
  if (closed ? breaker.failures >= STRIKES : ticket.probe) eject(breaker, nowMs + EJECTION_MS);
}

/** It said 429. `retryAfterMs`: for how long; null: it did not say. */
export function limited(breaker: Breaker, ticket: Ticket, retryAfterMs: number | null, nowMs: number): void {
  const untilMs = Math.max(nowMs + limitMs(retryAfterMs), breaker.ejectedUntilMs ?? 0);
  if (ticket.epoch === breaker.epoch) eject(breaker, untilMs);
  // Sent before the ejection: it may last longer, and no more.
  else if (breaker.ejectedUntilMs !== null) breaker.ejectedUntilMs = untilMs;
}

/** How long a 429 keeps a target out, ms. */
export const limitMs = (retryAfterMs: number | null): number =>
  Math.min(Math.max(retryAfterMs ?? EJECTION_MS, LEAST_LIMIT_MS), LONGEST_LIMIT_MS);

/** The client let go before the target said anything: nothing is known, and a probe's place is free again. */
export function abandoned(breaker: Breaker, ticket: Ticket): void {
  if (ticket.probe && ticket.epoch === breaker.epoch) breaker.probeSinceMs = null;
}

function eject(breaker: Breaker, untilMs: number): void {
  breaker.ejectedUntilMs = untilMs;
  breaker.probeSinceMs = null;
  breaker.epoch += 1;
}

/**
 * What one isolate knows of the targets it has asked: per target a breaker (is it healthy), a retry budget (may it be
 * asked again) and when it last failed and answered. Bounded: the least recently used target is forgotten first.
 */
import { type Breaker, newBreaker } from "./breaker.ts";
import { LATELY_MS, RetryBudget } from "./retry-budget.ts";
import type { Target } from "./routes.ts";

/** Targets known to an isolate at once. */
const MOST_TARGETS = 1_000;
/**
 * After a target sends a broken event, or usage that had to be rewritten, inspect its events before they pass for this
 * long.
 */
const READ_FIRST_MS = 3_600_000;

export interface TargetHealth {
  readonly breaker: Breaker;
  readonly budget: RetryBudget;
  failedAtMs: number;
  answeredAtMs: number;
  /** A broken event, perhaps with an error's text, reached a client before it was inspected. */
  passedBrokenAtMs: number;
  /** One of its usage frames was inspected and held only what tenants may see. */
  usageKnown: boolean;
  /** One of its usage frames held something else. */
  usageForeignAtMs: number;
  /** One of its streams was inspected and lacked nothing. */
  wholeKnown: boolean;
  /** One of its streams had to be completed. */
  completedAtMs: number;
  /** Counts the calls that chose among this target and its equals, so that they take turns. */
  turns: number;
}

const NEVER = Number.NEGATIVE_INFINITY;

export class Health {
  readonly #targets = new Map<string, TargetHealth>();

  of(target: Pick<Target, "upstream" | "model">): TargetHealth {
    const name = `${target.upstream} ${target.model}`;
    const known = this.#targets.get(name);
    this.#targets.delete(name);
    const health = known ?? newTargetHealth();
    this.#targets.set(name, health);
    if (this.#targets.size > MOST_TARGETS) this.#forgetOldest();
    return health;
  }

  get size(): number {
    return this.#targets.size;
  }

  #forgetOldest(): void {
    const [oldest] = this.#targets.keys();
    if (oldest !== undefined) this.#targets.delete(oldest);
  }
}

const newTargetHealth = (): TargetHealth => ({
  breaker: newBreaker(),
  budget: new RetryBudget(),
  failedAtMs: NEVER,
  answeredAtMs: NEVER,
  passedBrokenAtMs: NEVER,
  usageKnown: false,
  usageForeignAtMs: NEVER,
  wholeKnown: false,
  completedAtMs: NEVER,
  turns: 0,
});

export const failedLately = (health: TargetHealth, nowMs: number): boolean => nowMs - health.failedAtMs < LATELY_MS;

/** A usage frame was inspected. `foreign`: it held something that no tenant may see, and was rewritten. */
export function usageWasRead(health: TargetHealth, foreign: boolean, nowMs: number): void {
  health.usageKnown = !foreign;
  if (foreign) health.usageForeignAtMs = nowMs;
}

/** `whole`: one of its streams lacked nothing; else something had to be added before bytes that would have passed. */
export function wasSeenWhole(health: TargetHealth, whole: boolean, nowMs: number): void {
  health.wholeKnown = whole;
  if (!whole) health.completedAtMs = nowMs;
}

/**
 * Its streams may be piped natively: its usage frames are known to hold nothing else and its streams to lack nothing,
 * and none of them was broken or had to be completed lately.
 */
export const mayPassUnread = (health: TargetHealth, nowMs: number): boolean =>
  health.usageKnown &&
  health.wholeKnown &&
  nowMs - health.usageForeignAtMs >= READ_FIRST_MS &&
  nowMs - health.completedAtMs >= READ_FIRST_MS &&
  nowMs - health.passedBrokenAtMs >= READ_FIRST_MS;

/** It could not be reached when it was last asked. */
export const isSuspect = ({ breaker }: TargetHealth): boolean =>
  breaker.failures > 0 || breaker.ejectedUntilMs !== null;

/** It answered in the last seconds and was reachable since: a new connection will hardly be refused. */
export const answersNow = (health: TargetHealth, nowMs: number): boolean =>
  nowMs - health.answeredAtMs < LATELY_MS && !isSuspect(health);

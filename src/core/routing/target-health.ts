/**
 * What one isolate knows of the targets it has asked: per target a breaker (is it well), a retry budget (may it be asked
 * again) and when it last failed and answered. Bounded: the target that was used longest ago is forgotten first, which
 * costs no more than finding out about it again.
 */
import { type Breaker, newBreaker } from "./breaker.ts";
import { LATELY_MS, RetryBudget } from "./retry-budget.ts";
import type { Target } from "./routes.ts";

/** Targets known to an isolate at once. */
const MOST_TARGETS = 1_000;
/** After a target's stream showed that it should be read first, read its events before they pass for this long. */
const READ_FIRST_MS = 3_600_000;

export interface TargetHealth {
  readonly breaker: Breaker;
  readonly budget: RetryBudget;
  failedAtMs: number;
  answeredAtMs: number;
  /** A broken event of its own, an error's words perhaps, reached a client before it was read. */
  passedBrokenAtMs: number;
  /** A usage frame of it was read that held nothing but what tenants may see. */
  usageKnown: boolean;
  /** One that held something else was read. */
  usageForeignAtMs: number;
  /** Calls that chose among this target and its equals; turns the order in which those are asked. */
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
  turns: 0,
});

export const failedLately = (health: TargetHealth, nowMs: number): boolean => nowMs - health.failedAtMs < LATELY_MS;

/** A usage frame of the target was read. `foreign`: it held something that no tenant may see, and was written anew. */
export function usageWasRead(health: TargetHealth, foreign: boolean, nowMs: number): void {
  health.usageKnown = !foreign;
  if (foreign) health.usageForeignAtMs = nowMs;
}

/**
 * Its streams may pass before they are read: what its usage holds is known, since nothing can be taken out of it then, and
 * none of its streams lately showed that it should be read first.
 */
export const mayPassUnread = (health: TargetHealth, nowMs: number): boolean =>
  health.usageKnown &&
  nowMs - health.usageForeignAtMs >= READ_FIRST_MS &&
  nowMs - health.passedBrokenAtMs >= READ_FIRST_MS;

/** The last that was heard of it is that it could not be reached. */
export const isSuspect = ({ breaker }: TargetHealth): boolean =>
  breaker.failures > 0 || breaker.ejectedUntilMs !== null;

/** It answered in the last seconds, and could be reached ever since: a connection to it will hardly be refused. */
export const answersNow = (health: TargetHealth, nowMs: number): boolean =>
  nowMs - health.answeredAtMs < LATELY_MS && !isSuspect(health);

/**
 * Which target a call asks first, and which next. A policy over breakers (is it healthy), budgets (may it be asked
 * again) and backoff (when); `failure.ts` decides whether a failure allows another try at all (docs/design.md, section
 * 5).
 *
 * First try: the healthy targets in their order, for free; a due target gets one probe. If all are ejected: the one
 * that is due first, within its budget. Next tries: a healthy target that has not failed lately, for free; one that
 * has, within its budget; and once per call the best ejected one. A call with a single target repeats a 503 or a
 * refused connection up to `MOST_REPEATS` times, within the budget. Only `Health` outlives the call; the caller
 * supplies time and randomness.
 */
import { backoffMs } from "./backoff.ts";
import { abandoned, answered, limited, send, stateOf, struck, type Ticket } from "./breaker.ts";
import { type Failure, isRepeatable, type Verdict, waitOf } from "./failure.ts";
import type { Target } from "./routes.ts";
import { answersNow, failedLately, type Health, isSuspect, type TargetHealth } from "./target-health.ts";
import { orderTargets } from "./target-order.ts";

const MOST_REPEATS = 2;
/** Ask no further target after this long, ms: a little more than one default wait for a first byte. */
export const LONGEST_SEARCH_MS = 150_000;
/** The least wait to report for an ejected target, also while its probe is still running, ms. */
const LEAST_RETRY_MS = 1_000;
/**
 * The most to report for one that failed: it may be back at any time, and is tried within its budget meanwhile. The
 * wait is random, so that clients that failed together do not come back together.
 */
const LONGEST_RETRY_MS = 2_000;

export type Step =
  | {
      readonly kind: "ask";
      readonly target: Target;
      /** How long to wait first, ms. */
      readonly waitMs: number;
      /** It could not be reached when it was last asked. */
      readonly suspect: boolean;
      /** It answered lately and was reachable since. */
      readonly answersNow: boolean;
    }
  /** No target is left. `retryAfterMs`: when the first of them may be asked again; null if unknown. */
  | { readonly kind: "none"; readonly retryAfterMs: number | null };

interface Asked {
  readonly target: Target;
  readonly health: TargetHealth;
  readonly ticket: Ticket;
  readonly sentAtMs: number;
  /** It was free although it was not the call's first try. */
  readonly free: boolean;
}

export class Search {
  readonly #targets: readonly Target[];
  readonly #health: Health;
  readonly #random: () => number;
  readonly #startedAtMs: number;
  #order: readonly Target[] = [];
  readonly #tried = new Set<Target>();
  #asked: Asked | undefined;
  #repeats = 0;
  #forced = false;

  constructor(targets: readonly Target[], health: Health, random: () => number, nowMs: number) {
    this.#targets = targets;
    this.#health = health;
    this.#random = random;
    this.#startedAtMs = nowMs;
  }

  /** The first try. */
  first(nowMs: number): Step {
    const healthy = this.#targets.filter((target) => this.#state(target, nowMs) !== "ejected");
    this.#order = orderTargets(healthy, this.#random, this.#turn());
    const [target] = this.#order;
    const meant = target ?? this.#bestEjected(nowMs);
    if (meant) this.#health.of(meant).budget.deposit(nowMs);
    return target ? this.#ask(target, nowMs, false) : this.#force(nowMs);
  }

  /** The last target answered, with any status. */
  answered(nowMs: number): void {
    if (!this.#asked) return;
    answered(this.#asked.health.breaker, this.#asked.ticket);
    this.#asked.health.answeredAtMs = nowMs;
  }

  /** The client left before it answered. */
  abandoned(): void {
    if (this.#asked) abandoned(this.#asked.health.breaker, this.#asked.ticket);
  }

  /** The last target failed. */
  failed(failure: Failure, verdict: Verdict, nowMs: number): void {
    if (!this.#asked) return;
    const { health, ticket, sentAtMs, free } = this.#asked;
    // A tenant can ask for more than can be made in time, so this is a strike only if nobody got an answer.
    if (failure.kind === "answer_timeout" && health.answeredAtMs >= sentAtMs) {
      this.abandoned();
      return;
    }
    if (verdict.against === "strike") struck(health.breaker, ticket, nowMs);
    else if (verdict.against === "limit") limited(health.breaker, ticket, waitOf(failure), nowMs);
    else this.answered(nowMs);
    // A fault of the request or the operator says nothing about the target.
    if (verdict.executed === "no" && !verdict.next) return;
    health.failedAtMs = nowMs;
    if (free) health.budget.charge(nowMs);
  }

  /** The next try, after a failure that allows one. */
  next(failure: Failure, nowMs: number): Step {
    if (nowMs - this.#startedAtMs >= LONGEST_SEARCH_MS) return this.#none(nowMs);
    if (this.#targets.length === 1) return this.#repeat(failure, nowMs);
    for (const target of this.#order) {
      if (this.#tried.has(target) || this.#state(target, nowMs) === "ejected") continue;
      const health = this.#health.of(target);
      if (!failedLately(health, nowMs)) return this.#ask(target, nowMs, true);
      if (health.budget.withdraw(nowMs)) return this.#ask(target, nowMs, false);
    }
    return this.#force(nowMs);
  }

  #repeat(failure: Failure, nowMs: number): Step {
    const [target] = this.#targets;
    if (!target || this.#repeats >= MOST_REPEATS || !isRepeatable(failure)) return this.#none(nowMs);
    const waitMs = backoffMs(this.#repeats, waitOf(failure), this.#random());
    const health = this.#health.of(target);
    if (waitMs === null || this.#state(target, nowMs) === "ejected" || !health.budget.withdraw(nowMs)) {
      return this.#none(nowMs);
    }
    this.#repeats += 1;
    return this.#ask(target, nowMs, false, waitMs);
  }

  /** The best ejected target: once per call, within its budget. */
  #force(nowMs: number): Step {
    const best = this.#forced ? undefined : this.#bestEjected(nowMs);
    if (!best || !this.#health.of(best).budget.withdraw(nowMs)) return this.#none(nowMs);
    this.#forced = true;
    return this.#ask(best, nowMs, false);
  }

  #ask(target: Target, nowMs: number, free: boolean, waitMs = 0): Step {
    const health = this.#health.of(target);
    this.#tried.add(target);
    this.#asked = { target, health, ticket: send(health.breaker, nowMs), sentAtMs: nowMs, free };
    return { kind: "ask", target, waitMs, suspect: isSuspect(health), answersNow: answersNow(health, nowMs) };
  }

  #none(nowMs: number): Step {
    const waits = this.#targets
      .filter((target) => this.#state(target, nowMs) === "ejected")
      .map((target) => this.#waitMs(target, nowMs));
    return { kind: "none", retryAfterMs: waits.length > 0 ? Math.min(...waits) : null };
  }

  /** A target that is busy has said for how long. */
  #waitMs(target: Target, nowMs: number): number {
    if (this.#health.of(target).breaker.limited) return Math.max(this.#dueMs(target) - nowMs, LEAST_RETRY_MS);
    return LEAST_RETRY_MS + Math.floor(this.#random() * (LONGEST_RETRY_MS - LEAST_RETRY_MS));
  }

  #bestEjected(nowMs: number): Target | undefined {
    return this.#targets
      .filter((target) => !this.#tried.has(target) && this.#state(target, nowMs) === "ejected")
      .reduce<Target | undefined>(
        (best, target) => (best && this.#dueMs(best) <= this.#dueMs(target) ? best : target),
        undefined,
      );
  }

  #state(target: Target, nowMs: number): ReturnType<typeof stateOf> {
    return stateOf(this.#health.of(target).breaker, nowMs);
  }

  /** When an ejected target may be probed. */
  #dueMs(target: Target): number {
    return this.#health.of(target).breaker.ejectedUntilMs ?? 0;
  }

  /** Counted at the route's first target, so that one count serves all its calls. */
  #turn(): number {
    const [first] = this.#targets;
    if (!first || this.#targets.length < 2) return 0;
    const health = this.#health.of(first);
    health.turns = (health.turns + 1) % Number.MAX_SAFE_INTEGER;
    return health.turns - 1;
  }
}

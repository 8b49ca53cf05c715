/**
 * What a failed try means (docs/design.md, section 5): was the call executed, may the next target be asked, does it
 * speak against the target, what is the caller told when none is left. One table, without I/O.
 */

import type { Refusal } from "../refusal.ts";
import { limitMs } from "./breaker.ts";

/** `safe`: no lasting effect. `costly`: repeating costs money. `creates`: repeating makes a second thing. */
export type RetryClass = "safe" | "costly" | "creates";

/**
 * How a try failed. `refused`: provably not executed. `lost`: it broke. `unreachable`: it broke, and nothing listens
 * there now. `timeout`: silence. `answer_timeout`: an answer that is not streamed was not there in time; it may be in the
 * making for as long at every target. `malformed`: an answer of status 200 that is none. `begun`: the answer had begun.
 */
export type Failure =
  | { readonly kind: "refused" | "unreachable" | "malformed" | "answer_timeout" }
  | { readonly kind: "lost" | "timeout"; readonly begun?: boolean }
  | { readonly kind: "status"; readonly status: number; readonly retryAfterMs: number | null };

export type Executed = "no" | "unknown";

export interface Verdict {
  readonly executed: Executed;
  /** Whether another target may be asked. */
  readonly next: boolean;
  /** True where the failure is the operator's to mend: a credential or an account at the upstream. */
  readonly operators: boolean;
  /** What it says of the target: `strike`, too many of which eject it; `limit`: busy; null: nothing that a tenant could not have brought about. */
  readonly against: "strike" | "limit" | null;
}

/** Answers of an origin that never took the request: its own 503 and 429, and the edge in front of it. */
const NOT_EXECUTED: ReadonlySet<number> = new Set([503, 429, 521, 523, 525, 526, 530]);
/** The edge in front lost sight of a request it had passed on. */
const AMBIGUOUS: ReadonlySet<number> = new Set([520, 522, 524]);
export const OPERATORS: ReadonlySet<number> = new Set([401, 402, 403]);
/** The upstream judged the request itself. */
const REFUSED_REQUEST: ReadonlySet<number> = new Set([400, 404, 413, 422]);
/** Silence of the origin, as the origin or the edge says it. */
const TIMEOUTS: ReadonlySet<number> = new Set([504, 522, 524]);

export function judge(failure: Failure, retry: RetryClass, retryOn: readonly number[]): Verdict {
  const safe = retry === "safe";
  const notExecuted = { executed: "no", next: true, operators: false } as const;
  const ambiguous = { executed: "unknown", next: safe, operators: false } as const;
  switch (failure.kind) {
    case "refused":
      return { ...notExecuted, against: "strike" };
    case "unreachable":
      return { ...ambiguous, against: "strike" };
    case "lost":
    case "timeout":
      return { ...ambiguous, against: failure.begun ? null : "strike" };
    case "answer_timeout":
      return { ...ambiguous, next: false, against: "strike" };
    case "malformed":
      return { ...ambiguous, against: null };
    case "status":
      break;
  }
  const { status } = failure;
  if (NOT_EXECUTED.has(status)) return { ...notExecuted, against: status === 429 ? "limit" : "strike" };
  if (AMBIGUOUS.has(status)) return { ...ambiguous, against: "strike" };
  if (OPERATORS.has(status)) return { executed: "no", next: false, operators: true, against: null };
  if (REFUSED_REQUEST.has(status)) return { executed: "no", next: false, operators: false, against: null };
  return { ...ambiguous, next: safe && retryOn.includes(status), against: null };
}

/**
 * The verdict where the video service said more than a status. One of its codes is its definite word: nothing was made,
 * and the target is well. A 429 is for all tenants together: it fails the submission that met it and no other.
 */
export function judgeVideo(verdict: Verdict, failure: Failure, coded: boolean): Verdict {
  if (coded) return { ...verdict, executed: "no", against: null };
  return failure.kind === "status" && failure.status === 429 ? { ...verdict, against: null } : verdict;
}

/** Statuses whose sanitised words pass to the caller. On the owner's own instance its 402 and 404 pass too. */
export function passesWords(status: number, ownInstance: boolean): status is 400 | 402 | 404 | 413 | 422 {
  return REFUSED_REQUEST.has(status) || (ownInstance && status === 402);
}

/** True where the one target of a call may be asked the same again: it took nothing, and did not say that it is busy. */
export const isRepeatable = (failure: Failure): boolean =>
  failure.kind === "refused" || (failure.kind === "status" && failure.status === 503);

/** How long the target wants to be left alone, ms; null: it did not say. A 429 that does not say means the default. */
export function waitOf(failure: Failure): number | null {
  if (failure.kind !== "status") return null;
  return failure.status === 429 ? (failure.retryAfterMs ?? limitMs(null)) : failure.retryAfterMs;
}

/**
 * What the caller is told when the last try failed so. An outcome that nobody knows is worth the caller's own repeat
 * only where a second execution has no lasting effect. `retryAfterMs`: when a target may be free again.
 */
export function lastRefusal(
  failure: Failure,
  executed: Executed,
  retry: RetryClass,
  retryAfterMs: number | null = waitOf(failure),
): Refusal {
  const repeatable = executed === "no" || retry === "safe";
  const noneHealthy: Refusal = { kind: "no_healthy_upstream", retryAfterMs };
  if (!repeatable && isSilence(failure)) return { kind: "outcome_unknown" };
  if (failure.kind === "refused" || failure.kind === "unreachable") return noneHealthy;
  if (failure.kind === "timeout" || failure.kind === "answer_timeout")
    return { kind: "upstream_timeout", repeatable: executed === "no" };
  if (failure.kind !== "status") return { kind: "upstream_error", repeatable };
  if (NOT_EXECUTED.has(failure.status) || OPERATORS.has(failure.status)) return noneHealthy;
  if (TIMEOUTS.has(failure.status)) return { kind: "upstream_timeout", repeatable: false };
  return { kind: "upstream_error", repeatable };
}

/** No answer of the origin's own: whether it executed the call nobody can say. */
function isSilence(failure: Failure): boolean {
  if (failure.kind === "status") return AMBIGUOUS.has(failure.status) || TIMEOUTS.has(failure.status);
  return failure.kind !== "malformed";
}

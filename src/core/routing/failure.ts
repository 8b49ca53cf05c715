/**
 * What a failed try means (docs/design.md, section 5): was the call executed, may the next target be asked, does it
 * count against the target, and what does the caller get when no target is left? One table, without I/O.
 */

import type { Refusal } from "../refusal.ts";
import { limitMs } from "./breaker.ts";

/** `safe`: no lasting effect. `costly`: repeating costs money. `creates`: repeating makes a second thing. */
export type RetryClass = "safe" | "costly" | "creates";

/**
 * How a try failed. `refused`: certainly not executed. `lost`: the connection broke. `unreachable`: it broke, and
 * nothing listens there now. `timeout`: no byte in time. `answer_timeout`: an answer that is not streamed was late; any
 * other target might take as long. `malformed`: status 200 without a usable answer. `begun`: the answer had started.
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
  /** The operator must fix it: a credential or an account at the upstream. */
  readonly operators: boolean;
  /**
   * How it counts against the target. `strike`: too many eject it. `limit`: it is busy. Null: a tenant may have caused
   * it.
   */
  readonly against: "strike" | "limit" | null;
}

/**
 * Statuses that prove the origin did not take the request: its own 503 and 429, and those of the edge in front of it.
 */
const NOT_EXECUTED: ReadonlySet<number> = new Set([503, 429, 521, 523, 525, 526, 530]);
/** The edge lost track of a request that it had forwarded. */
const AMBIGUOUS: ReadonlySet<number> = new Set([520, 522, 524]);
export const OPERATORS: ReadonlySet<number> = new Set([401, 402, 403]);
/** The upstream rejected the request itself. */
const REFUSED_REQUEST: ReadonlySet<number> = new Set([400, 404, 413, 422]);
/** Timeouts, reported by the origin or the edge. */
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

/** What a code in an upstream's error means. `passedOver`: another target may still take the call. */
interface CodedRefusal {
  readonly refusal: Refusal;
  readonly passedOver: boolean;
}
/** Null if the error carries no known code. */
export type ReadCode = (
  answer: { readonly status: number; readonly code: string | null; readonly retryAfterMs: number | null },
  message: string,
) => CodedRefusal | null;

/**
 * Adjusts the verdict for an upstream that answers with codes. A code is definite: nothing was created, and the target
 * is healthy. A 429 applies to all tenants together, so it fails only the call that got it.
 */
export function judgeCoded(verdict: Verdict, failure: Failure, coded: boolean): Verdict {
  if (coded) return { ...verdict, executed: "no", against: null };
  return failure.kind === "status" && failure.status === 429 ? { ...verdict, against: null } : verdict;
}

/** Statuses whose cleaned message passes to the caller. On the owner's own instance 402 and 404 pass too. */
export function passesWords(status: number, ownInstance: boolean): status is 400 | 402 | 404 | 413 | 422 {
  return REFUSED_REQUEST.has(status) || (ownInstance && status === 402);
}

/**
 * Whether a call with a single target may be repeated there: the target did not take it and did not say that it is
 * busy.
 */
export const isRepeatable = (failure: Failure): boolean =>
  failure.kind === "refused" || (failure.kind === "status" && failure.status === 503);

/** How long the target asks us to wait, ms; null if it does not say. A 429 that does not say means the default. */
export function waitOf(failure: Failure): number | null {
  if (failure.kind !== "status") return null;
  return failure.status === 429 ? (failure.retryAfterMs ?? limitMs(null)) : failure.retryAfterMs;
}

/**
 * What the caller gets when the last try failed like this. If the outcome is unknown, the caller should repeat only a
 * call whose second execution has no lasting effect. `retryAfterMs`: when a target may be free again.
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

/** The origin gave no answer of its own, so it is unknown whether it executed the call. */
function isSilence(failure: Failure): boolean {
  if (failure.kind === "status") return AMBIGUOUS.has(failure.status) || TIMEOUTS.has(failure.status);
  return failure.kind !== "malformed";
}

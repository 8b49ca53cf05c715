/**
 * What a failed try means (design section 5): was the call executed, may the next target be asked, what is the caller
 * told when none is left. One table, without I/O.
 */
import type { Refusal } from "./refusal.ts";

/** `safe`: no lasting effect. `costly`: repeating costs money. `creates`: repeating makes a second thing. */
export type RetryClass = "safe" | "costly" | "creates";

/**
 * How a try failed. `refused`: no connection. `lost`: it broke. `timeout`: silence. `malformed`: an answer of status 200
 * that is none.
 */
export type Failure =
  | { readonly kind: "refused" | "lost" | "timeout" | "malformed" }
  | { readonly kind: "status"; readonly status: number; readonly retryAfterMs: number | null };

export type Executed = "no" | "unknown";

export interface Verdict {
  readonly executed: Executed;
  /** Whether another target may be asked. */
  readonly next: boolean;
  /** True where the failure is the operator's to mend: a credential or an account at the upstream. */
  readonly operators: boolean;
}

/** Answers of an origin that never took the request: its own 503 and 429, and the edge in front of it. */
const NOT_EXECUTED: ReadonlySet<number> = new Set([503, 429, 521, 523, 525, 526, 530]);
/** The edge in front lost sight of a request it had passed on. */
const AMBIGUOUS: ReadonlySet<number> = new Set([520, 522, 524]);
const OPERATORS: ReadonlySet<number> = new Set([401, 402, 403]);
/** The upstream judged the request itself. */
const REFUSED_REQUEST: ReadonlySet<number> = new Set([400, 404, 413, 422]);

export function judge(failure: Failure, retry: RetryClass, retryOn: readonly number[]): Verdict {
  const safe = retry === "safe";
  if (failure.kind === "refused") return { executed: "no", next: true, operators: false };
  if (failure.kind !== "status") return { executed: "unknown", next: safe, operators: false };
  const { status } = failure;
  if (NOT_EXECUTED.has(status)) return { executed: "no", next: true, operators: false };
  if (AMBIGUOUS.has(status)) return { executed: "unknown", next: safe, operators: false };
  if (OPERATORS.has(status)) return { executed: "no", next: false, operators: true };
  if (REFUSED_REQUEST.has(status)) return { executed: "no", next: false, operators: false };
  return { executed: "unknown", next: safe && retryOn.includes(status), operators: false };
}

/** Statuses whose sanitised words pass to the caller. On the owner's own instance its 402 and 404 pass too. */
export function passesWords(status: number, ownInstance: boolean): status is 400 | 402 | 404 | 413 | 422 {
  return REFUSED_REQUEST.has(status) || (ownInstance && status === 402);
}

/**
 * What the caller is told when the last try failed so. An outcome that nobody knows is worth the caller's own repeat
 * only where a second execution has no lasting effect.
 */
export function lastRefusal(failure: Failure, executed: Executed, retry: RetryClass): Refusal {
  const repeatable = executed === "no" || retry === "safe";
  if (failure.kind === "refused") return { kind: "no_healthy_upstream", retryAfterMs: null };
  if (failure.kind === "timeout") return { kind: "upstream_timeout", repeatable: executed === "no" };
  if (failure.kind !== "status") return { kind: "upstream_error", repeatable };
  if (NOT_EXECUTED.has(failure.status) || OPERATORS.has(failure.status)) {
    return { kind: "no_healthy_upstream", retryAfterMs: failure.retryAfterMs };
  }
  if (failure.status === 504 || failure.status === 522 || failure.status === 524) {
    return { kind: "upstream_timeout", repeatable: false };
  }
  return { kind: "upstream_error", repeatable };
}

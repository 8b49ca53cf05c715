/**
 * Why a call is not served: a closed union with the facts of each case. What each is over HTTP: http-refusal.ts.
 *
 * A refusal is data. It crosses the account object's RPC as a value and becomes a response only in
 * `gateway/http/responses.ts`.
 */
import type { ComputeRefusal } from "./compute/refusals.ts";

export type LimitLevel = "key" | "team" | "account";
export type LimitName = "rpm_limit" | "tpm_limit" | "rpd_limit" | "max_parallel_requests" | "free_rpm_limit";

/** What the limits of rows count, and for whom: one counter of the account object for each. */
type Counted =
  /** Jobs submitted in the account: those that were accepted and those under way. */
  | { readonly name: "submissions"; readonly per: "account" }
  /** Instances and clusters launched in the account, whatever became of them. */
  | { readonly name: "launches"; readonly per: "account" }
  /** Compute calls of a key, refused ones too. */
  | { readonly name: "compute_calls"; readonly per: "key" };
/** A limit that a row of the endpoint table names: `count` in each trailing window. */
export type NamedLimit = Counted & { readonly count: number; readonly windowMs: number };

/** What keeps the header that was sent from holding a key. */
type BadHeader = "no_scheme" | "other_scheme" | "empty" | "odd_characters";

export type Refusal =
  | { kind: "no_key" }
  | { kind: "bad_key"; why: "malformed" | "unknown" | "revoked" | "expired" | "blocked" | "conflicting" | BadHeader }
  /** The key is live but not allowed to use this API. */
  | { kind: "scope_missing"; scope: "inference" | "compute" }
  /** The key is live but of a lower role than the call needs. */
  | { kind: "role_too_low"; role: "owner" | "admin" | "member" }
  /** An instance id `<name>:<integer>` of another account, or an unknown one; both get the same answer. */
  | { kind: "not_your_instance" }
  | { kind: "invalid_request"; message: string; param: string | null; code?: string }
  | { kind: "too_large"; limitBytes: number }
  | { kind: "wrong_content_type"; expected: string }
  | { kind: "wrong_content_encoding" }
  | { kind: "unknown_route"; method: string; path: string; meant: string | null }
  | { kind: "model_not_found"; model: string }
  | { kind: "model_not_priced"; model: string }
  | { kind: "model_not_allowed"; model: string }
  /** An id of the service that this account does not own, or no longer. */
  | { kind: "id_not_found"; what: "response" | "video job" }
  | {
      kind: "rate_limit";
      level: LimitLevel;
      limit: LimitName;
      allowed: number;
      /** When room is expected; null if the call is larger than the whole limit. */
      retryAfterMs: number | null;
    }
  | { kind: "budget_spent"; level: LimitLevel; budgetNanoUsd: number; duration: string; retryAfterMs: number | null }
  | { kind: "no_credit"; neededNanoUsd: number; availableNanoUsd: number; heldNanoUsd: number }
  /** The time of the instance is paid by the hour, and the balance does not cover it. */
  | { kind: "instance_unpaid" }
  /** This isolate has no room for another large body. */
  | { kind: "busy"; retryAfterMs: number }
  | { kind: "unpaid_work"; retryAfterMs: number }
  /** The account object could not be reached, so the call is refused. */
  | { kind: "admission_unavailable" }
  /** No target could take the call; it was not executed. */
  | { kind: "no_healthy_upstream"; retryAfterMs: number | null }
  /** The upstream refused the request itself; its cleaned message passes. */
  | {
      kind: "upstream_refused";
      status: 400 | 402 | 404 | 413 | 422;
      message: string;
      param: string | null;
      code: string | null;
    }
  /** `repeatable`: the caller may send it again. */
  | { kind: "upstream_error"; repeatable: boolean }
  | { kind: "upstream_timeout"; repeatable: boolean }
  /** A limit of the row is used up. */
  | { kind: "named_limit"; limit: NamedLimit; retryAfterMs: number }
  /** An account's keys tried to change keys and teams too often. */
  | { kind: "too_many_changes"; allowed: number; in: "minute" | "day"; retryAfterMs: number }
  /** The video service refused the request with one of the contract's codes: nothing was created. */
  | {
      kind: "video_refused";
      status: 400 | 429 | 502 | 503 | 504;
      code: string;
      message: string;
      retryable: boolean;
      retryAfterMs: number | null;
    }
  /** The call may have created something, but no answer came. It is never sent again. */
  | { kind: "outcome_unknown" }
  /** The `Idempotency-Key` cannot be honoured. */
  | { kind: "idempotency"; why: "other_body" | "running" | "not_kept" }
  /** Why a call of the compute API is not served. */
  | { kind: "compute"; refusal: ComputeRefusal }
  | { kind: "internal" };

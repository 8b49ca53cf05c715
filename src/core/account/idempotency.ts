/**
 * `Idempotency-Key`: a call that makes something is carried out once per key, however often it is sent
 * (docs/design.md, section 5).
 *
 * The account object remembers, per virtual key and for 24 h, an HMAC of the idempotency key and of the body, which call
 * carried it out, how that ended and the id that it made; never a body. A repeat waits while the first runs. What was made
 * under an id is read back by it; what has none was completed and is gone. An outcome that nobody knows stays unknown: the
 * repeat gets the first one's answer, and nothing is ever sent again. What was not executed frees the key.
 */
import type { CallId } from "../ids.ts";
import type { Owned } from "../owned.ts";
import type { Refusal } from "../refusal.ts";

/** How long a key is remembered, ms. */
export const IDEMPOTENCY_KEPT_MS = 24 * 60 * 60 * 1000;
/** How long a submission without a key can be joined by a repeat of it, ms. */
export const IMPLIED_KEPT_MS = 60_000;
/** The longest key, in characters. */
export const LONGEST_IDEMPOTENCY_KEY = 255;

/** What a call says of its key: hex of HMAC-SHA-256(`KEY_PEPPER`, ...). */
export interface IdempotencyRef {
  readonly keyHmac: string;
  /** Of the endpoint and the body, whatever boundary a form came with. */
  readonly bodyHmac: string;
  /**
   * Set where the caller named no key and the body itself stands for one, for `IMPLIED_KEPT_MS`. `first`: begins anew,
   * whatever was sent before. `again`: the client's library says that it repeats itself, so it joins what it repeats.
   */
  readonly implied?: "first" | "again";
}

/** The call that a key was used for before. */
export interface EarlierCall {
  readonly callId: CallId;
  /** `unknown`: it may have been carried out; its answer was lost. */
  readonly state: "running" | "completed" | "unknown";
  /** HTTP status that its client got; 0 while it runs. */
  readonly status: number;
  /** What it made, where that has an id. */
  readonly created: Owned | null;
}

/** What a repeat is told where the answer of the earlier call cannot be rebuilt. */
export function earlierRefusal({ state, status }: EarlierCall): Refusal {
  if (state === "running") return { kind: "idempotency", why: "running" };
  if (state === "completed") return { kind: "idempotency", why: "not_kept" };
  return status === 502 ? { kind: "upstream_error", repeatable: false } : { kind: "outcome_unknown" };
}

/**
 * How a call that was executed is remembered. A client that left before there was a status, or got a part only, knows no
 * more than we do; what has an id is read back all the same.
 */
export const stateAfter = (status: number, outcome: string): "completed" | "unknown" =>
  status >= 200 && status < 300 && outcome !== "stream_broken" ? "completed" : "unknown";

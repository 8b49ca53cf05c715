/**
 * `Idempotency-Key`: a call that creates something is carried out once per key, however often it is sent
 * (docs/design.md, section 5).
 *
 * For each virtual key the account object keeps for 24 h: an HMAC of the idempotency key and of the body, the call that
 * carried it out, how it ended and the id that it created. It never keeps a body. A repeat waits while the first call
 * runs. If the first call created something with an id, the repeat reads it back; without an id, the answer cannot be
 * given again. If the outcome is unknown, it stays unknown: the repeat gets the same refusal and nothing is sent again.
 * If nothing was executed, the key is free again.
 */
import type { CallId } from "../ids.ts";
import type { Owned } from "../owned.ts";
import type { Refusal } from "../refusal.ts";

/** How long a key is remembered, ms. */
export const IDEMPOTENCY_KEPT_MS = 24 * 60 * 60 * 1000;
/** How long a repeat can join a submission that was sent without a key, ms. */
export const IMPLIED_KEPT_MS = 60_000;
/** The longest key, in characters. */
export const LONGEST_IDEMPOTENCY_KEY = 255;

/** A call's idempotency key and body, as hex HMAC-SHA-256 under `KEY_PEPPER`. */
export interface IdempotencyRef {
  readonly keyHmac: string;
  /** Over endpoint and body. A form's boundary is left out. */
  readonly bodyHmac: string;
  /**
   * Set if the caller sent no key: the body itself then serves as one for `IMPLIED_KEPT_MS`. `first`: starts a new call
   * whatever was sent before. `again`: the client library marks this as a retry, so it joins the earlier call.
   */
  readonly implied?: "first" | "again";
}

/** The earlier call that used the same idempotency key. */
export interface EarlierCall {
  readonly callId: CallId;
  /** `unknown`: it may have been executed, but its answer was lost. */
  readonly state: "running" | "completed" | "unknown";
  /** HTTP status sent to its client; 0 while it runs. */
  readonly status: number;
  /** What it created, if that has an id. */
  readonly created: Owned | null;
}

/** The refusal for a repeat if the earlier call's answer cannot be rebuilt. */
export function earlierRefusal({ state, status }: EarlierCall): Refusal {
  if (state === "running") return { kind: "idempotency", why: "running" };
  if (state === "completed") return { kind: "idempotency", why: "not_kept" };
  return status === 502 ? { kind: "upstream_error", repeatable: false } : { kind: "outcome_unknown" };
}

/**
 * The state to remember for a call that was executed. A client that left before the status, or received only a part,
 * does not know the outcome either; if something with an id was created, it can still be read back.
 */
export const stateAfter = (status: number, outcome: string): "completed" | "unknown" =>
  status >= 200 && status < 300 && outcome !== "stream_broken" ? "completed" : "unknown";

/**
 * The values that an isolate and the account object exchange about leases. All of them cross RPC.
 *
 * A lease is a slice of room that the object sets aside for one key in one isolate, as one hold, for a second. The
 * isolate admits calls out of it without asking, and reports them. docs/decisions/0016 says why.
 */
import type { CallId, KeyDigest, KeyId } from "../ids.ts";
import type { Plan } from "../pricing/prices.ts";
import type { Admission, CallEnd, Hold, LeasedCall, Rates } from "./hold.ts";
import type { KeyFields } from "./tenant.ts";

/** Room of each sort. Never negative. Infinite where nothing limits it; a lease's own is finite. */
export interface Slice {
  readonly requests: number;
  readonly tokens: number;
  readonly slots: number;
  readonly nanoUsd: number;
}

/** What the hold of a lease has beside money and tokens. `calls`: how many were reported of it. */
export interface LeaseRest extends Pick<Slice, "requests" | "slots"> {
  readonly calls: number;
}

/** Asks for a lease. A repeat with the same id gets the same lease. */
export interface LeaseAsk {
  readonly id: CallId;
  readonly keyDigest: KeyDigest;
  /** What calls of this key asked for in this isolate within the last second, as their bounds. */
  readonly wanted: Omit<Slice, "slots">;
}

/** With a lease where one was asked for, and there is room for it. */
export type LeasingAdmission = Admission & { readonly lease?: Lease | null };

export interface Lease {
  readonly id: CallId;
  readonly keyId: KeyId;
  readonly keyDigest: KeyDigest;
  readonly slice: Slice;
  /** How long it admits calls, from before it was asked for, ms. */
  readonly livesMs: number;
  /** What the key may call, and at what prices: none of it changes while the lease admits calls. */
  readonly key: Pick<KeyFields, "scopes" | "role" | "models">;
  readonly plan: Plan;
  readonly holds: Pick<Hold, "livesMs" | "longestCallMs" | "onDisconnect">;
  /** Before the lease was taken out of them. */
  readonly rates: Rates;
}

/** `end` is null for a call that outlives its lease: it becomes a hold of its own. */
export interface ReportedCall {
  readonly call: LeasedCall;
  readonly end: CallEnd | null;
}

/**
 * What an isolate reports of its leases on one account. Each part may arrive twice, late or after a later report: a
 * call is found again by its id, and a lease closes only when every call that it admitted is known.
 */
export interface LeaseReport {
  /** In the order in which they ended; then those that still run. */
  readonly calls: readonly ReportedCall[];
  /** Leases that admit nothing more: how many calls each admitted. */
  readonly over: readonly { readonly id: CallId; readonly admitted: number }[];
  readonly asks: readonly LeaseAsk[];
}

export interface ReportAnswer {
  /** In the order of the asks; null: none. */
  readonly leases: readonly (Lease | null)[];
}

/**
 * What the pipeline asks an account object before it takes a hold: may this key call this model, and at which prices?
 * Crosses RPC as values.
 */

import type { CallId, KeyDigest } from "../ids.ts";
import type { Outcome } from "../outcome.ts";
import type { ModelRow, UnitPrices } from "../pricing/prices.ts";
import type { Unit } from "../pricing/usage.ts";
import type { NamedLimit } from "../refusal.ts";
import type { CallAccess } from "./call-access.ts";
import type { Rates } from "./hold.ts";
import type { EarlierCall, IdempotencyRef } from "./idempotency.ts";

export interface Inquiry {
  readonly callId: CallId;
  readonly keyDigest: KeyDigest;
  /** Row id of the endpoint table. */
  readonly endpoint: string;
  /** Of the row: what the key must be, and the limits that the row names. */
  readonly access: CallAccess;
  readonly limits: readonly NamedLimit[];
  /** The model as the tenant named it. */
  readonly model: string;
  readonly alias: string | null;
  readonly row: ModelRow;
  /** The unit that must have a price; null if none must. */
  readonly unit: Unit | null;
  /**
   * `prices`: counts as a free call. `quote`: a free call that reaches an upstream, and also counts as a request.
   * `submission`: a free call that reaches an upstream; it is not counted as a request yet, but limits must have room.
   * Admission follows and checks them again.
   */
  readonly purpose: "prices" | "quote" | "submission";
  /** For a submission: one that was carried out before needs neither room nor a quote. */
  readonly idempotency?: IdempotencyRef | undefined;
  readonly startedAtMs: number;
}

/** `prices`: the tenant's prices under its plan, per `perPrice` of each unit. */
export type Inquired = Outcome<{ prices: UnitPrices; rates: Rates }, { rates?: Rates; earlier?: EarlierCall }>;

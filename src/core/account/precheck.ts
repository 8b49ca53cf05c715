/**
 * What the pipeline asks an account object before anything is held: may this key call this model, and at which prices?
 * Crosses RPC as values.
 */

import type { CallId, KeyDigest } from "../ids.ts";
import type { Outcome } from "../outcome.ts";
import type { ModelRow, UnitPrices } from "../pricing/prices.ts";
import type { Unit } from "../pricing/usage.ts";
import type { Rates } from "./hold.ts";
import type { EarlierCall, IdempotencyRef } from "./idempotency.ts";

export interface Inquiry {
  readonly callId: CallId;
  readonly keyDigest: KeyDigest;
  /** Row id of the endpoint table. */
  readonly endpoint: string;
  /** The model as the tenant named it. */
  readonly model: string;
  readonly alias: string | null;
  readonly row: ModelRow;
  /** The unit that must have a price; null: none has to. */
  readonly unit: Unit | null;
  /**
   * `prices`: counts as a call that costs nothing. `quote`: the same with an upstream asked, and as a request.
   * `submission`: the same until it is admitted, and no request yet, but limits must have room: admission follows, and
   * judges them again.
   */
  readonly purpose: "prices" | "quote" | "submission";
  /** Of a submission: one that was carried out before needs neither room nor a quote. */
  readonly idempotency?: IdempotencyRef | undefined;
  readonly startedAtMs: number;
}

/** `prices`: the tenant's, by its plan, for one price's worth of each unit. */
export type Inquired = Outcome<{ prices: UnitPrices; rates: Rates }, { rates?: Rates; earlier?: EarlierCall }>;

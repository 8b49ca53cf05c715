/**
 * What the pipeline asks an account object before it takes a hold: may this key call this model, and at which prices?
 * Crosses RPC as values.
 */

import type { Outcome } from "../outcome.ts";
import type { UnitPrices } from "../pricing/prices.ts";
import type { Unit } from "../pricing/usage.ts";
import type { AskedCall, Rates } from "./hold.ts";
import type { EarlierCall } from "./idempotency.ts";

/** A submission that was carried out before needs neither room nor a quote: its idempotency key tells. */
export interface Inquiry extends AskedCall {
  /** The unit that must have a price; null if none must. */
  readonly unit: Unit | null;
  /**
   * `prices`: counts as a free call. `quote`: a free call that reaches an upstream, and also counts as a request.
   * `submission`: a free call that reaches an upstream; it is not counted as a request yet, but limits must have room.
   * Admission follows and checks them again.
   */
  readonly purpose: "prices" | "quote" | "submission";
}

/** `prices`: the tenant's prices under its plan, per `perPrice` of each unit. */
export type Inquired = Outcome<{ prices: UnitPrices; rates: Rates }, { rates?: Rates; earlier?: EarlierCall }>;

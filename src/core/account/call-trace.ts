/**
 * What is recorded of a call so that it can be explained and proved later: which targets were tried, and the prices and
 * costs that were fixed. It decides nothing. Crosses RPC and the queue as a value.
 */
import type { UnitPrices } from "../pricing/prices.ts";

/** One try at one target. */
export interface Try {
  readonly upstream: string;
  readonly model: string;
  /** `answered`, `status_503` or how else it failed. */
  readonly result: string;
  /** Until the answer had begun, or was whole if it is not streamed. */
  readonly ms: number;
}

/** A call with more tries keeps these many: its first ones. */
export const MOST_TRIES = 12;

/** What the pipeline knows of a call at its end. */
export interface CallTrace {
  readonly stream: boolean;
  /** Two letters, where the platform says it. */
  readonly country: string | null;
  /** What the operator pays per unit at the target that served; null: none did. */
  readonly costs: UnitPrices | null;
  readonly tries: readonly Try[];
}

/** The part of a usage event that reports do not sum. */
export interface CallDetail extends Omit<CallTrace, "country"> {
  readonly heldNanoUsd: number;
  /** The tenant's, as fixed at admission. */
  readonly prices: UnitPrices;
  /** The id of the ledger's entry; null: it has none. */
  readonly entry: number | null;
}

/** The country that the platform's edge puts into a header of its own; null where it does not know one. */
export function countryIn(headers: { get(name: string): string | null }): string | null {
  const country = headers.get("cf-ipcountry");
  return country !== null && /^[A-Z][A-Z0-9]$/.test(country) && country !== "XX" ? country : null;
}

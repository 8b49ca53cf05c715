/** Checks to the nano-USD that tenants paid the price of what the service reports as used. */
import { costOf, type UnitPrices } from "../../src/core/pricing/prices.ts";
import { UNITS, type Unit, type Usage } from "../../src/core/pricing/usage.ts";
import type { JoinedEvent } from "../support/joined-books.ts";
import type { Execution } from "../support/sandbox.ts";
import { PRICES_USD } from "../support/service.ts";

/** USD for a million tokens; uneven, so that rounding errors show. */
export const VIDEO_PRICES_USD = {
  video_tokens_720p: 7.000123457,
  video_tokens_1080p: 8.000123457,
  video_tokens_4k: 9.000123457,
  video_tokens_720p_reference: 4.000123457,
  video_tokens_1080p_reference: 5.000123457,
  video_tokens_4k_reference: 6.000123457,
} as const;

export const PRICES: UnitPrices = Object.fromEntries(
  Object.entries({ ...PRICES_USD, ...VIDEO_PRICES_USD }).map(([unit, usd]) => [unit, Math.round(usd * 1e9)]),
);

export interface PriceCheck {
  /** Executions whose charge was compared. */
  readonly checked: number;
  readonly wrong: readonly string[];
}

/**
 * Calls settled by exact figures must cost what the service's log reports. Audio is measured as it passes, so a part of
 * it is exact too: the log counts what was sent, the gateway what arrived, which is never more.
 */
export function checkPrices(events: readonly JoinedEvent[], executions: readonly Execution[]): PriceCheck {
  const byCall = new Map(events.map((event) => [event.event_id, event]));
  const wrong: string[] = [];
  let checked = 0;
  for (const execution of executions) {
    const event = byCall.get(execution.request_id ?? "");
    // An answer that was not delivered is the operator's loss; another try may have served the call.
    const answered = execution.answered && execution.status !== null && execution.status < 300;
    if (event?.source !== "exact" || !answered || !execution.usage) continue;
    checked += 1;
    const owed = costOf(meteredOf(execution.usage), PRICES);
    const part = event.endpoint === "audio.speech" && event.outcome !== "completed";
    const fits = part ? event.price_nano_usd <= owed : event.price_nano_usd === owed;
    if (!fits) {
      const [event_, execution_] = [JSON.stringify(event), JSON.stringify(execution)];
      wrong.push(`${event.event_id} costs ${owed} nano-USD, not ${event.price_nano_usd}: ${event_} ${execution_}`);
    }
  }
  return { checked, wrong };
}

/** The log has seconds; they are metered in ms. */
export function meteredOf(logged: Readonly<Record<string, number>>): Usage {
  return Object.fromEntries(
    Object.entries(logged).map(([unit, quantity]) => {
      const inMs = UNITS[unit as Unit].perPrice === UNITS.audio_seconds.perPrice;
      return [unit, inMs ? Math.round(quantity * 1_000) : quantity];
    }),
  );
}

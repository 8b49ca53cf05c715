/** Turns beside leases: a rental is not stopped, and pays no less, because room is leased out that soon comes back. */
import type { TurnFacts } from "../../../core/compute/rental.ts";
import type { AccountState } from "../state.ts";

/** A turn that waits is tried again after this, ms. Leases are over within 1.6 s. */
export const LEASED_AGAIN_MS = 200;

/**
 * What a turn does. Null: with what is leased out it would do something else, so it waits, and nothing more is leased
 * meanwhile. A late turn pays for what it missed.
 */
export function unlessLeased<Turn>(
  state: AccountState,
  facts: TurnFacts,
  nowMs: number,
  turn: (facts: TurnFacts) => Turn,
): Turn | null {
  const now = turn(facts);
  const leasedNanoUsd = state.leases.soonNanoUsd(nowMs);
  if (leasedNanoUsd === 0) return now;
  const then = turn({ ...facts, roomNanoUsd: facts.roomNanoUsd + leasedNanoUsd });
  if (JSON.stringify(now) === JSON.stringify(then)) return now;
  state.leases.pause(nowMs);
  return null;
}

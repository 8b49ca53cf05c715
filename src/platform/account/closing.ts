/**
 * Closes the account: its keys stop; its ledger stays; names, metadata and notes go. It is not closed while something
 * still costs money.
 */
import type { Closing } from "../../core/account/account-service.ts";
import { hourlyKinds, liveKinds } from "./compute/seat.ts";
import { expireDue } from "./expiry.ts";
import type { AccountState } from "./state.ts";

export function closeAccount(state: AccountState, nowMs: number): Closing {
  expireDue(state, nowMs);
  const live = [...liveKinds(state), ...hourlyKinds(state)];
  if (live.length > 0) return { kind: "compute_live", live };
  if (state.openHolds > 0) return { kind: "holds_open", openHolds: state.openHolds };
  state.tenants.close(nowMs);
  state.keys.forgetNames();
  state.resources.forgetNames();
  state.ledger.forgetNotes();
  return { kind: "closed" };
}

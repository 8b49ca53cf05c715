/**
 * What of this account is at an upstream now. A hold is written before a target is chosen, so a young call's is not
 * known.
 */
import type { InFlight } from "../../core/account/account-service.ts";
import type { AccountState } from "./state.ts";

export const inFlight = (state: AccountState, upstream: string): InFlight => ({
  ...state.holds.callsAt(upstream),
  jobs: state.jobs.runningAt(upstream),
});

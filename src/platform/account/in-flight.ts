/**
 * What of this account is at an upstream now. A hold is written before a target is chosen, so a young call's is not
 * known.
 */
import type { InFlight } from "../../core/account/account-service.ts";
import type { Books } from "./state.ts";

export const inFlight = (books: Books, upstream: string): InFlight => ({
  ...books.holds.callsAt(upstream),
  jobs: books.jobs.runningAt(upstream),
});

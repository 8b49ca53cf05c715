/** Answers a call that is refused before it gets a hold. */

import type { Rates } from "../core/account/hold.ts";
import { toHttp } from "../core/http-refusal.ts";
import type { Refusal } from "../core/refusal.ts";
import { refusalTo } from "./account-client.ts";
import type { IdentifiedCall, ReceivedCall } from "./call.ts";
import { logRefused } from "./call-log.ts";
import { refuse } from "./http/responses.ts";
import type { Ports } from "./ports.ts";

export function refuseCall(refused: ReceivedCall, refusal: Refusal, ports: Ports, rates?: Rates): Response {
  logRefused(refused, refusal, ports);
  // The refusals that are not the caller's fault.
  if (toHttp(refusal).status >= 500) refused.place.paid();
  return refuse(refusal, refused.callId, refused.endpoint.errors, rates);
}

/** Checks the key first: only the account object knows whether it is live, and a dead key learns nothing else. */
export async function refuseUnlessDead(refused: IdentifiedCall, refusal: Refusal, ports: Ports): Promise<Response> {
  return refuseCall(refused, await refusalTo(refused.caller, refusal, ports), ports);
}

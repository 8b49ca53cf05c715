/** Tells a caller why its call goes no further, before anything was held. */

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
  // Nothing that the caller could have done otherwise.
  if (toHttp(refusal).status >= 500) refused.place.paid();
  return refuse(refusal, refused.callId, refused.endpoint.errors, rates);
}

/** Authority first: only the account object knows whether the key is live, and a dead one is told nothing else. */
export async function refuseUnlessDead(refused: IdentifiedCall, refusal: Refusal, ports: Ports): Promise<Response> {
  return refuseCall(refused, await refusalTo(refused.caller, refusal, ports), ports);
}

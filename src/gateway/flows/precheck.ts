/** Asks the account object, before any hold, whether this key may call this model, and at which prices. */

import type { Inquired, Inquiry } from "../../core/account/precheck.ts";
import { askOrRefuse } from "../account-client.ts";
import { askedCall } from "../admit.ts";
import type { RoutedCall } from "../call.ts";
import type { Ports } from "../ports.ts";

/** Fails closed: without an answer from the object, the call is refused. */
export async function inquire(routed: RoutedCall, purpose: Inquiry["purpose"], ports: Ports): Promise<Inquired> {
  const { call, caller, callId } = routed;
  const inquiry: Inquiry = { ...askedCall(routed), unit: call.jobUnit, purpose };
  return askOrRefuse(ports, caller.number, callId, (account) => account.inquire(inquiry));
}

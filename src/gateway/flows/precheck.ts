/** Asks the account object, before anything is held: may this key call this model, and at which prices? */

import type { Inquired, Inquiry } from "../../core/account/precheck.ts";
import { askOrRefuse } from "../account-client.ts";
import { askedCall } from "../admit.ts";
import type { RoutedCall } from "../call.ts";
import type { Ports } from "../ports.ts";

/** An object that cannot be asked lets nobody on. */
export async function inquire(routed: RoutedCall, purpose: Inquiry["purpose"], ports: Ports): Promise<Inquired> {
  const { call, caller, callId } = routed;
  const inquiry: Inquiry = { ...askedCall(routed), unit: call.jobUnit, purpose };
  return askOrRefuse(ports, caller.number, callId, (account) => account.inquire(inquiry));
}

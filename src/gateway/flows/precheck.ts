/** Asks the account object, before anything is held: may this key call this model, and at which prices? */

import type { Inquired, Inquiry } from "../../core/account/precheck.ts";
import { askOrRefuse } from "../account-client.ts";
import type { RoutedCall } from "../call.ts";
import type { Ports } from "../ports.ts";

/** An object that cannot be asked lets nobody on. */
export async function inquire(routed: RoutedCall, purpose: Inquiry["purpose"], ports: Ports): Promise<Inquired> {
  const { call, endpoint, caller, callId, startedAtMs, route, idempotency } = routed;
  const inquiry: Inquiry = {
    callId,
    keyDigest: caller.digest,
    endpoint: endpoint.id,
    access: endpoint.access,
    limits: endpoint.limits,
    model: route.model,
    alias: route.alias,
    row: route.row,
    unit: call.jobUnit,
    purpose,
    idempotency,
    startedAtMs,
  };
  return askOrRefuse(ports, caller.number, callId, (account) => account.inquire(inquiry));
}

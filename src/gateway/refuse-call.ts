/** Answers a call that is refused before it gets a hold. */

import type { Rates } from "../core/account/hold.ts";
import type { AskedAbout } from "../core/account/refused-call.ts";
import { toHttp } from "../core/http-refusal.ts";
import type { CallId } from "../core/ids.ts";
import type { Refusal } from "../core/refusal.ts";
import { authorize, refusalTo } from "./account-client.ts";
import type { IdentifiedCall, ReceivedCall } from "./call.ts";
import { logRefused } from "./call-log.ts";
import { refuse } from "./http/responses.ts";
import type { Caller, Ports } from "./ports.ts";

export function refuseCall(refused: ReceivedCall, refusal: Refusal, ports: Ports, rates?: Rates): Response {
  logRefused(refused, refusal, ports);
  // The refusals that are not the caller's fault.
  if (toHttp(refusal).status >= 500) refused.place.paid();
  return refuse(refusal, refused.callId, refused.endpoint.errors, rates);
}

/** Checks the key first: only the account object knows whether it is live, and a dead key learns nothing else. */
export async function refuseUnlessDead(refused: IdentifiedCall, refusal: Refusal, ports: Ports): Promise<Response> {
  return refuseCall(refused, await refusalTo(refused.caller, refusal, ports, aboutRefused(refused, refusal)), ports);
}

/**
 * For refusals that the account object does not know of: tells it afterwards. If that fails, the call has no record.
 */
export function refuseAndTell(refused: IdentifiedCall, refusal: Refusal, ports: Ports, rates?: Rates): Response {
  tellRefused(refused.caller, aboutRefused(refused, refusal), ports);
  return refuseCall(refused, refusal, ports, rates);
}

export function tellRefused(caller: Caller, about: AskedAbout, ports: Ports): void {
  ports.waitUntil(authorize(caller, ports, undefined, about));
}

/** What is told of a call that was refused. Of a fault in the body its place is told, if that has a plain name. */
export function aboutRefused(
  { callId, endpoint, startedAtMs }: { callId: CallId; endpoint: { id: string }; startedAtMs: number },
  refusal: Refusal,
): AskedAbout {
  const param = refusal.kind === "invalid_request" && PLAIN.test(refusal.param ?? "") ? refusal.param : null;
  const { status } = toHttp(refusal);
  return { callId, endpoint: endpoint.id, startedAtMs, refused: { reason: refusal.kind, status, param } };
}
const PLAIN = /^[a-z][a-z0-9_.[\]]{0,99}$/;

/** What the account object records of the call if it refuses it. */
export const aboutCall = ({ callId, endpoint, startedAtMs }: ReceivedCall): AskedAbout => ({
  callId,
  endpoint: endpoint.id,
  startedAtMs,
});

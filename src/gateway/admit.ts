/**
 * Asks the caller's account object for a hold. In one transaction it checks the key, the team, the account, the limits
 * at three levels and the money. This file decides nothing about money or limits.
 */

import type { Admission, AdmitRequest, AskedCall, LeasedCall } from "../core/account/hold.ts";
import type { LeasingAdmission } from "../core/account/lease.ts";
import { ask, isOverloaded, tell } from "./account-client.ts";
import type { RoutedCall } from "./call.ts";
import { leasesFor } from "./leases.ts";
import type { Ports } from "./ports.ts";

/** Fails closed: without an answer from the object, the call is refused. */
export async function admit(routed: RoutedCall, ports: Ports): Promise<Admission & { readonly leased?: LeasedCall }> {
  const { caller, callId } = routed;
  const request = requestOf(routed);
  const leases = leasesFor(routed, request, ports);
  const here = leases?.admit();
  if (here) return here;
  const lease = leases?.ask();
  const askedAtMs = ports.now();
  let asked: Promise<LeasingAdmission> | undefined;
  try {
    const admission = await ask(ports, caller.number, (account) => {
      asked = account.admit(request, lease);
      return asked;
    });
    leases?.answered(lease, admission, askedAtMs);
    return admission;
  } catch (error) {
    leases?.answered(lease, undefined, askedAtMs);
    ports.log({ event: "admission_failed", call: callId, error: String(error) });
    if (asked && !isOverloaded(error)) ports.waitUntil(giveBack(routed, asked, ports));
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}

/** How long background work waits for an answer after its client has gone, ms. */
const LATE_ANSWER_MS = 20_000;

/**
 * Releases a hold that may have been granted after the client gave up; a release without a hold does nothing. Waits for
 * the admission's answer first, because a release must not overtake it.
 */
async function giveBack({ caller, callId, startedAtMs }: RoutedCall, asked: Promise<Admission>, ports: Ports) {
  const sinceMs = ports.now();
  const late = new Promise<undefined>((resolve) => setTimeout(resolve, LATE_ANSWER_MS));
  const admission = await Promise.race([asked.catch(() => undefined), late]);
  if (admission && !admission.ok) return;
  const latencyMs = ports.now() - startedAtMs;
  const released = { status: 503, reason: "admission_unavailable", lostTries: 0, servedBy: null } as const;
  await tell(caller.number, { kind: "release", said: { callId, ...released, latencyMs } }, sinceMs, ports);
}

function requestOf(routed: RoutedCall): AdmitRequest {
  const { call, route, measured } = routed;
  return {
    ...askedCall(routed),
    bound: call.bound(route.row, measured),
    owned: call.owned,
    ...(route.hourly && { hourly: route.hourly }),
    job: measured.estimate !== undefined,
  };
}

/** What the object needs to know about a call, with or without a hold. */
export const askedCall = ({ endpoint, caller, route, callId, startedAtMs, idempotency }: RoutedCall): AskedCall => ({
  callId,
  keyDigest: caller.digest,
  endpoint: endpoint.id,
  access: endpoint.access,
  limits: endpoint.limits,
  model: route.model,
  alias: route.alias,
  row: route.row,
  idempotency,
  startedAtMs,
});

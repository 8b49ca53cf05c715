/**
 * Asks the caller's account object for a hold: key, team, account, limits at three levels and money, in one transaction
 * there. Nothing of money or limits is decided here.
 */

import type { Admission, AdmitRequest, AskedCall } from "../core/account/hold.ts";
import { ask, isOverloaded, tell } from "./account-client.ts";
import type { RoutedCall } from "./call.ts";
import type { Ports } from "./ports.ts";

/** An object that cannot be asked lets no money through. */
export async function admit(routed: RoutedCall, ports: Ports): Promise<Admission> {
  const { caller, callId } = routed;
  const request = requestOf(routed);
  let asked: Promise<Admission> | undefined;
  try {
    return await ask(ports, caller.number, (account) => {
      asked = account.admit(request);
      return asked;
    });
  } catch (error) {
    ports.log({ event: "admission_failed", call: callId, error: String(error) });
    if (asked && !isOverloaded(error)) ports.waitUntil(giveBack(routed, asked, ports));
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}

/** How long background work waits for an answer that its client no longer waits for, ms. */
const LATE_ANSWER_MS = 20_000;

/**
 * The hold may have been granted all the same: it is released, which does nothing where there is none. Not before its
 * request was answered, or it might come after.
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
    job: measured.estimate !== undefined,
  };
}

/** What the object must know of a call, whether a hold is asked for or not. */
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

/**
 * Asks the caller's account object for a hold: key, team, account, limits at three levels and money, in one transaction
 * there. Nothing of money or limits is decided here.
 */

import type { Admission, AdmitRequest } from "../core/account/hold.ts";
import type { IdempotencyRef } from "../core/account/idempotency.ts";
import type { Call, Endpoint } from "../core/endpoints/endpoint.ts";
import type { CallId } from "../core/ids.ts";
import type { Measured } from "../core/meters/meter.ts";
import { utf8Bytes } from "../core/meters/tokens.ts";
import type { Route } from "../core/routing/routes.ts";
import { ask, isOverloaded } from "./ask.ts";
import type { Caller, Ports } from "./ports.ts";
import { tell } from "./settle.ts";

/** What is known of a call when it asks for admission. */
export interface Applicant {
  readonly call: Call;
  readonly endpoint: Endpoint;
  readonly caller: Caller;
  readonly route: Route;
  readonly measured: Measured;
  readonly callId: CallId;
  readonly startedAtMs: number;
  /** Set where the call is to be carried out once, however often it is sent. */
  readonly idempotency?: IdempotencyRef | undefined;
}

/** An object that cannot be asked lets no money through. */
export async function admit(applicant: Applicant, ports: Ports): Promise<Admission> {
  const { caller, callId } = applicant;
  const request = requestOf(applicant);
  let asked: Promise<Admission> | undefined;
  try {
    return await ask(ports, caller.number, (account) => {
      asked = account.admit(request);
      return asked;
    });
  } catch (error) {
    ports.log({ event: "admission_failed", call: callId, error: String(error) });
    if (asked && !isOverloaded(error)) ports.waitUntil(giveBack(applicant, asked, ports));
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}

/** How long background work waits for an answer that its client no longer waits for, ms. */
const LATE_ANSWER_MS = 20_000;

/**
 * The hold may have been granted all the same: it is released, which does nothing where there is none. Not before its
 * request was answered, or it might come after.
 */
async function giveBack({ caller, callId, startedAtMs }: Applicant, asked: Promise<Admission>, ports: Ports) {
  const sinceMs = ports.now();
  const late = new Promise<undefined>((resolve) => setTimeout(resolve, LATE_ANSWER_MS));
  const admission = await Promise.race([asked.catch(() => undefined), late]);
  if (admission && !admission.ok) return;
  const latencyMs = ports.now() - startedAtMs;
  const released = { status: 503, reason: "admission_unavailable", lostTries: 0, servedBy: null } as const;
  await tell(caller.number, { kind: "release", said: { callId, ...released, latencyMs } }, sinceMs, ports);
}

/** A model's name is sent as the target has it: the longest one counts. */
export function measure(call: Call, route: Route, known: Omit<Measured, "sentBytes">): Measured {
  const modelBytes = Math.max(...route.targets.map((target) => utf8Bytes(target.model)));
  return { sentBytes: call.payload.countedBytes + modelBytes, ...known };
}

function requestOf(applicant: Applicant): AdmitRequest {
  const { call, endpoint, caller, route, measured, callId, startedAtMs, idempotency } = applicant;
  return {
    callId,
    keyDigest: caller.digest,
    endpoint: endpoint.id,
    model: route.model,
    alias: route.alias,
    row: route.row,
    bound: call.bound(route.row, measured),
    owned: call.owned,
    job: endpoint.manner === "job",
    idempotency,
    startedAtMs,
  };
}

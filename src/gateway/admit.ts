/**
 * Asks the caller's account object for a hold: key, team, account, limits at three levels and money, in one transaction
 * there. Nothing of money or limits is decided here.
 */
import type { Call, Endpoint } from "../core/endpoints/endpoint.ts";
import type { Admission } from "../core/hold.ts";
import type { CallId } from "../core/ids.ts";
import type { Measured } from "../core/meters/meter.ts";
import { utf8Bytes } from "../core/meters/tokens.ts";
import type { Route } from "../core/routes.ts";
import type { Caller, Ports } from "./ports.ts";

/** What is known of a call when it asks for admission. */
export interface Applicant {
  readonly call: Call;
  readonly endpoint: Endpoint;
  readonly caller: Caller;
  readonly route: Route;
  readonly measured: Measured;
  readonly callId: CallId;
  readonly startedAtMs: number;
}

/** An object that cannot be asked lets no money through. */
export async function admit(applicant: Applicant, ports: Ports): Promise<Admission> {
  const { call, endpoint, caller, route, measured, callId, startedAtMs } = applicant;
  try {
    return await ports.account(caller.number).admit({
      callId,
      keyDigest: caller.digest,
      endpoint: endpoint.id,
      model: route.model,
      alias: route.alias,
      row: route.row,
      bound: call.bound(route.row, measured),
      owned: call.owned,
      startedAtMs,
    });
  } catch (error) {
    ports.log({ event: "admission_failed", call: callId, error: String(error) });
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}

/** A model's name is sent as the target has it: the longest one counts. */
export function measure(call: Call, route: Route, recordingMs: number | null): Measured {
  const modelBytes = Math.max(...route.targets.map((target) => utf8Bytes(target.model)));
  return { sentBytes: call.payload.countedBytes + modelBytes, recordingMs };
}

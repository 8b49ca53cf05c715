/** The flow of a job's state: the account object knows the job, and asks the upstream for it. */

import { ask } from "../ask.ts";
import type { ParsedCall } from "../call.ts";
import { callHeaders } from "../http/responses.ts";
import type { Ports } from "../ports.ts";
import { refuseCall } from "../refuse-call.ts";

export async function servePoll(parsed: ParsedCall, ports: Ports): Promise<Response> {
  const { call, caller, callId } = parsed;
  const id = call.owned[0]?.id ?? "";
  try {
    const view = await ask(ports, caller.number, (account) => account.job(caller.digest, id));
    if (!view.ok) return refuseCall(parsed, view.refusal, ports);
    return Response.json(view.document, { headers: callHeaders(callId, view.region, undefined) });
  } catch (error) {
    ports.log({ event: "admission_failed", call: callId, error: String(error) });
    return refuseCall(parsed, { kind: "admission_unavailable" }, ports);
  }
}

/** The flow that reads a job's state: the account object has the job and polls the upstream. */

import { askOrRefuse } from "../account-client.ts";
import type { ParsedCall } from "../call.ts";
import { callHeaders } from "../http/responses.ts";
import type { Ports } from "../ports.ts";
import { refuseAndTell } from "../refuse-call.ts";

export async function servePoll(parsed: ParsedCall, ports: Ports): Promise<Response> {
  const { call, caller, callId, endpoint } = parsed;
  const id = call.owned[0]?.id ?? "";
  const view = await askOrRefuse(ports, caller.number, callId, (account) =>
    account.job(caller.digest, id, endpoint.access),
  );
  if (!view.ok) return refuseAndTell(parsed, view.refusal, ports);
  return Response.json(view.document, { headers: callHeaders(callId, view.region, undefined) });
}

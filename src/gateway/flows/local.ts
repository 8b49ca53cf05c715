/**
 * The flow of a call that the gateway answers by itself from the routing snapshot. It costs nothing, but the account
 * object is still asked: a revoked key reads nothing.
 */

import { allowsModel } from "../../core/account/model-access.ts";
import type { LocalAnswer } from "../../core/endpoints/endpoint.ts";
import { callableModels } from "../../core/routing/callable-models.ts";
import type { RoutingSnapshot } from "../../core/routing/routes.ts";
import { authorize } from "../account-client.ts";
import type { ParsedCall } from "../call.ts";
import { callHeaders } from "../http/responses.ts";
import type { Ports } from "../ports.ts";
import { aboutCall, refuseAndTell, refuseCall } from "../refuse-call.ts";

/** How the row makes the answer. */
type Answer = Extract<ParsedCall["endpoint"]["flow"], { kind: "local" }>["answer"];

export async function serveLocal(parsed: ParsedCall, answer: Answer, ports: Ports): Promise<Response> {
  const { call, caller, callId, endpoint } = parsed;
  const free = { owned: call.owned, access: endpoint.access, reach: "local" } as const;
  const permission = await authorize(caller, ports, free, aboutCall(parsed));
  if (!permission.ok) return refuseCall(parsed, permission.refusal, ports);
  const over = (routing: RoutingSnapshot): LocalAnswer => {
    const callable = callableModels(routing, caller.account, ports.now());
    return answer(call, { models: callable.filter((row) => allowsModel(permission.models, row.model)) });
  };
  let answered: LocalAnswer;
  try {
    answered = over(await ports.directory.routing());
    if (!answered.ok && answered.missing) answered = over(await ports.directory.refresh(caller.account));
  } catch (error) {
    ports.log({ event: "routing_failed", error: String(error) });
    return refuseAndTell(parsed, { kind: "admission_unavailable" }, ports);
  }
  if (!answered.ok) return refuseAndTell(parsed, answered.refusal, ports);
  return Response.json(answered.body, { headers: callHeaders(callId, null, permission.rates) });
}

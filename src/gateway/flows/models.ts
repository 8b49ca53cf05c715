/**
 * `GET /v1/models` and `GET /v1/models/{model}`: what a key may call. Costs nothing, and still asks the account object,
 * so that a revoked key reads nothing.
 */

import { allowsModel } from "../../core/account/model-access.ts";
import type { ModelRow } from "../../core/pricing/prices.ts";
import type { Refusal } from "../../core/refusal.ts";
import { callableModels, type RoutingSnapshot } from "../../core/routing/routes.ts";
import { authenticate } from "../authenticate.ts";
import { callHeaders, refuse } from "../http/responses.ts";
import { permit } from "../permit.ts";
import type { Ports } from "../ports.ts";

/** Lists them, or answers the one named. */
export async function serveModels(request: Request, model: string | null, ports: Ports): Promise<Response> {
  const callId = ports.newCallId();
  const no = (refusal: Refusal) => refuse(refusal, callId, "openai");
  const authentication = await authenticate(request.headers, ports);
  if (!authentication.ok) return no(authentication.refusal);
  const { caller } = authentication;
  const permission = await permit(caller, [], ports, "local");
  if (!permission.ok) return no(permission.refusal);
  const callable = (routing: RoutingSnapshot) =>
    callableModels(routing, caller.account, ports.now()).filter((row) => allowsModel(permission.models, row.model));
  const named = (rows: readonly ModelRow[]) => rows.find((row) => row.model === model);
  let rows: readonly ModelRow[];
  try {
    rows = callable(await ports.directory.routing());
    if (model !== null && !named(rows)) rows = callable(await ports.directory.refresh(caller.account));
  } catch (error) {
    ports.log({ event: "routing_failed", error: String(error) });
    return no({ kind: "admission_unavailable" });
  }
  const headers = callHeaders(callId, null, permission.rates);
  if (model === null) return Response.json({ object: "list", data: rows.map(present) }, { headers });
  const row = named(rows);
  return row ? Response.json(present(row), { headers }) : no({ kind: "model_not_found", model });
}

const present = (row: ModelRow) => ({
  id: row.model,
  object: "model",
  created: Math.floor(row.fromMs / 1000),
  owned_by: "tollgate",
});

/**
 * `GET /v1/models` and `GET /v1/models/{model}`: what a key may call. Costs nothing, and still asks the account object,
 * so that a revoked key reads nothing.
 */
import type { ModelRow } from "../core/prices.ts";
import type { Refusal } from "../core/refusal.ts";
import { allowsModel, callableModels } from "../core/routes.ts";
import { callHeaders, refuse } from "./answer.ts";
import { authenticate } from "./authenticate.ts";
import { permit } from "./permit.ts";
import type { Ports } from "./ports.ts";

/** Lists them, or answers the one named. */
export async function serveModels(request: Request, model: string | null, ports: Ports): Promise<Response> {
  const callId = ports.newCallId();
  const no = (refusal: Refusal) => refuse(refusal, callId, "openai");
  const authentication = await authenticate(request.headers, ports);
  if (!authentication.ok) return no(authentication.refusal);
  const { caller } = authentication;
  const permission = await permit(caller, [], ports);
  if (!permission.ok) return no(permission.refusal);
  let rows: readonly ModelRow[];
  try {
    const routing = model === null ? await ports.directory.routing() : await ports.directory.refresh(model);
    rows = callableModels(routing, caller.account, ports.now());
  } catch (error) {
    ports.log({ event: "routing_failed", error: String(error) });
    return no({ kind: "admission_unavailable" });
  }
  const allowed = rows.filter((row) => allowsModel(permission.models, row.model));
  const headers = callHeaders(callId, null, permission.rates);
  if (model === null) return Response.json({ object: "list", data: allowed.map(present) }, { headers });
  const row = allowed.find((candidate) => candidate.model === model);
  return row ? Response.json(present(row), { headers }) : no({ kind: "model_not_found", model });
}

const present = (row: ModelRow) => ({
  id: row.model,
  object: "model",
  created: Math.floor(row.fromMs / 1000),
  owned_by: "tollgate",
});

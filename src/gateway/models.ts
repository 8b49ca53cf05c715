/**
 * `GET /v1/models` and `GET /v1/models/{model}`: what a key may call. Costs nothing, and still asks the account object,
 * so that a revoked key reads nothing.
 */
import type { Permission } from "../core/hold.ts";
import type { ModelRow } from "../core/prices.ts";
import type { Refusal } from "../core/refusal.ts";
import { allowsModel, callableModels } from "../core/routes.ts";
import { callHeaders, refuse } from "./answer.ts";
import { authenticate } from "./authenticate.ts";
import type { Caller, Ports } from "./ports.ts";

/** Lists them, or answers the one named. */
export async function serveModels(request: Request, model: string | null, ports: Ports): Promise<Response> {
  const callId = ports.newCallId();
  const no = (refusal: Refusal) => refuse(refusal, callId, "openai");
  const permitted = await permit(request.headers, ports);
  if (!permitted.ok) return no(permitted.refusal);
  const { caller, permission } = permitted;
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

export type Permitted =
  | { ok: true; caller: Caller; permission: Extract<Permission, { ok: true }> }
  | { ok: false; refusal: Refusal };

/** Authenticates a call that costs nothing: the account object must say that the key is live. */
export async function permit(headers: Headers, ports: Ports): Promise<Permitted> {
  const authentication = await authenticate(headers, ports);
  if (!authentication.ok) return authentication;
  const { caller } = authentication;
  try {
    const permission = await ports.account(caller.number).permit(caller.digest);
    return permission.ok ? { ok: true, caller, permission } : permission;
  } catch (error) {
    ports.log({ event: "admission_failed", error: String(error) });
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}

const present = (row: ModelRow) => ({
  id: row.model,
  object: "model",
  created: Math.floor(row.fromMs / 1000),
  owned_by: "tollgate",
});

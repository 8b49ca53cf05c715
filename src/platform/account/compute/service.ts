/** Opens a service path: is the key live, may it use compute, is the machine this account's, and does it serve? */
import { scopeRefusal } from "../../../core/account/call-access.ts";
import type { ServiceAnswer, ServiceRequest } from "../../../core/compute/calls.ts";
import { refuse } from "../../../core/compute/facts.ts";
import { serviceStateFault } from "../../../core/compute/service-faults.ts";
import { SERVICE_ROWS } from "../../../core/endpoints/compute/service-rows.ts";
import { refused } from "../../../core/outcome.ts";
import { authenticate } from "../admission.ts";
import type { AccountState } from "../state.ts";

export function openService(state: AccountState, request: ServiceRequest, nowMs: number): ServiceAnswer {
  const { keyDigest, kind, id, fault } = request;
  const found = authenticate(state, keyDigest, nowMs);
  if (!found.ok) return found;
  if (!state.tenants.account().computeEnabled) return refuse({ kind: "not_enabled" });
  const scope = scopeRefusal(found.caller.key, SERVICE_ROWS[kind].access);
  if (scope) return refused(scope);
  if (state.tenants.account().computeUpstream === null) return refuse({ kind: "no_seat" });
  if (fault) return refused(fault);
  const placed = id === null ? undefined : state.resources.find(id);
  if (!placed || placed.row.kind !== kind || placed.row.create === "refused")
    return refuse({ kind: "not_found", what: kind });
  const why = serviceStateFault(placed.row);
  if (why !== null || placed.row.upstreamId === null) {
    return refuse({ kind: "service", what: kind, why: why ?? "pending" });
  }
  return { ok: true, upstream: placed.upstream, upstreamId: placed.row.upstreamId };
}

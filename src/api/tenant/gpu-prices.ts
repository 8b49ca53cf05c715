/**
 * `GET /platform/gpu-prices`: with a live key, what its account pays. It needs no key, so any other key counts as none.
 * Without one only prices show that the operator set: cost and markup would tell the cost.
 */
import { priceDocuments } from "../../core/compute/market.ts";
import { type Plan, planAt, tenantPrices } from "../../core/pricing/prices.ts";
import type { Refusal } from "../../core/refusal.ts";
import { askOrRefuse } from "../../gateway/account-client.ts";
import { authenticate } from "../../gateway/authenticate.ts";
import { gpuRowsOf } from "../../gateway/flows/compute.ts";
import { callHeaders, refuse } from "../../gateway/http/responses.ts";
import type { PlatformPorts } from "../../platform/ports.ts";

export async function serveGpuPrices(request: Request, ports: PlatformPorts): Promise<Response> {
  const callId = ports.newCallId();
  try {
    const found = await planOf(request, ports);
    if ("kind" in found) return refuse(found, callId, "compute");
    const { plan } = found;
    const rows = gpuRowsOf(await ports.directory.routing(), ports.now());
    const shown = priceDocuments(rows, (row) => (plan ? tenantPrices(row, plan, row.model).prices : row.priceNanoUsd));
    return Response.json(shown, { headers: callHeaders(callId, null, undefined) });
  } catch (error) {
    ports.log({ event: "routing_failed", call: callId, error: String(error) });
    return refuse({ kind: "compute", refusal: { kind: "unavailable", retryAfterMs: null } }, callId, "compute");
  }
}

/** The plan of the key's account; null without a live key. */
async function planOf({ headers }: Request, ports: PlatformPorts): Promise<{ plan: Plan | null } | Refusal> {
  const authentication = await authenticate(headers, ports);
  if (!authentication.ok) return withoutKey(authentication.refusal);
  const { caller } = authentication;
  const answer = await askOrRefuse(ports, caller.number, null, (object) => object.standing(caller.digest, "read"));
  if (!answer) return { plan: null };
  return answer.ok ? { plan: planAt(answer.standing.account, ports.now()) } : withoutKey(answer.refusal);
}

/** Nobody is shown others' prices because we could not ask. */
const withoutKey = (refusal: Refusal): { plan: null } | Refusal =>
  refusal.kind === "no_key" || refusal.kind === "bad_key" ? { plan: null } : refusal;

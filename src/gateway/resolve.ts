/**
 * From the model's name to targets and the price that holds for this call.
 *
 * The routing snapshot answers; a name it lacks is looked up in the operator's books before a refusal is given, so that
 * what was just made works at once.
 */
import type { Call, Endpoint } from "../core/endpoints/endpoint.ts";
import type { Refusal } from "../core/refusal.ts";
import {
  type Resolution,
  type Route,
  type RoutingSnapshot,
  resolveCustomInstance,
  resolveModel,
} from "../core/routing/routes.ts";
import type { Caller, Ports } from "./ports.ts";

export type Resolved = { ok: true; route: Route; routing: RoutingSnapshot } | { ok: false; refusal: Refusal };

export async function resolve(call: Call, caller: Caller, endpoint: Endpoint, ports: Ports): Promise<Resolved> {
  const over = (routing: RoutingSnapshot): Resolution =>
    call.instance
      ? resolveCustomInstance(routing, caller.account, call.instance, ports.now())
      : resolveModel(routing, caller.account, call.model ?? "", endpoint, ports.now());
  try {
    let routing = await ports.directory.routing();
    let resolution = over(routing);
    if (!resolution.ok && resolution.missing) {
      routing = await ports.directory.refresh(caller.account);
      resolution = over(routing);
    }
    if (!resolution.ok) return resolution;
    const refusal = call.boundless(resolution.route.row);
    return refusal ? { ok: false, refusal } : { ok: true, route: resolution.route, routing };
  } catch (error) {
    ports.log({ event: "routing_failed", error: String(error) });
    return { ok: false, refusal: { kind: "admission_unavailable" } };
  }
}

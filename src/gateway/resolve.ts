/**
 * Routes a parsed call: finds its targets and price, measures its recording, and derives its idempotency reference.
 *
 * The routing snapshot answers. A name that it lacks is looked up in the operator's books before the call is refused,
 * so that a new model works at once. The key may be dead at this point, so the caller gets a refusal only after the
 * account object has confirmed the key.
 */
import type { Call } from "../core/endpoints/call.ts";
import type { Measured } from "../core/meters/meter.ts";
import { utf8Bytes } from "../core/meters/tokens.ts";
import { type Outcome, refused } from "../core/outcome.ts";
import { type Resolution, type Route, resolveCustomInstance, resolveModel } from "../core/routing/resolution.ts";
import type { RoutingSnapshot } from "../core/routing/routes.ts";
import type { ParsedCall, RoutedCall, Step } from "./call.ts";
import { idempotencyOf } from "./idempotency.ts";
import { measureRecording } from "./measure-recording.ts";
import type { Ports } from "./ports.ts";

export async function route(parsed: ParsedCall, ports: Ports): Promise<Step<RoutedCall>> {
  const { call } = parsed;
  const recorded = measureRecording(call);
  if (!recorded.ok) return recorded;
  const resolved = await resolve(parsed, ports);
  if (!resolved.ok) return resolved;
  const found = await idempotencyOf(parsed, ports);
  if (!found.ok) return found;
  const { route, routing } = resolved;
  const measured = measure(call, route, recorded.recordingMs);
  return { ok: true, call: { ...parsed, route, routing, measured, idempotency: found.idempotency } };
}

type Resolved = Outcome<{ route: Route; routing: RoutingSnapshot }>;

async function resolve({ call, caller, endpoint }: ParsedCall, ports: Ports): Promise<Resolved> {
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
    return refusal ? refused(refusal) : { ok: true, route: resolution.route, routing };
  } catch (error) {
    ports.log({ event: "routing_failed", error: String(error) });
    return refused({ kind: "admission_unavailable" });
  }
}

/** Measures with the longest of the targets' model names, since each target gets its own. */
function measure(call: Call, route: Route, recordingMs: number | null): Measured {
  const modelBytes = Math.max(...route.targets.map((target) => utf8Bytes(target.model)));
  return { sentBytes: call.payload.countedBytes + modelBytes, recordingMs };
}

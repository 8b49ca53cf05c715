/**
 * What the edge finds out of a call by itself, before the account object is asked: its body, its recording's length, where
 * it may go, what tells it from its repeats.
 *
 * None of these steps knows whether the key is still live. So whatever one of them refuses is told only after the object
 * has said so, and `serve` says it in one place.
 */

import type { IdempotencyRef } from "../core/account/idempotency.ts";
import type { Call, Endpoint } from "../core/endpoints/endpoint.ts";
import type { Refusal } from "../core/refusal.ts";
import type { Route, RoutingSnapshot } from "../core/routing/routes.ts";
import { parse } from "./http/parse.ts";
import type { BodyPlace } from "./http/upload-slot.ts";
import { identify } from "./idempotency.ts";
import { measureRecording } from "./measure-recording.ts";
import type { Caller, Ports } from "./ports.ts";
import { resolve } from "./resolve.ts";

/** Where a call of a model may go, and what else its admission needs. */
export interface Routed {
  readonly route: Route;
  readonly routing: RoutingSnapshot;
  readonly recordingMs: number | null;
  readonly idempotency: IdempotencyRef | undefined;
}

/** `routed` is null where the call names no model but an id of the account's own, whose home the object knows. */
export type Prepared = { ok: true; call: Call; routed: Routed | null } | { ok: false; refusal: Refusal };

export async function prepare(
  request: Request,
  endpoint: Endpoint,
  params: Readonly<Record<string, string>>,
  caller: Caller,
  place: BodyPlace,
  ports: Ports,
): Promise<Prepared> {
  const parsed = await parse(request, endpoint, params, place.of(caller), () => ports.now());
  if (!parsed.ok) return parsed;
  const { call } = parsed;
  if (endpoint.free && call.model === null && call.instance === null) return { ok: true, call, routed: null };
  const heard = measureRecording(call);
  if (!heard.ok) return heard;
  const resolved = await resolve(call, caller, endpoint, ports);
  if (!resolved.ok) return resolved;
  const identified = await identify(request.headers, endpoint, call, caller, ports);
  if (!identified.ok) return identified;
  const { route, routing } = resolved;
  const { idempotency } = identified;
  return { ok: true, call, routed: { route, routing, recordingMs: heard.recordingMs, idempotency } };
}

/**
 * One call from request to end: a record that grows.
 *
 *     received -> identified -> parsed -> routed -> admitted
 *
 * Each step takes one of these and gives the next, or a refusal. A step's argument type states what it needs, so a call
 * that was not admitted cannot be forwarded. A free call stops growing earlier.
 */

import type { Try } from "../core/account/call-trace.ts";
import type { Hold, LeasedCall, Rates } from "../core/account/hold.ts";
import type { IdempotencyRef } from "../core/account/idempotency.ts";
import type { Call } from "../core/endpoints/call.ts";
import type { Endpoint } from "../core/endpoints/endpoint.ts";
import type { CallId } from "../core/ids.ts";
import type { Measured } from "../core/meters/meter.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Route } from "../core/routing/resolution.ts";
import type { RoutingSnapshot } from "../core/routing/routes.ts";
import type { BodyPlace } from "./http/upload-slot.ts";
import type { Caller } from "./ports.ts";

/** A request to a row of the endpoint table. */
export interface ReceivedCall {
  readonly callId: CallId;
  readonly startedAtMs: number;
  readonly endpoint: Endpoint;
  /** The path's parameters. */
  readonly params: Readonly<Record<string, string>>;
  readonly request: Request;
  /** Holds the body. */
  readonly place: BodyPlace;
  /** The tries at targets so far; `forward` adds each. */
  readonly tries: Try[];
}

/** The edge knows the key. The account object decides whether it is live. */
export interface IdentifiedCall extends ReceivedCall {
  readonly caller: Caller;
}

/** The body was read and fits the endpoint. */
export interface ParsedCall extends IdentifiedCall {
  readonly call: Call;
}

/** The model has targets and a price. */
export interface RoutedCall extends ParsedCall {
  readonly route: Route;
  readonly routing: RoutingSnapshot;
  readonly measured: Measured;
  /** Set where repeats of the call must be carried out only once. */
  readonly idempotency: IdempotencyRef | undefined;
}

/** The call holds money for what it may cost. */
export interface AdmittedCall extends RoutedCall {
  readonly hold: Hold;
  readonly rates: Rates;
  /** Set if it was admitted out of a lease. */
  readonly leased?: LeasedCall | undefined;
  /** Tokens recorded for the conversation that the call continues. */
  readonly earlierTokens: number;
}

/** The result of a step. */
export type Step<Next> = Outcome<{ call: Next }, { rates?: Rates }>;

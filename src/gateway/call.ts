/**
 * One call, from its request to its end: a record that grows.
 *
 *     received -> identified -> parsed -> routed -> admitted
 *
 * Each step takes one of these and gives the next, or a refusal. What a step needs stands in its argument's type: nothing
 * can be forwarded that was not admitted. A call that costs nothing stops growing earlier.
 */

import type { Hold, Rates } from "../core/account/hold.ts";
import type { IdempotencyRef } from "../core/account/idempotency.ts";
import type { Call } from "../core/endpoints/call.ts";
import type { Endpoint } from "../core/endpoints/endpoint.ts";
import type { CallId } from "../core/ids.ts";
import type { Measured } from "../core/meters/meter.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Route, RoutingSnapshot } from "../core/routing/routes.ts";
import type { BodyPlace } from "./http/upload-slot.ts";
import type { Caller } from "./ports.ts";

/** A request to a row of the endpoint table. */
export interface ReceivedCall {
  readonly callId: CallId;
  readonly startedAtMs: number;
  readonly endpoint: Endpoint;
  /** What its path names. */
  readonly params: Readonly<Record<string, string>>;
  readonly request: Request;
  /** Where its body is held. */
  readonly place: BodyPlace;
}

/** Its key is known at the edge; whether that is live is the account object's word. */
export interface IdentifiedCall extends ReceivedCall {
  readonly caller: Caller;
}

/** Its body was read and fits the endpoint. */
export interface ParsedCall extends IdentifiedCall {
  readonly call: Call;
}

/** Its model has targets and a price. */
export interface RoutedCall extends ParsedCall {
  readonly route: Route;
  readonly routing: RoutingSnapshot;
  readonly measured: Measured;
  /** Set where the call is to be carried out once, however often it is sent. */
  readonly idempotency: IdempotencyRef | undefined;
}

/** It holds what it may cost. */
export interface AdmittedCall extends RoutedCall {
  readonly hold: Hold;
  readonly rates: Rates;
  /** Tokens recorded for the conversation that it continues. */
  readonly earlierTokens: number;
}

/** What a step came to. */
export type Step<Next> = Outcome<{ call: Next }, { rates?: Rates }>;

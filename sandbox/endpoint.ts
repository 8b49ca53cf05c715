/**
 * An endpoint of the sandbox. It reads a call into a `Prepared`, which describes what must be routed and answers once a
 * region is found. After `prepare` no code depends on the endpoint.
 */
import type { Instance, ModelKind } from "./catalog.ts";
import type { ServiceStub } from "./env.ts";
import type { MetFaults } from "./faults.ts";
import type { ErrorShape, Outcome, Refusal } from "./refusal.ts";
import type { StoredRef } from "./service/stored-ref.ts";
import type { Usage } from "./usage.ts";

export type JsonObject = { readonly [name: string]: unknown };

/** An incoming call with its body read. */
export interface Received {
  readonly url: URL;
  readonly params: Readonly<Record<string, string>>;
  readonly contentType: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly account: string;
}

/** Where, when and under which id a call is served. */
export interface Site {
  readonly model: string;
  readonly region: string;
  readonly callId: number;
  readonly serviceRequestId: string;
  readonly nowMs: number;
  readonly account: string;
  /** The address at which the sandbox was called, for links to results. */
  readonly origin: string;
  readonly service: ServiceStub;
  /** The call's faults, for those that an endpoint itself must act out. */
  readonly met: MetFaults;
  /** What the service has stored about the call's subject, as JSON. */
  readonly stored: string | null;
  /** The custom instance that is called by its id. */
  readonly instance: Instance | null;
}

/** One SSE frame, and what the call has used once it is sent. */
export interface EventFrame {
  readonly data: JsonObject;
  readonly usage: Usage;
}

/** A piece of a body that is delivered as it is made, and what the call has used once it is sent. */
export interface Chunk {
  readonly bytes: Uint8Array;
  readonly usage: Usage;
}

export type Answer =
  | { readonly kind: "json"; readonly body: JsonObject; readonly usage: Usage | null; readonly status?: number }
  | {
      readonly kind: "bytes";
      readonly bytes: Uint8Array<ArrayBuffer>;
      readonly contentType: string;
      readonly usage: Usage | null;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "events";
      readonly events: Iterable<EventFrame>;
      /** What the call has used before its first frame. */
      readonly usage: Usage;
      readonly delayMs: number | undefined;
    }
  | {
      readonly kind: "chunks";
      readonly chunks: Iterable<Chunk>;
      readonly contentType: string;
      readonly usage: Usage;
      readonly delayMs: number | undefined;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | { readonly kind: "refusal"; readonly refusal: Refusal };

export interface Prepared {
  /** The model to route by; null for lists and for calls about stored things. */
  readonly model: string | null;
  readonly kinds: readonly ModelKind[];
  /** False for calls that use nothing and are not billed. */
  readonly executes: boolean;
  readonly stored?: StoredRef;
  /** The custom instance that is called by its id. */
  readonly instanceId?: number;
  readonly answer: (site: Site) => Answer | Promise<Answer>;
}

export interface Endpoint {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly errors: ErrorShape;
  readonly prepare: (received: Received) => Outcome<Prepared> | Promise<Outcome<Prepared>>;
}

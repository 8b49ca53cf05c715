/**
 * What an endpoint is to the sandbox: it reads a call into a `Prepared`, which says what must be routed and, once a
 * region is found, answers. Nothing after `prepare` knows which endpoint it serves.
 */
import type { Instance, ModelKind } from "./catalog.ts";
import type { ServiceStub } from "./env.ts";
import type { MetFaults } from "./faults.ts";
import type { ErrorShape, Outcome, Refusal } from "./refusal.ts";
import type { StoredRef } from "./service/stored-ref.ts";
import type { Usage } from "./usage.ts";

export type JsonObject = { readonly [name: string]: unknown };

/** A call as it came in, its body read. */
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
  /** The faults that the call met, for those that an endpoint itself must play. */
  readonly met: MetFaults;
  /** What the service knows of the thing that the call is about, as JSON. */
  readonly stored: string | null;
  /** The custom instance that is called by its id. */
  readonly instance: Instance | null;
}

/** One SSE frame, and what the call has used once it is sent. */
export interface EventFrame {
  readonly data: JsonObject;
  readonly usage: Usage;
}

/** A piece of a body delivered as it is made, and what the call has used once it is sent. */
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
  /** The model to route by; null for calls about what is stored, and for lists. */
  readonly model: string | null;
  readonly kinds: readonly ModelKind[];
  /** False for what uses nothing and is not billed. */
  readonly executes: boolean;
  readonly stored?: StoredRef;
  /** A custom instance, called by its id. */
  readonly instanceId?: number;
  readonly answer: (site: Site) => Answer | Promise<Answer>;
}

export interface Endpoint {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly errors: ErrorShape;
  readonly prepare: (received: Received) => Outcome<Prepared> | Promise<Outcome<Prepared>>;
}

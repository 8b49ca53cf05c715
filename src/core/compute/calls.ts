/** What the gateway asks of an account object for a compute call, and what it gets. */
import type { IdempotencyRef } from "../account/idempotency.ts";
import type { CallId, KeyDigest } from "../ids.ts";
import type { Outcome } from "../outcome.ts";
import type { ModelRow } from "../pricing/prices.ts";
import type { Refusal } from "../refusal.ts";
import type { GpuPrices } from "./facts.ts";
import type { HourlyPlan, InferenceRow } from "./inference.ts";
import type { MachineKind, ResourceKind, ResourceRow, StorageKind } from "./resource.ts";

export interface ComputeRequest {
  readonly keyDigest: KeyDigest;
  readonly callId: CallId;
  /** The row of the compute table. */
  readonly endpoint: string;
  /** The id of the path; null: the path names none. Undefined: what it names is no id. */
  readonly id: number | null | undefined;
  /** The body as the row's schema gives it, or what is wrong with it: that is said after access and limits. */
  readonly body: Outcome<{ body: unknown }>;
  /** The price book's rows of GPUs and storage that hold now. */
  readonly bookRows: readonly ModelRow[];
  /** The upstreams that may seat several accounts, by a copy: it decides what is shown, nothing else. */
  readonly sharedUpstreams: readonly string[];
  /** The deployment's mark, and six characters of base32, for the tag of a new resource. */
  readonly deployment: string;
  readonly random: string;
  /** Of the SSH key in the body; null: the body has none. */
  readonly sshFingerprint: string | null;
  readonly idempotency: IdempotencyRef | undefined;
}

/**
 * `upstream`: the account's seat. `rows`: what the call is about: one row, or a list's. `gpuPrices`: what the account
 * pays, by GPU type.
 */
export type ComputeAnswer = Outcome<{
  readonly upstream: string;
  readonly rows: readonly ResourceRow[];
  /** Those of `rows` that a running machine has mounted. */
  readonly mounted: readonly number[];
  readonly gpuPrices: readonly (readonly [string, GpuPrices])[];
  /** What storage the account is offered, and what it pays for it. */
  readonly storagePrices: readonly (readonly [StorageKind, GpuPrices])[];
  /** Whether the seat is shared, by a copy: then no storage is offered. */
  readonly shared: boolean;
}>;

/** Asks for the pod behind a service path. */
export interface ServiceRequest {
  readonly keyDigest: KeyDigest;
  readonly kind: MachineKind;
  /** Null: what the path names is no id. */
  readonly id: number | null;
  /** What is wrong with the request itself: said after access, before ids. */
  readonly fault: Refusal | null;
}

/** Where it is upstream. */
export type ServiceAnswer = Outcome<{ readonly upstream: string; readonly upstreamId: number }>;

/** An account's compute for the operator. */
export interface ComputeState {
  readonly inference: readonly { readonly upstream: string; readonly row: InferenceRow }[];
  readonly upstream: string | null;
  readonly rows: readonly { readonly upstream: string; readonly row: ResourceRow }[];
}

/** What lives of an account, by kind. */
export type LiveKinds = readonly { readonly kind: ResourceKind; readonly count: number }[];

/** `elsewhere`: the account has another seat than the one that it was to leave, or is deleted. */
export type SeatMove =
  | { readonly kind: "moved" }
  | { readonly kind: "elsewhere" }
  | { readonly kind: "in_use"; readonly live: LiveKinds };

/**
 * Begins the rental of an inference instance. `gpuRow`: the price book's row of its GPUs now. `stored`: the instance is
 * in the operator's books. A rental of which nobody says so ends by itself.
 */
export interface HourlyBegin {
  readonly instanceId: number;
  readonly stored: boolean;
  readonly hourly: HourlyPlan;
  readonly upstream: string;
  readonly gpuRow: ModelRow;
}

/** `anew`: false where it was begun before, as it is. */
export type HourlyBegun =
  | { readonly kind: "begun"; readonly rental: number; readonly anew: boolean }
  | { readonly kind: "other"; readonly hourly: HourlyPlan }
  | { readonly kind: "account_deleted" | "unpriced" }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** A tag that one of the account's rows has. */
export interface KnownTag {
  readonly tag: string;
  readonly id: number;
  readonly upstream: string;
  /** False once nothing can happen to it any more. */
  readonly live: boolean;
  readonly gpus: number | null;
  readonly hourlyPriceNanoUsd: number | null;
}

/** The methods of an account object for compute. */
export interface ComputeAccount {
  compute(request: ComputeRequest): Promise<ComputeAnswer>;
  /** Changes and counts nothing. */
  openService(request: ServiceRequest): Promise<ServiceAnswer>;
  /** What lives, and what ended lately. */
  computeState(): Promise<ComputeState | undefined>;
  /** The operator's stop: of one resource, or of all that live. Gives the ids that are being stopped. */
  stopCompute(id: number | null): Promise<readonly number[] | undefined>;
  /** Gives the account another seat, or none, if it has this one and nothing of it lives. */
  moveSeat(from: string | null, to: string | null): Promise<SeatMove | undefined>;
  /** Which of these names upstream belong to rows of the account. */
  knownTags(tags: readonly string[]): Promise<readonly KnownTag[] | undefined>;
  /** Holds the first day of an inference instance by the hour; asked twice, once. */
  beginHourly(asked: HourlyBegin): Promise<HourlyBegun | undefined>;
  /**
   * Ends it by the id of its rental: charged to now, the rest refunded. `unused`: its instance was not made after all,
   * nothing is charged. Repeats change nothing.
   */
  endHourly(rental: number, unused?: boolean): Promise<void>;
}

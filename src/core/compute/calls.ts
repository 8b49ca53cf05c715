/** What the gateway asks of an account object for a compute call, and what it gets. */
import type { IdempotencyRef } from "../account/idempotency.ts";
import type { CallId, KeyDigest } from "../ids.ts";
import type { Outcome } from "../outcome.ts";
import type { ModelRow } from "../pricing/prices.ts";
import type { GpuPrices } from "./facts.ts";
import type { ResourceRow } from "./resource.ts";

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
  /** The upstreams that may seat several accounts. */
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
}>;

/** An account's compute for the operator. */
export interface ComputeState {
  readonly upstream: string | null;
  readonly rows: readonly { readonly upstream: string; readonly row: ResourceRow }[];
}

/** The methods of an account object for compute. */
export interface ComputeAccount {
  compute(request: ComputeRequest): Promise<ComputeAnswer>;
  /** What lives, and what ended lately. */
  computeState(): Promise<ComputeState | undefined>;
  /** The operator's stop: of one resource, or of all that live. Gives the ids that are being stopped. */
  stopCompute(id: number | null): Promise<readonly number[] | undefined>;
}

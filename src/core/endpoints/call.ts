/**
 * A call as the endpoint table builds it: a request's path and body parsed into one plain value, the same for all
 * endpoints.
 */
import type { Bound } from "../account/hold.ts";
import type { AnswerReader, Measured, Sent } from "../meters/meter.ts";
import type { Outcome } from "../outcome.ts";
import type { OwnedRef } from "../owned.ts";
import type { ModelRow } from "../pricing/prices.ts";
import type { Refusal } from "../refusal.ts";
import type { Steps } from "../steps.ts";
import type { VideoUnit } from "../video/rates.ts";
import type { RawBody } from "./body.ts";
import type { Payload } from "./payload.ts";

/** The table's input: the path, its parameters, and a body that was read within its limit. */
export interface RawCall {
  /** As in the URL, not decoded. */
  readonly askedPath: string;
  readonly params: Readonly<Record<string, string>>;
  readonly body: RawBody;
}

/** A recording that a call sends. */
export interface Recording {
  readonly bytes: Uint8Array;
  /** The body field that contains it. */
  readonly field: string;
  /** A longer one is refused; null for no limit. */
  readonly longestMs: number | null;
}

/** One validated call, whatever its endpoint. */
export interface Call {
  /** The model as the tenant named it; null if an id or instance decides. */
  readonly model: string | null;
  /** The instance id in the path, as text, and the path as requested; null on other endpoints. */
  readonly instance: { readonly id: string; readonly askedPath: string } | null;
  /** The upstream's path, built from stored parts only. */
  readonly path: string;
  readonly payload: Payload;
  /** Fields that identify the tenant's users; sent upstream only as pseudonyms. */
  readonly pseudonyms: Readonly<Record<string, string>>;
  /** The media type requested for the answer. */
  readonly accept: string;
  /** True if the client reads the answer while it is produced. */
  readonly streams: boolean;
  /** Ids of the service that the call names. Each must belong to the account; the first one pins the target. */
  readonly owned: readonly OwnedRef[];
  /** The rate for the job that is submitted or quoted; null on other endpoints. */
  readonly jobUnit: VideoUnit | null;
  /** What identifies this call's body, if the call creates something; empty otherwise. */
  identity(): Steps<readonly Uint8Array<ArrayBuffer>[]>;
  /** The refusal if the model's row gives no bound for this call; null if it does. */
  boundless(row: ModelRow): Refusal | null;
  /** The most that the call can use. */
  bound(row: ModelRow, measured: Measured): Bound;
  /** A recording whose length the bound needs. The pipeline measures it. */
  recording(): Recording | null;
  /** A new reader for the answer of one try. `sent` is null for a free call. */
  reader(sent: Sent | null): AnswerReader;
  /** Gives back the memory of the body: the call is not sent again, and nothing above may be asked any more. */
  drop(): void;
}

export type ParseResult = Outcome<{ call: Call }>;

/** A call as the endpoint table makes it: from a request's path and body to one plain value, whatever its endpoint. */
import type { Bound } from "../account/hold.ts";
import type { AnswerReader, Measured, Sent } from "../meters/meter.ts";
import type { Outcome } from "../outcome.ts";
import type { OwnedRef } from "../owned.ts";
import type { ModelRow } from "../pricing/prices.ts";
import type { Refusal } from "../refusal.ts";
import type { VideoUnit } from "../video/rates.ts";
import type { RawBody } from "./body.ts";
import type { Payload } from "./payload.ts";

/** A request as the table takes it: its path, what that names, and a body read within its limit. */
export interface RawCall {
  /** As it stood in the URL, not decoded. */
  readonly askedPath: string;
  readonly params: Readonly<Record<string, string>>;
  readonly body: RawBody;
}

/** A recording that a call sends. */
export interface Recording {
  readonly bytes: Uint8Array;
  /** The field that it stands in. */
  readonly field: string;
  /** A longer one is refused; null where any length will do. */
  readonly longestMs: number | null;
}

/** One validated call, whatever its endpoint. */
export interface Call {
  /** The model as the tenant named it; null where something else that the call names decides. */
  readonly model: string | null;
  /** The instance that the path names, as text, and the path as it was asked; null on other endpoints. */
  readonly instance: { readonly id: string; readonly askedPath: string } | null;
  /** The upstream's path, built from stored parts only. */
  readonly path: string;
  readonly payload: Payload;
  /** Fields that tell the tenant's users apart; they go upstream as pseudonyms only. */
  readonly pseudonyms: Readonly<Record<string, string>>;
  /** The media type of the answer asked for. */
  readonly accept: string;
  /** True where the client reads the answer while it is made. */
  readonly streams: boolean;
  /** Ids of the service that the call names: each must be the account's own. The first one pins the target. */
  readonly owned: readonly OwnedRef[];
  /** The rate that the job is charged by which is submitted or asked about; null on other endpoints. */
  readonly jobUnit: VideoUnit | null;
  /** A recording whose length the bound needs; measured by the pipeline. */
  readonly recording: Recording | null;
  /** What tells this call's body from another's, where the call makes something. */
  identity(): readonly Uint8Array<ArrayBuffer>[];
  /** Why the row names no bound for this call; null where it does. */
  boundless(row: ModelRow): Refusal | null;
  /** The true upper bound. */
  bound(row: ModelRow, measured: Measured): Bound;
  /** A fresh reader for the answer of one try; `sent` is null where the call costs nothing. */
  reader(sent: Sent | null): AnswerReader;
}

export type ParseResult = Outcome<{ call: Call }>;

/** The record of a call that was refused before it got a hold. Crosses RPC and the queue as a value. */
import type { CallId, KeyId, TeamId } from "../ids.ts";
import type { LimitLevel } from "../refusal.ts";

/** What the pipeline tells of a call that it asks about, so that a refusal can be recorded. */
export interface AskedAbout {
  readonly callId: CallId;
  readonly endpoint: string;
  readonly startedAtMs: number;
  /** Set if the pipeline has refused the call: only the key is still to be checked. */
  readonly refused?: { readonly reason: string; readonly status: number; readonly param: string | null };
}

/** The limit or budget that a call met. */
export interface Met {
  readonly level: LimitLevel;
  /** Of the key, team or account. */
  readonly id: string;
  /** `rpm_limit`, `max_budget`, `balance` or the name of a row's own limit. */
  readonly limit: string;
  /** Nano-USD for `max_budget` and `balance`; null: not counted. */
  readonly used: number | null;
  readonly allowed: number;
  readonly freesAtMs: number | null;
}

export interface RefusedCall {
  readonly callId: CallId;
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly key: KeyId;
  readonly team: TeamId | null;
  readonly endpoint: string;
  /** Null: refused before the model was found. What was asked for may be anything, so it is not kept. */
  readonly model: string | null;
  readonly status: number;
  /** The refusal's kind. */
  readonly reason: string;
  /** Where in the body the fault is, if that is known and has a plain name. */
  readonly param: string | null;
  readonly met: Met | null;
}

/** Refusals of one minute that have all of this in common. `level` and `limit` are empty where no limit was met. */
export interface RefusalCount {
  readonly minuteMs: number;
  readonly key: KeyId;
  readonly level: LimitLevel | "";
  readonly limit: string;
  readonly reason: string;
  readonly refusals: number;
}

/** What an account object sends of its refusals: a batch counts once, however often it comes. */
export interface RefusedBatch {
  readonly id: string;
  readonly account: string;
  readonly calls: readonly RefusedCall[];
  readonly counts: readonly RefusalCount[];
}

/** A queue message. */
export interface RefusedMessage {
  readonly refused: RefusedBatch;
}

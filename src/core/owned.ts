/**
 * Ids that the service hands out: each belongs to the account that made it, and to nobody else.
 *
 * An id is recorded in the account's object before the account can use it. Somebody else's id, an unknown one and one
 * that is no longer kept answer alike, without an upstream call.
 */
import type { CallId } from "./ids.ts";

export type OwnedKind = "response" | "video_job";

/** Video jobs are found in the account's jobs (core/video/jobs.ts); responses in its owned ids. */

/** An id that a call names. */
export interface OwnedRef {
  readonly kind: OwnedKind;
  readonly id: string;
}

/** What is known of an id when a call names it. */
export interface Owned extends OwnedRef {
  /** Where it is kept: later calls go there and nowhere else. */
  readonly upstream: string;
  readonly targetModel: string;
  /** The model as the tenant named it. */
  readonly model: string;
  /** Tokens of the conversation up to and including this turn; a continued turn includes them. */
  readonly totalTokens: number;
}

/** Tokens that a call includes from the conversations that it names. */
export const earlierTokens = (owned: readonly Owned[]): number => owned.reduce((sum, one) => sum + one.totalTokens, 0);

/** A new id, recorded before its bytes pass. `continues`: the id whose conversation it continues. */
export interface NewOwned extends OwnedRef {
  readonly callId: CallId;
  readonly upstream: string;
  readonly targetModel: string;
  readonly model: string;
  readonly continues: string | null;
}

/** Conversations are kept this long after their last turn (contract: Responses conversation retention). */
export const CONVERSATION_LIFE_MS = 24 * 60 * 60 * 1000;

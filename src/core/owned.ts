/**
 * Ids that the service hands out. Each belongs to the account that created it.
 *
 * An id is recorded in the account object before the account can use it. Another account's id, an unknown one and an
 * expired one get the same answer, without an upstream call.
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

/** Tokens that a call brings along from the conversations that it names. */
export const earlierTokens = (owned: readonly Owned[]): number => owned.reduce((sum, one) => sum + one.totalTokens, 0);

/** A new id, recorded before its bytes pass. `continues`: the id whose conversation it continues. */
export interface NewOwned extends OwnedRef {
  readonly callId: CallId;
  readonly upstream: string;
  readonly targetModel: string;
  readonly model: string;
  readonly continues: string | null;
}

/** How long a conversation is kept after its last turn (contract: Responses conversation retention). */
export const CONVERSATION_LIFE_MS = 24 * 60 * 60 * 1000;

/**
 * What passes between the pipeline and the account object: asking for a hold, and ending it.
 *
 * A hold is money and limit room set aside for one call. It ends exactly once: settled (charged), released (nothing was
 * executed or the call failed: costs nothing) or expired (nobody ended it in time). All types here cross RPC as values.
 */

import type { AccountId, AccountNumber, CallId, KeyDigest, KeyId, TeamId } from "../ids.ts";
import type { Outcome } from "../outcome.ts";
import type { Owned, OwnedRef } from "../owned.ts";
import type { ModelRow } from "../pricing/prices.ts";
import type { Reading, Usage } from "../pricing/usage.ts";
import type { LimitLevel } from "../refusal.ts";
import type { EarlierCall, IdempotencyRef } from "./idempotency.ts";

/** The true upper bound of what a call can use. */
export interface Bound {
  /** All of it except output that can be capped. */
  readonly fixed: Usage;
  /** Output that a cap sent upstream limits: `cap` tokens for each of `choices`. */
  readonly output?: {
    readonly cap: number;
    readonly choices: number;
    /** True where the caller named no cap: admission may lower it to what balance, budgets and tpm leave. */
    readonly lowerable: boolean;
  };
}

/** A call whose cap would have to be lowered below this is refused. */
export const LEAST_OUTPUT_CAP = 16;

/** The bound as one usage, with the output cap given. */
export function boundUsage(bound: Bound, cap: number | undefined): Usage {
  if (!bound.output) return bound.fixed;
  return { ...bound.fixed, output_tokens: (cap ?? bound.output.cap) * bound.output.choices };
}

/** The bound of a turn that includes its conversation's tokens; the model reads no more than its context. */
export function continuing(bound: Bound, earlierTokens: number, contextTokens = Number.POSITIVE_INFINITY): Bound {
  if (earlierTokens === 0) return bound;
  const inputTokens = Math.min((bound.fixed.input_tokens ?? 0) + earlierTokens, contextTokens);
  return { ...bound, fixed: { ...bound.fixed, input_tokens: inputTokens } };
}

/** Asks one account to admit one call. */
export interface AdmitRequest {
  readonly callId: CallId;
  readonly keyDigest: KeyDigest;
  /** Row id of the endpoint table, e.g. `chat.completions`. */
  readonly endpoint: string;
  /** The model as the tenant named it; held against the key's allow-list. */
  readonly model: string;
  /** Set where the name is an alias, for reports. */
  readonly alias: string | null;
  /** The price book row for this call; the object applies the account's plan to it. */
  readonly row: ModelRow;
  readonly bound: Bound;
  /** True where it submits a job: an account may do so only so often. */
  readonly job?: boolean;
  /** Ids that the call names; each must belong to the account. A conversation's tokens are added to the bound. */
  readonly owned: readonly OwnedRef[];
  /** Set where the call is to be carried out once, however often it is sent. */
  readonly idempotency?: IdempotencyRef | undefined;
  readonly startedAtMs: number;
}

/**
 * `owned`: what is known of the ids named, in their order. `earlier`: the call was sent before under its idempotency key;
 * the refusal is what to say where its answer cannot be rebuilt.
 */
export type Admission = Outcome<
  { hold: Hold; rates: Rates; owned: readonly Owned[] },
  { rates?: Rates; earlier?: EarlierCall }
>;

/** What the pipeline needs to know of the hold it was given. */
export interface Hold {
  readonly callId: CallId;
  readonly keyId: KeyId;
  readonly amountNanoUsd: number;
  /** The output cap per choice that the hold pays for; always sent upstream. Absent where the endpoint has none. */
  readonly outputCap?: number | undefined;
  readonly expiresAtMs: number;
  /** However often the hold is renewed, its call has to be ended and settled within this long of the grant, ms. */
  readonly longestCallMs: number;
  /** What to do with a stream whose client left. */
  readonly onDisconnect: "cancel" | "drain";
}

/** The tightest limit of each sort over the three levels, for `x-ratelimit-*`. */
export interface Rates {
  readonly requests?: Rate;
  readonly tokens?: Rate;
}
export interface Rate {
  readonly limit: number;
  readonly remaining: number;
  /** Until the window is empty again. */
  readonly resetMs: number;
}

/** Which target served a call; part of the usage event. */
export interface ServedBy {
  readonly upstream: string;
  readonly model: string;
  readonly region: string | null;
}

/** How a call that was executed ended. */
export type CallOutcome = "completed" | "client_gone" | "stream_broken";

/**
 * How many tries of a call an upstream may have carried out without the tenant paying for them: what they cost is the
 * operator's loss. None: besides a try that is charged, nothing was executed.
 */
export type LostTries = number;

/**
 * What was read of a call that still runs, carried by each renewal of its hold: should nobody end the hold, this much is
 * charged at its expiry.
 */
export interface Progress {
  readonly reading: Reading;
  readonly servedBy: ServedBy;
  /** What the operator pays for this reading at the target that serves. */
  readonly costNanoUsd: number;
}

/**
 * Ends a hold with a charge of min(actual, held). Idempotent by call id. One that comes after the hold has expired brings
 * the charge there once, upwards by no more than balance and budgets leave.
 */
export interface Settlement {
  readonly callId: CallId;
  readonly outcome: CallOutcome;
  /** HTTP status the client got. */
  readonly status: number;
  readonly reading: Reading;
  readonly servedBy: ServedBy;
  /** What the operator pays for this usage at the target that served. */
  readonly costNanoUsd: number;
  readonly latencyMs: number;
  readonly firstByteMs: number | null;
  readonly lostTries: LostTries;
}

/** Ends a hold without a charge. Idempotent by call id. */
export interface Release {
  readonly callId: CallId;
  readonly status: number;
  /** The refusal's kind, for reports. */
  readonly reason: string;
  readonly lostTries: LostTries;
  readonly servedBy: ServedBy | null;
  readonly latencyMs: number;
}

/** How a hold ended; every later end of the same call gets this answer. */
export interface HoldEnd {
  readonly state: "settled" | "released" | "expired" | "unknown";
  readonly chargedNanoUsd: number;
}

/** Whether a key may make free calls (models, polls, its own status). */
export type Permission = Outcome<{
  keyId: KeyId;
  teamId: TeamId | null;
  accountId: AccountId;
  models: readonly string[] | null;
  rates: Rates;
  owned: readonly Owned[];
}>;

/**
 * The record of one finished call: from the outbox by queue to D1. No byte of prompt or completion, no key.
 * `eventId` is the call id: written twice, it counts once.
 *
 * A call that ended after its hold had expired has a second event, `late`, with the id `<call id>.late`. Its quantities,
 * money and latency are the differences to the first one (they may be negative), so that sums over both are true.
 */
export interface UsageEvent {
  readonly eventId: CallId;
  readonly late?: true;
  readonly account: AccountId;
  readonly team: TeamId | null;
  readonly key: KeyId;
  readonly endpoint: string;
  readonly model: string;
  readonly alias: string | null;
  readonly upstream: string | null;
  readonly targetModel: string | null;
  readonly region: string | null;
  readonly outcome: CallOutcome | "failed" | "expired";
  readonly reason: string | null;
  readonly status: number;
  readonly source: Reading["source"] | "none";
  readonly lowInput?: Reading["lowInput"];
  readonly usage: Usage;
  readonly priceNanoUsd: number;
  readonly costNanoUsd: number;
  readonly overrunNanoUsd: number;
  readonly lossNanoUsd: number;
  readonly priceRule: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly latencyMs: number;
  readonly firstByteMs: number | null;
}

/**
 * The end of a call whose account object could not be reached. It goes by the queue, so that what was executed is charged.
 * It is dropped after `QUEUED_END_LIFE_MS`: by then the hold's expiry has settled the call.
 */
export interface QueuedEnd {
  readonly account: AccountNumber;
  readonly endedAtMs: number;
  readonly end:
    | { readonly kind: "settle"; readonly said: Settlement }
    | { readonly kind: "release"; readonly said: Release };
}
export const QUEUED_END_LIFE_MS = 24 * 3_600_000;

/** One queue message: many events of one account, confirmed to its object by `shipped` once they stand in D1. */
export interface UsageMessage {
  readonly account: AccountNumber;
  readonly events: readonly UsageEvent[];
}

/** Levels, narrowest first: the order in which refusals name them. */
export const LEVELS: readonly LimitLevel[] = ["key", "team", "account"];

/**
 * The values that the pipeline and the account object exchange: to ask for a hold, and to end it.
 *
 * A hold is money and limit room set aside for one call. It ends exactly once: settled (charged), released (nothing was
 * executed or the call failed, so it costs nothing) or expired (it was not ended in time). All types here cross RPC as
 * values.
 */

import type { Alert } from "../alerts/alert.ts";
import type { AccountId, AccountNumber, CallId, KeyDigest, KeyId, TeamId } from "../ids.ts";
import type { Outcome } from "../outcome.ts";
import type { Owned, OwnedRef } from "../owned.ts";
import type { ModelRow, UnitPrices } from "../pricing/prices.ts";
import type { Reading, Usage } from "../pricing/usage.ts";
import type { LimitLevel, NamedLimit } from "../refusal.ts";
import type { CallAccess } from "./call-access.ts";
import type { CallDetail, CallTrace } from "./call-trace.ts";
import type { EarlierCall, IdempotencyRef } from "./idempotency.ts";

/** The most that a call can use. */
export interface Bound {
  /** Everything except output that can be capped. */
  readonly fixed: Usage;
  /** Output limited by a cap that is sent upstream: `cap` tokens for each of `choices`. */
  readonly output?: {
    readonly cap: number;
    readonly choices: number;
    /** True if the caller named no cap: admission may then lower it to what balance, budgets and `tpm_limit` allow. */
    readonly lowerable: boolean;
  };
}

/** Admission refuses the call rather than lower its cap below this. */
export const MIN_OUTPUT_CAP = 16;

/** The bound as one usage, with the given output cap. */
export function boundUsage(bound: Bound, cap: number | undefined): Usage {
  if (!bound.output) return bound.fixed;
  return { ...bound.fixed, output_tokens: (cap ?? bound.output.cap) * bound.output.choices };
}

/** The bound of a turn that continues a conversation: earlier tokens are added, up to the model's context. */
export function continuing(bound: Bound, earlierTokens: number, contextTokens = Number.POSITIVE_INFINITY): Bound {
  if (earlierTokens === 0) return bound;
  const inputTokens = Math.min((bound.fixed.input_tokens ?? 0) + earlierTokens, contextTokens);
  return { ...bound, fixed: { ...bound.fixed, input_tokens: inputTokens } };
}

/** What an account must know of a call to judge it. */
export interface AskedCall {
  readonly callId: CallId;
  readonly keyDigest: KeyDigest;
  /** Row id of the endpoint table, e.g. `chat.completions`. */
  readonly endpoint: string;
  /** Of the row: what the key must be, and the limits that the row names. */
  readonly access: CallAccess;
  readonly limits: readonly NamedLimit[];
  /** The model as the tenant named it; checked against the key's allow-list. */
  readonly model: string;
  /** Set if the name is an alias; for reports. */
  readonly alias: string | null;
  /** The price book row that applies. The account object applies the account's plan to it. */
  readonly row: ModelRow;
  /** Set if the call must be carried out once, however often it is sent. */
  readonly idempotency?: IdempotencyRef | undefined;
  readonly startedAtMs: number;
}

/** Asks one account to admit one call. */
export interface AdmitRequest extends AskedCall {
  readonly bound: Bound;
  /** True if the call submits a job: its quote was counted as a free call, which is taken back. */
  readonly job?: boolean;
  /** Ids that the call names. Each must belong to the account; a conversation's tokens are added to the bound. */
  readonly owned: readonly OwnedRef[];
  /** Ids of inference instances by the hour that may serve the call: their time has to be paid. */
  readonly hourly?: readonly number[];
}

/**
 * `owned`: what is known of the named ids, in their order. `earlier`: this call was sent before with the same
 * idempotency key; the refusal is for the case that its answer cannot be rebuilt.
 */
export type Admission = Outcome<
  { hold: Hold; rates: Rates; owned: readonly Owned[] },
  { rates?: Rates; earlier?: EarlierCall }
>;

/** What the pipeline needs to know about its hold. */
export interface Hold {
  readonly callId: CallId;
  readonly keyId: KeyId;
  readonly amountNanoUsd: number;
  /** The output cap per choice that the hold covers; always sent upstream. Absent if the endpoint has no cap. */
  readonly outputCap?: number | undefined;
  /** From the grant on, unless it is renewed. No point in time: the object's clock is not the isolate's. */
  readonly livesMs: number;
  /** However often the hold is renewed, the call must be settled within this many ms of the grant. */
  readonly longestCallMs: number;
  /** What to do with a stream whose client has left. */
  readonly onDisconnect: "cancel" | "drain";
}

/** The tightest request limit and token limit over the three levels, for `x-ratelimit-*`. */
export interface Rates {
  readonly requests?: Rate;
  readonly tokens?: Rate;
}
export interface Rate {
  readonly limit: number;
  readonly remaining: number;
  /** Milliseconds until the window is empty again. */
  readonly resetMs: number;
}

/** Which target served a call; kept in the usage event. */
export interface ServedBy {
  readonly upstream: string;
  readonly model: string;
  readonly region: string | null;
}

/** How a call that was executed ended. */
export type CallOutcome = "completed" | "client_gone" | "stream_broken";

/**
 * The number of tries that upstreams may have executed and the tenant does not pay for; their cost is an operator loss.
 * 0: nothing was executed besides a try that is charged.
 */
export type LostTries = number;

/**
 * What was read of a running call, reported with each renewal of its hold. If the hold expires, this much is charged.
 */
export interface Progress {
  readonly reading: Reading;
  readonly servedBy: ServedBy;
  /** What the operator pays for this reading at the target that serves the call. */
  readonly costNanoUsd: number;
}

/**
 * Ends a hold with a charge of min(actual, held). Idempotent by call id. If the hold has already expired, it corrects
 * the charge once; an increase is limited by what balance and budgets leave.
 */
export interface Settlement {
  readonly callId: CallId;
  readonly outcome: CallOutcome;
  /** HTTP status sent to the client. */
  readonly status: number;
  readonly reading: Reading;
  readonly servedBy: ServedBy;
  /** What the operator pays for this usage at the target that served the call. */
  readonly costNanoUsd: number;
  readonly latencyMs: number;
  readonly firstByteMs: number | null;
  readonly lostTries: LostTries;
  /** Absent from a Worker of before. */
  readonly trace?: CallTrace;
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
  /** Absent from a Worker of before. */
  readonly trace?: CallTrace;
}

/** How a hold ended. Ending the same call again returns the same value. */
export interface HoldEnd {
  readonly state: "settled" | "released" | "expired" | "unknown";
  readonly chargedNanoUsd: number;
}

/** What a key gets that may make a free call (models, polls, its own state). */
export type Permission = Outcome<{
  keyId: KeyId;
  teamId: TeamId | null;
  accountId: AccountId;
  models: readonly string[] | null;
  rates: Rates;
  owned: readonly Owned[];
}>;

/**
 * The record of one finished call, sent from the outbox through the queue to D1. It contains no part of a prompt, a
 * completion or a key. `eventId` is the call id, so an event that is written twice counts once.
 *
 * A call that ended after its hold expired has a second event, `late`, with the id `<call id>.late`. Its quantities,
 * money and latency are differences to the first event and may be negative, so the sums over both are correct.
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
  /** Absent, as `detail` is, on events of before. */
  readonly country?: string | null;
  readonly detail?: CallDetail;
}

/**
 * The end of a call that could not be delivered to its account object. It goes through the queue, so that executed work
 * is still charged. Dropped after `QUEUED_END_LIFE_MS`: by then the hold's expiry has booked the call.
 */
export interface QueuedEnd {
  readonly account: AccountNumber;
  readonly endedAtMs: number;
  readonly end: CallEnd;
  /** Set if the call was admitted out of a lease: its hold may not be known yet. */
  readonly leased?: LeasedCall;
}
export type CallEnd =
  | { readonly kind: "settle"; readonly said: Settlement }
  | { readonly kind: "release"; readonly said: Release };

/** What a hold's row says of its call. */
export interface HeldCall {
  readonly callId: CallId;
  readonly endpoint: string;
  readonly model: string;
  readonly alias: string | null;
  readonly amountNanoUsd: number;
  readonly countedTokens: number;
  readonly outputCap: number | undefined;
  readonly prices: UnitPrices;
  readonly priceRule: string;
  readonly startedAtMs: number;
}

/** A call that was admitted out of a lease (lease.ts): all that its hold's row needs. */
export interface LeasedCall extends HeldCall {
  readonly lease: CallId;
  /** When it was admitted, counted from before the lease was asked for. */
  readonly offsetMs: number;
}

export const QUEUED_END_LIFE_MS = 24 * 3_600_000;

/** One queue message: events and alerts of one account. `shipped` confirms them to its object once they are in D1. */
export interface UsageMessage {
  readonly account: AccountNumber;
  readonly events: readonly UsageEvent[];
  /** Absent where there are none. */
  readonly alerts?: readonly Alert[];
  /** Absent from a Worker of before. */
  readonly gauges?: Gauges;
}

/** What an account's object says of itself with each message. */
export interface Gauges {
  readonly open_holds: number;
  /** In the outbox, beside this message's. */
  readonly waiting_events: number;
  readonly account_bytes: number;
}

/** Levels from narrowest to widest, the order in which refusals name them. */
export const LEVELS: readonly LimitLevel[] = ["key", "team", "account"];

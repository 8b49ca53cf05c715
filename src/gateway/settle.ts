/**
 * Ends a hold: by a charge for what was read off the answer, or by its release. The object answers each call id once
 * and for all, so both may be said again when an answer was lost.
 *
 * An end is not given up. It is repeated for as long as the platform allows background work, one at a time; an object
 * that has too much to do is left alone instead. What it could not be told goes by the queue. Should that fail too, the
 * hold expires, which charges what its last renewal carried.
 */
import type { CallOutcome, HoldEnd, LostTries, QueuedEnd, ServedBy } from "../core/account/hold.ts";
import { toHttp } from "../core/http-refusal.ts";
import type { AccountNumber } from "../core/ids.ts";
import { costOf } from "../core/pricing/prices.ts";
import type { Reading } from "../core/pricing/usage.ts";
import type { Refusal } from "../core/refusal.ts";

import { rowOf } from "../core/routing/routes.ts";
import { isOverloaded } from "./ask.ts";
import type { AdmittedCall } from "./call.ts";
import { logEnded } from "./call-log.ts";
import type { AccountPort, Ports } from "./ports.ts";
import { settledWithin, sleep } from "./wait.ts";

export interface Ending {
  readonly outcome: CallOutcome;
  readonly status: number;
  readonly reading: Reading;
  readonly servedBy: ServedBy;
  readonly firstByteAtMs: number | null;
  readonly lostTries: LostTries;
  /** When the client left, if it did: from then on the platform limits background work. */
  readonly leftAtMs: number | null;
}

/** What the operator pays for a usage: by the row of the target that served; lacking one, of the name called. */
export function operatorsCost(admitted: AdmittedCall, servedBy: ServedBy, { usage }: Reading, nowMs: number): number {
  const row = rowOf(admitted.routing, servedBy.model, nowMs) ?? admitted.route.row;
  return costOf(usage, row.costNanoUsd);
}

/** Charges the call. */
export async function settle(admitted: AdmittedCall, ending: Ending, ports: Ports): Promise<void> {
  const now = ports.now();
  const { outcome, status, reading, servedBy, firstByteAtMs, lostTries, leftAtMs } = ending;
  const latencyMs = now - admitted.startedAtMs;
  const said = {
    callId: admitted.hold.callId,
    outcome,
    status,
    reading,
    servedBy,
    costNanoUsd: operatorsCost(admitted, servedBy, reading, now),
    latencyMs,
    firstByteMs: firstByteAtMs === null ? null : firstByteAtMs - admitted.startedAtMs,
    lostTries,
  };
  await tell(admitted.caller.number, { kind: "settle", said }, leftAtMs ?? now, ports);
  if (reading.lowInput) {
    const { upstream, model } = servedBy;
    const inputTokens = reading.usage.input_tokens ?? 0;
    ports.log({ event: "input_figure_low", call: admitted.callId, upstream, model, input_tokens: inputTokens });
  }
  logEnded(admitted, { status, outcome, servedBy, reason: null, latencyMs }, ports);
}

/** Why a call is not charged, as it stands in reports. */
export interface NoCharge {
  readonly reason: string;
  /** HTTP status the client got, or would have. */
  readonly status: number;
}
export const failureOf = (refusal: Refusal): NoCharge => ({ reason: refusal.kind, status: toHttp(refusal).status });

/** What is booked of a call whose client left before there was a status. */
export const LEFT = { reason: "client_gone", status: 499 } as const;

/** Ends the hold of a call that failed: it costs the tenant nothing. */
export async function release(
  admitted: AdmittedCall,
  why: NoCharge,
  lostTries: LostTries,
  servedBy: ServedBy | null,
  ports: Ports,
): Promise<void> {
  const now = ports.now();
  const latencyMs = now - admitted.startedAtMs;
  const said = { callId: admitted.hold.callId, ...why, lostTries, servedBy, latencyMs };
  await tell(admitted.caller.number, { kind: "release", said }, now, ports);
  logEnded(admitted, { ...why, outcome: "failed", servedBy, latencyMs }, ports);
}

/** How long the object is told an end, ms. The platform stops background work 30 s after an answer or its client is gone. */
const TOLD_WITHIN_MS = 25_000;
/** What is left for that after a long drain, ms. */
const LEAST_TOLD_MS = 2_000;
/** Waits between words, ms: the first is for a broken stub, the last is repeated. */
const PAUSES_MS = [0, 50, 250, 1_000, 4_000] as const;
/** An object that says it is overloaded is left alone this long, ms, and so many times. */
const OVERLOADED_PAUSE_MS = 4_000;
const OVERLOADED_WORDS = 2;
/** The queue's own time, and how often it is tried. */
const QUEUED_WITHIN_MS = 10_000;
const QUEUE_PAUSE_MS = 500;

/** `sinceMs`: since when the platform counts. Never rejects. */
export async function tell(
  account: AccountNumber,
  end: QueuedEnd["end"],
  sinceMs: number,
  ports: Ports,
): Promise<void> {
  const endedAtMs = ports.now();
  const untilMs = Math.max(sinceMs + TOLD_WITHIN_MS, endedAtMs + LEAST_TOLD_MS);
  const call = end.said.callId;
  for (let words = 1, overloads = 0; ; words++) {
    const error = await sayOnce(ports.account(account), end, untilMs - ports.now());
    if (error === null) return;
    const overloaded = isOverloaded(error.cause);
    if (overloaded) overloads++;
    const pauseMs = overloaded ? OVERLOADED_PAUSE_MS : (PAUSES_MS[words - 1] ?? (PAUSES_MS.at(-1) as number));
    const jitteredMs = pauseMs * (1 + ports.random() / 2);
    const last = overloads >= OVERLOADED_WORDS || ports.now() + jitteredMs >= untilMs;
    ports.log({ event: "settlement_failed", call, error: String(error.cause), last });
    if (last) break;
    await sleep(jitteredMs);
  }
  await queue({ account, endedAtMs, end }, ports);
}

/** Null: it is done. A word that is not answered is not repeated: it may be slow in coming, but it is on its way. */
async function sayOnce(
  account: AccountPort,
  end: QueuedEnd["end"],
  withinMs: number,
): Promise<{ readonly cause: unknown } | null> {
  try {
    const word: Promise<HoldEnd> = end.kind === "settle" ? account.settle(end.said) : account.release(end.said);
    return (await settledWithin(word, withinMs)) ? null : { cause: "no answer in time" };
  } catch (cause) {
    return { cause };
  }
}

/** The last resort but the hold's expiry. */
async function queue(queued: QueuedEnd, ports: Ports): Promise<void> {
  const call = queued.end.said.callId;
  for (const last of [false, true]) {
    try {
      if (!(await settledWithin(ports.queueEnd(queued), QUEUED_WITHIN_MS))) throw new Error("no answer in time");
      ports.log({ event: "settlement_queued", call });
      return;
    } catch (error) {
      ports.log({ event: last ? "settlement_lost" : "settlement_not_queued", call, error: String(error) });
      if (!last) await sleep(QUEUE_PAUSE_MS);
    }
  }
}

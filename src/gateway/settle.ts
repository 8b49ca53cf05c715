/**
 * Ends a hold, by a charge for the usage that was read or by a release. The object ends each call id once, so both are
 * safe to repeat when an answer was lost.
 *
 * The end of a call is retried for as long as the platform allows background work, except at an overloaded object. Then
 * it goes to the queue. If the queue fails too, the hold expires, which charges what its last renewal reported.
 */
import { type CallTrace, countryIn } from "../core/account/call-trace.ts";
import type { CallOutcome, LostTries, ServedBy } from "../core/account/hold.ts";
import { toHttp } from "../core/http-refusal.ts";
import { costOf, type UnitPrices } from "../core/pricing/prices.ts";
import type { Reading } from "../core/pricing/usage.ts";
import type { Refusal } from "../core/refusal.ts";

import { rowOf } from "../core/routing/routes.ts";
import type { AdmittedCall } from "./call.ts";
import { logEnded } from "./call-log.ts";
import { tellEnd } from "./leases.ts";
import type { Ports } from "./ports.ts";

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

/** What the usage costs the operator: the price of the target that served, else of the model that was called. */
export const operatorsCost = (admitted: AdmittedCall, servedBy: ServedBy, { usage }: Reading, nowMs: number): number =>
  costOf(usage, unitCosts(admitted, servedBy, nowMs));

const unitCosts = ({ routing, route }: AdmittedCall, { model }: ServedBy, nowMs: number): UnitPrices =>
  (rowOf(routing, model, nowMs) ?? route.row).costNanoUsd;

const traceOf = ({ call, request, tries }: AdmittedCall, costs: UnitPrices | null): CallTrace => ({
  stream: call.streams,
  country: countryIn(request.headers),
  costs,
  tries: [...tries],
});

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
    trace: traceOf(admitted, unitCosts(admitted, servedBy, now)),
  };
  await tellEnd(admitted, { kind: "settle", said }, leftAtMs ?? now, ports);
  if (reading.lowInput) {
    const { upstream, model } = servedBy;
    const inputTokens = reading.usage.input_tokens ?? 0;
    ports.log({ event: "input_figure_low", call: admitted.callId, upstream, model, input_tokens: inputTokens });
  }
  logEnded(admitted, { status, outcome, servedBy, reason: null, latencyMs }, ports);
}

/** Why a call is not charged, as reports show it. */
export interface NoCharge {
  readonly reason: string;
  /** HTTP status that the client got, or would have got. */
  readonly status: number;
}
export const failureOf = (refusal: Refusal): NoCharge => ({ reason: refusal.kind, status: toHttp(refusal).status });

/** For a call whose client left before there was a status. */
export const LEFT = { reason: "client_gone", status: 499 } as const;

/** Releases the hold of a failed call: it costs the tenant nothing. */
export async function release(
  admitted: AdmittedCall,
  why: NoCharge,
  lostTries: LostTries,
  servedBy: ServedBy | null,
  ports: Ports,
): Promise<void> {
  const now = ports.now();
  const latencyMs = now - admitted.startedAtMs;
  const said = { callId: admitted.hold.callId, ...why, lostTries, servedBy, latencyMs, trace: traceOf(admitted, null) };
  await tellEnd(admitted, { kind: "release", said }, now, ports);
  logEnded(admitted, { ...why, outcome: "failed", servedBy, latencyMs }, ports);
}

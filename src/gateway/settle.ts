/**
 * Ends a hold: by a charge for what was read off the answer, or by its release. The object answers each call id once
 * and for all, so both may be said again when an answer was lost.
 */
import type { HoldEnd, LostTries, Outcome, ServedBy } from "../core/hold.ts";
import { costOf } from "../core/prices.ts";
import type { Refusal } from "../core/refusal.ts";
import { toHttp } from "../core/refusal.ts";
import { rowOf } from "../core/routes.ts";
import type { Reading } from "../core/usage.ts";
import { ask, isOverloaded } from "./ask.ts";
import { logEnded } from "./call-log.ts";
import type { AccountPort, Ports } from "./ports.ts";
import type { AdmittedCall } from "./serve.ts";

export interface Ending {
  readonly outcome: Outcome;
  readonly status: number;
  readonly reading: Reading;
  readonly servedBy: ServedBy;
  readonly firstByteAtMs: number | null;
  readonly lostTries: LostTries;
}

/** Charges the call. The operator's cost is the row of the target that served; lacking one, of the name called. */
export async function settle(admitted: AdmittedCall, ending: Ending, ports: Ports): Promise<void> {
  const now = ports.now();
  const costRow = rowOf(admitted.routing, ending.servedBy.model, now) ?? admitted.route.row;
  await say(admitted, ports, (account) =>
    account.settle({
      callId: admitted.hold.callId,
      outcome: ending.outcome,
      status: ending.status,
      reading: ending.reading,
      servedBy: ending.servedBy,
      costNanoUsd: costOf(ending.reading.usage, costRow.costNanoUsd),
      latencyMs: now - admitted.startedAtMs,
      firstByteMs: ending.firstByteAtMs === null ? null : ending.firstByteAtMs - admitted.startedAtMs,
      lostTries: ending.lostTries,
    }),
  );
  if (ending.reading.lowInput) {
    const { upstream, model } = ending.servedBy;
    const inputTokens = ending.reading.usage.input_tokens ?? 0;
    ports.log({ event: "input_figure_low", call: admitted.callId, upstream, model, input_tokens: inputTokens });
  }
  logEnded(admitted, { ...ending, reason: null, latencyMs: now - admitted.startedAtMs }, ports);
}

/** Why a call is not charged, as it stands in reports. */
export interface NoCharge {
  readonly reason: string;
  /** HTTP status the client got, or would have. */
  readonly status: number;
}
export const failureOf = (refusal: Refusal): NoCharge => ({ reason: refusal.kind, status: toHttp(refusal).status });

/** Ends the hold of a call that failed: it costs the tenant nothing. */
export async function release(
  admitted: AdmittedCall,
  why: NoCharge,
  lostTries: LostTries,
  servedBy: ServedBy | null,
  ports: Ports,
): Promise<void> {
  const latencyMs = ports.now() - admitted.startedAtMs;
  await say(admitted, ports, (account) =>
    account.release({ callId: admitted.hold.callId, ...why, lostTries, servedBy, latencyMs }),
  );
  logEnded(admitted, { ...why, outcome: "failed", servedBy, latencyMs }, ports);
}

/**
 * Waits before saying it again, ms. After the last the hold expires, and the loss is the operator's. An overloaded object
 * is told once more after the last of them: it is left alone until then, and yet a charge is not given up lightly.
 */
const PAUSES_MS = [50, 250, 1_000, 4_000] as const;

async function say(
  admitted: AdmittedCall,
  ports: Ports,
  word: (account: AccountPort) => Promise<HoldEnd>,
): Promise<void> {
  for (let pauses: readonly number[] = PAUSES_MS; ; ) {
    try {
      await ask(ports, admitted.caller.number, word);
      return;
    } catch (error) {
      const call = admitted.hold.callId;
      const [pauseMs, ...rest] = isOverloaded(error) ? pauses.slice(-1) : pauses;
      ports.log({ event: "settlement_failed", call, error: String(error), last: pauseMs === undefined });
      if (pauseMs === undefined) return;
      await new Promise((resume) => setTimeout(resume, pauseMs));
      pauses = rest;
    }
  }
}

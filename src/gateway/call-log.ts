/** One line of the operator's log for each call: who, what, where, how it ended. Ids and numbers only. */

import type { ServedBy } from "../core/account/hold.ts";
import { toHttp } from "../core/http-refusal.ts";
import type { Refusal } from "../core/refusal.ts";
import type { AdmittedCall, IdentifiedCall, ReceivedCall } from "./call.ts";
import type { Ports } from "./ports.ts";

/** How an admitted call ended. */
export interface Ended {
  readonly status: number;
  readonly outcome: string;
  readonly reason: string | null;
  readonly servedBy: ServedBy | null;
  readonly latencyMs: number;
}

export function logEnded({ callId, caller, endpoint, route }: AdmittedCall, ended: Ended, ports: Ports): void {
  ports.log({
    event: "call",
    call: callId,
    account: caller.account,
    key: caller.keyId,
    endpoint: endpoint.id,
    model: route.model,
    status: ended.status,
    outcome: ended.outcome,
    reason: ended.reason,
    upstream: ended.servedBy?.upstream ?? null,
    target_model: ended.servedBy?.model ?? null,
    region: ended.servedBy?.region ?? null,
    latency_ms: ended.latencyMs,
  });
}

/** Logs a call that was refused before it got a hold. What it asked for stays out: it may be anything. */
export function logRefused(refused: ReceivedCall | IdentifiedCall, refusal: Refusal, ports: Ports): void {
  const caller = "caller" in refused ? refused.caller : null;
  ports.log({
    event: "call_refused",
    call: refused.callId,
    account: caller?.account ?? null,
    key: caller?.keyId ?? null,
    endpoint: refused.endpoint.id,
    status: toHttp(refusal).status,
    reason: refusal.kind,
  });
}

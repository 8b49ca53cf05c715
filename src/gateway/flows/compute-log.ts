/** One line of the operator's log for each call of the compute API and each request on a service path. */
import type { CallId } from "../../core/ids.ts";
import type { Caller, Ports } from "../ports.ts";

/** `reason`: the kind of refusal; null: it was served. */
export interface ComputeEnd {
  readonly callId: CallId;
  readonly caller: Caller | null;
  readonly endpoint: string;
  readonly status: number;
  readonly reason: string | null;
  readonly startedAtMs: number;
}

export function logCompute(
  { callId, caller, endpoint, status, reason, startedAtMs }: ComputeEnd,
  ports: Pick<Ports, "log" | "now">,
): void {
  ports.log({
    event: reason === null ? "call" : "call_refused",
    call: callId,
    account: caller?.account ?? null,
    key: caller?.keyId ?? null,
    endpoint,
    status,
    reason,
    latency_ms: ports.now() - startedAtMs,
  });
}

/**
 * Records a job that the upstream accepted in the account object; only then does the tenant learn its id. The hold is
 * not settled here: it lives on with the job.
 */

import { parseObject } from "../../core/formats/json-fields.ts";
import { rowOf } from "../../core/routing/routes.ts";
import { readAcknowledgement } from "../../core/video/job-document.ts";
import type { NewJob } from "../../core/video/jobs.ts";
import { ask } from "../account-client.ts";
import type { Served } from "../attempt.ts";
import type { AdmittedCall } from "../call.ts";
import { logEnded } from "../call-log.ts";
import { refuse } from "../http/responses.ts";
import type { Ports } from "../ports.ts";
import { retry } from "../wait.ts";

const ACCEPTED = 202;
/** Waits before repeating the record of a job, ms. */
const PAUSES_MS = [50, 250, 1_000];

/**
 * A job that could not be recorded is lost to the tenant. Its hold expires as the operator's loss, and the refusal does
 * not invite a repeat.
 */
export async function submitted(
  admitted: AdmittedCall,
  served: Served & { kind: "document" },
  headers: Headers,
  ports: Ports,
): Promise<Response> {
  const { callId, endpoint, route, startedAtMs } = admitted;
  const { servedBy } = served;
  const acknowledged = readAcknowledgement(parseObject(new TextDecoder().decode(served.bytes ?? undefined)));
  const job = acknowledged && jobOf(admitted, acknowledged.id, served, ports);
  if (!job || !(await record(admitted, job, ports))) {
    return refuse({ kind: "outcome_unknown" }, callId, endpoint.errors);
  }
  const latencyMs = ports.now() - startedAtMs;
  logEnded(admitted, { status: ACCEPTED, outcome: "submitted", reason: null, servedBy, latencyMs }, ports);
  const body = { id: job.id, status: "processing", model: acknowledged.model ?? route.model };
  return new Response(JSON.stringify(body), { status: ACCEPTED, headers });
}

function jobOf(admitted: AdmittedCall, id: string, { servedBy }: Served, ports: Ports): NewJob | null {
  const { call, callId, measured, route, routing } = admitted;
  if (!call.jobUnit || !measured.estimate) return null;
  const costRow = rowOf(routing, servedBy.model, ports.now()) ?? route.row;
  return {
    id,
    callId,
    upstream: servedBy.upstream,
    targetModel: servedBy.model,
    region: servedBy.region,
    unit: call.jobUnit,
    estimate: measured.estimate,
    costNanoUsd: costRow.costNanoUsd[call.jobUnit] ?? 0,
  };
}

async function record({ caller, callId }: AdmittedCall, job: NewJob, ports: Ports): Promise<boolean> {
  const begin = () => ask(ports, caller.number, (account) => account.begin(job));
  const pauseAfter = (error: unknown, tries: number) => {
    const pauseMs = PAUSES_MS[tries - 1] ?? null;
    ports.log({ event: "job_not_recorded", call: callId, job: job.id, error: String(error), last: pauseMs === null });
    return pauseMs;
  };
  return retry(begin, pauseAfter).then(
    () => true,
    () => false,
  );
}

/**
 * What happens to a job in the account's rows. A job begins when its submission is acknowledged and ends with the first
 * poll that reports an end; later reports change nothing. All runs in the caller's transaction. When and how a job ends
 * is decided in core/video/jobs.ts.
 */

import type { CallAccess } from "../../core/account/call-access.ts";
import type { FreeReach } from "../../core/account/free-calls.ts";
import type { KeyDigest } from "../../core/ids.ts";
import { type Outcome, refused } from "../../core/outcome.ts";
import { toUsd } from "../../core/pricing/money.ts";
import { costOf } from "../../core/pricing/prices.ts";
import type { Refusal } from "../../core/refusal.ts";
import {
  DEADLINE_SLACK_MS,
  type Job,
  type JobAnswer,
  type NewJob,
  nextPollMs,
  stepAfter,
} from "../../core/video/jobs.ts";
import { authenticate, forbid } from "./admission.ts";
import { expire } from "./expiry.ts";
import { release, settle } from "./hold-lifecycle.ts";
import type { AccountState } from "./state.ts";

/** The status of the tenant's submission, recorded in its one usage event. */
const ACCEPTED = 202;

/** The hold of the call lives on with the job, until some time after the job's deadline. */
export function beginJob(state: AccountState, job: NewJob, nowMs: number, lifeMs: number): void {
  const hold = state.holds.find(job.callId);
  if (!hold) throw new Error(`no hold pays for the job of call ${job.callId}`);
  const known = state.jobs.find(job.id);
  if (known?.callId === job.callId) return;
  if (known) {
    // The service merged two submissions into one job; the first submission's hold pays for it.
    release(state, released(job, "job_known", nowMs - hold.startedAtMs), nowMs);
    return;
  }
  const deadlineMs = nowMs + lifeMs;
  const submission = { model: hold.model, submittedAtMs: hold.admittedAtMs, deadlineMs };
  state.jobs.insert(job, submission, nextPollMs(nowMs, nowMs));
  if (hold.state === "open") state.holds.renew(job.callId, deadlineMs + DEADLINE_SLACK_MS, null);
}

interface AskedJob {
  readonly digest: KeyDigest;
  readonly id: string;
  readonly access: CallAccess;
  readonly reach: FreeReach;
}

/**
 * Finds the account's own job for a key, and counts the request as far as it reaches. Foreign and unknown ids get the
 * same refusal: neither is in the table.
 */
export function findJob(
  state: AccountState,
  { digest, id, access, reach }: AskedJob,
  nowMs: number,
): Outcome<{ job: Job }> {
  const found = authenticate(state, digest, nowMs);
  if (!found.ok) return found;
  const job = state.jobs.findKept(id, nowMs);
  const barred = job ? forbid(found.caller, access, job.model) : NO_SUCH_JOB;
  const refusal = state.takeFree(found.caller, barred ? "local" : reach, nowMs) ?? barred;
  return job && !refusal ? { ok: true, job } : refused(refusal ?? NO_SUCH_JOB);
}

export const NO_SUCH_JOB: Refusal = { kind: "id_not_found", what: "video job" };

/** What was done about a job after a poll, for the operator's log. */
export interface Concluded {
  /** The job after the change. */
  readonly job: Job;
  readonly did: "nothing" | "charged" | "charged_own_count" | "released" | "expired";
  readonly reason: string | null;
}

/** Applies the outcome of a poll. Undefined if the job's row is gone. */
export function concludeJob(state: AccountState, id: string, answer: JobAnswer, nowMs: number): Concluded | undefined {
  const job = state.jobs.find(id);
  if (!job) return undefined;
  const done = carryOut(state, job, answer, nowMs);
  state.jobs.pollNext(id, nextPollMs(job.submittedAtMs, nowMs));
  return { job: state.jobs.find(id) ?? job, ...done };
}

function carryOut(state: AccountState, job: Job, answer: JobAnswer, nowMs: number): Omit<Concluded, "job"> {
  const step = stepAfter(job, answer, nowMs);
  const latencyMs = nowMs - job.submittedAtMs;
  switch (step.kind) {
    case "none":
      return { did: "nothing", reason: null };
    case "charge": {
      const { chargedNanoUsd } = settle(
        state,
        {
          callId: job.callId,
          outcome: "completed",
          status: ACCEPTED,
          reading: step.reading,
          servedBy: servedBy(job),
          costNanoUsd: costOf(step.reading.usage, { [job.unit]: job.costNanoUsd }),
          latencyMs,
          firstByteMs: null,
          lostTries: 0,
          trace: { stream: false, country: null, costs: { [job.unit]: job.costNanoUsd }, tries: [] },
        },
        nowMs,
      );
      state.jobs.end(job.id, { state: "completed", tokens: step.tokens, chargedNanoUsd });
      tellCompleted(state, job, chargedNanoUsd, nowMs);
      return { did: step.reading.source === "exact" ? "charged" : "charged_own_count", reason: null };
    }
    case "release":
      release(state, released(job, step.code, latencyMs), nowMs);
      state.jobs.end(job.id, { state: "failed", tokens: null, chargedNanoUsd: 0 });
      // One that was given up was told of then.
      if (job.state === "running") tellFailed(state, job, nowMs);
      return { did: "released", reason: step.code };
    case "expire": {
      const hold = state.holds.find(job.callId);
      if (hold?.state === "open") expire(state, hold, step.reason, nowMs, servedBy(job));
      state.jobs.end(job.id, { state: "overdue", tokens: null, chargedNanoUsd: 0 });
      tellFailed(state, job, nowMs);
      return { did: "expired", reason: step.reason };
    }
  }
}

function tellCompleted(state: AccountState, { id: job, model }: Job, chargedNanoUsd: number, nowMs: number): void {
  const data = { job, model, charged_usd: toUsd(chargedNanoUsd) };
  state.alerts.tell(state.tenants.account().id, { type: "job.completed", data }, nowMs);
}

const tellFailed = (state: AccountState, { id: job, model }: Job, nowMs: number): void =>
  state.alerts.tell(state.tenants.account().id, { type: "job.failed", data: { job, model } }, nowMs);

const servedBy = (job: Pick<NewJob, "upstream" | "targetModel" | "region">) => ({
  upstream: job.upstream,
  model: job.targetModel,
  region: job.region,
});

/** A failed job is never billed, neither here nor upstream (contract, "Errors", rule 5). */
const released = (job: NewJob, reason: string, latencyMs: number) => ({
  callId: job.callId,
  status: ACCEPTED,
  reason,
  lostTries: 0,
  servedBy: servedBy(job),
  latencyMs,
});

/**
 * Video: what is particular to video jobs, their requests, quotes, rates, errors and documents. Pure; the account
 * object polls and the gateway submits.
 *
 * This file: when jobs are polled and how they end. A job is work that is accepted now and
 * finished later. The account object polls it at the upstream whether or not the tenant does. A job ends once:
 * completed (charged), failed (released) or overdue. A failed poll (silence, 5xx, no usable answer) says nothing about
 * the job, and neither does "unknown" before the deadline. At the deadline, a job without a known end is ended by its
 * hold's expiry: the tenant pays nothing and the amount is the operator's loss. If the job completes later, it is
 * charged then, once. The caller supplies the time.
 */
import type { CallId } from "../ids.ts";
import type { Estimate } from "../meters/estimate.ts";
import type { Outcome } from "../outcome.ts";
import type { Reading } from "../pricing/usage.ts";
import type { JobNews } from "./job-document.ts";
import type { VideoUnit } from "./rates.ts";

/** The upstream is asked about one job at most once in this interval, ms. */
export const POLL_SHARED_MS = 2_000;
/** A poll without an answer after this has failed, ms. */
export const POLL_TIMEOUT_MS = 10_000;
/** A tenant's poll waits no longer than this for the upstream, ms: less than the pipeline waits for the object. */
export const VIEW_PATIENCE_MS = 4_000;
/** A job's hold outlives its deadline by this much, so that the job's own end comes first, ms. */
export const DEADLINE_SLACK_MS = 600_000;
/** How long after submission a tenant can ask for a job, ms. */
export const JOB_KEPT_MS = 7 * 24 * 3_600_000;

const SOONEST_POLL_MS = 5_000;
const LATEST_POLL_MS = 30_000;
/** The pause between polls is this fraction of the job's age, so longer jobs are polled less often. */
const PAUSE_PER_AGE = 1 / 12;

/** The time of the next poll if the job is polled now. */
export function nextPollMs(submittedAtMs: number, nowMs: number): number {
  const age = Math.max(0, nowMs - submittedAtMs);
  return nowMs + Math.min(LATEST_POLL_MS, Math.max(SOONEST_POLL_MS, Math.round(age * PAUSE_PER_AGE)));
}

/** A job as its submission was acknowledged. Crosses RPC as a value. */
export interface NewJob {
  /** The service's id. */
  readonly id: string;
  /** The call that submitted it, whose hold pays for it. */
  readonly callId: CallId;
  readonly upstream: string;
  readonly targetModel: string;
  readonly region: string | null;
  readonly unit: VideoUnit;
  readonly estimate: Estimate;
  /** What the operator pays per million tokens at the target that took it; fixed with the tenant's prices. */
  readonly costNanoUsd: number;
}

/** A recorded job. */
export interface Job extends NewJob {
  /** The model as the tenant named it. */
  readonly model: string;
  readonly submittedAtMs: number;
  readonly deadlineMs: number;
  readonly state: JobState;
  /** Tokens charged; null until completed. */
  readonly tokens: number | null;
  readonly chargedNanoUsd: number;
}
export type JobState = "running" | "completed" | "failed" | "overdue";

/** The result of a poll. `unknown`: the upstream knows no such job. `nothing`: no usable answer. */
export type JobAnswer =
  | { readonly kind: "news"; readonly news: JobNews; readonly region: string | null }
  | { readonly kind: "unknown" }
  | { readonly kind: "nothing" };

/** What to do with a job after a poll. */
export type JobStep =
  | { readonly kind: "none" }
  | { readonly kind: "charge"; readonly tokens: number; readonly reading: Reading }
  | { readonly kind: "release"; readonly code: string }
  | { readonly kind: "expire"; readonly reason: "job_unknown" | "job_overdue" };

/** What to do after a poll's answer. A second answer finds the job ended and does nothing. */
export function stepAfter(job: Job, answer: JobAnswer, nowMs: number): JobStep {
  if (job.state !== "running" && job.state !== "overdue") return { kind: "none" };
  const news = answer.kind === "news" ? answer.news : undefined;
  if (news?.kind === "completed") {
    const tokens = news.tokens ?? job.estimate.minTokens;
    const source = news.tokens === null ? "own_count" : "exact";
    return { kind: "charge", tokens, reading: { source, usage: { [job.unit]: tokens } } };
  }
  if (news?.kind === "failed") return { kind: "release", code: news.code };
  if (job.state === "overdue" || nowMs < job.deadlineMs) return { kind: "none" };
  return { kind: "expire", reason: answer.kind === "unknown" ? "job_unknown" : "job_overdue" };
}

/** What a tenant sees of a job: the document, or why there is none. */
export type JobView = Outcome<{ document: Record<string, unknown>; region: string | null }>;

/**
 * Polls jobs at the upstream, for the alarm and for tenants alike. There is one poll at a time per job, and its answer
 * is shared for two seconds. The outcome is written before it is returned.
 *
 * No state is kept across a poll: the transaction that applies the answer reads the job again. So a poll that a restart
 * cuts off, or that is answered twice, changes nothing.
 */

import { refused } from "../../core/outcome.ts";
import type { Refusal } from "../../core/refusal.ts";
import { showJob } from "../../core/video/job-document.ts";
import {
  type Job,
  type JobAnswer,
  type JobView,
  nextPollMs,
  POLL_SHARED_MS,
  VIEW_PATIENCE_MS,
} from "../../core/video/jobs.ts";
import { log } from "../log.ts";
import { type Concluded, concludeJob, NO_SUCH_JOB } from "./job-rules.ts";
import type { Store } from "./store.ts";

/** Asks an upstream about one of its jobs. Never rejects. */
export type AskUpstream = (job: Job) => Promise<JobAnswer>;

/** Jobs polled by one alarm, and how many of them at once. */
const POLLED_PER_ALARM = 12;
const POLLED_AT_ONCE = 4;
/** Shared answers kept. Beyond it, answers too old to share are dropped. */
const SWEEP_AT = 1_000;

const NO_NEWS: Refusal = { kind: "no_healthy_upstream", retryAfterMs: POLL_SHARED_MS };

interface Shared {
  readonly sinceMs: number;
  readonly view: Promise<JobView>;
  pending: boolean;
}

export class JobPolls {
  readonly #store: Store;
  readonly #ask: AskUpstream;
  readonly #shared = new Map<string, Shared>();

  constructor(store: Store, ask: AskUpstream) {
    this.#store = store;
    this.#ask = ask;
  }

  /** Whether a job can be shown without asking the upstream. */
  knows(id: string, nowMs: number): boolean {
    const shared = this.#shared.get(id);
    return shared !== undefined && (shared.pending || isFresh(shared, nowMs));
  }

  /** The job as it is now, or as it was at most two seconds ago. */
  view(job: Job): Promise<JobView> {
    const nowMs = Date.now();
    const shared = this.#shared.get(job.id);
    if (shared && this.knows(job.id, nowMs)) return shared.view;
    if (this.#shared.size >= SWEEP_AT) this.#sweep(nowMs);
    // Moves the job's next poll, so that the alarm does not ask a second time.
    this.#store.transact((state) => state.jobs.pollNext(job.id, nextPollMs(job.submittedAtMs, nowMs)));
    const mine: Shared = { sinceMs: nowMs, view: this.#poll(job), pending: true };
    this.#shared.set(job.id, mine);
    const over = () => {
      mine.pending = false;
    };
    mine.view.then(over, over);
    return mine.view;
  }

  /** `view` for a tenant, who waits less long than a poll may take. The poll's outcome is written all the same. */
  viewSoon(job: Job): Promise<JobView> {
    const late = Promise.withResolvers<JobView>();
    const timer = setTimeout(() => late.resolve(refused(NO_NEWS)), VIEW_PATIENCE_MS);
    return Promise.race([this.view(job), late.promise]).finally(() => clearTimeout(timer));
  }

  /** Polls the jobs that are due. Called by the alarm. */
  async pollDue(): Promise<void> {
    const due = [...(this.#store.transact(({ jobs }, nowMs) => jobs.due(nowMs, POLLED_PER_ALARM)) ?? [])];
    const inTurn = async () => {
      for (let job = due.shift(); job; job = due.shift()) await this.view(job);
    };
    await Promise.all(Array.from({ length: POLLED_AT_ONCE }, inTurn));
  }

  async #poll(job: Job): Promise<JobView> {
    const answer = await this.#ask(job);
    const concluded = this.#store.transact((state, nowMs) => concludeJob(state, job.id, answer, nowMs));
    if (!concluded) return refused(NO_SUCH_JOB);
    report(concluded);
    return viewOf(concluded.job, answer);
  }

  #sweep(nowMs: number): void {
    for (const [id, { pending, sinceMs }] of this.#shared) {
      if (!pending && !isFresh({ sinceMs }, nowMs)) this.#shared.delete(id);
    }
  }
}

/** A poll dated in the future was made before the clock stepped back, so it is not fresh. */
const isFresh = ({ sinceMs }: Pick<Shared, "sinceMs">, nowMs: number): boolean =>
  sinceMs <= nowMs && nowMs - sinceMs < POLL_SHARED_MS;

function viewOf(job: Job, answer: JobAnswer): JobView {
  if (answer.kind === "unknown" && job.state !== "running") return refused(NO_SUCH_JOB);
  // A failed poll tells nothing about the job; ask again.
  if (answer.kind !== "news") return refused(NO_NEWS);
  const { tokens, chargedNanoUsd, unit } = job;
  const charged = job.state === "completed" && tokens !== null ? { tokens, chargedNanoUsd, unit } : null;
  return { ok: true, document: showJob(answer.news, job.id, charged), region: answer.region };
}

/** Logs outcomes that the operator may have to look into. */
function report({ job, did, reason }: Concluded): void {
  if (did !== "expired" && did !== "charged_own_count") return;
  log({
    event: did === "expired" ? "job_expired" : "job_usage_unreadable",
    call: job.callId,
    job: job.id,
    upstream: job.upstream,
    model: job.targetModel,
    reason,
  });
}

/**
 * Job rows: work that an upstream has accepted for this account, found by the service's id. The row also proves that
 * the account owns that id. The time of a job's next poll is kept in memory only: it follows from the job's age, and
 * after a restart every running job is polled at once.
 */

import type { CallId } from "../../../core/ids.ts";
import { JOB_KEPT_MS, type Job, type JobState, type NewJob } from "../../../core/video/jobs.ts";
import type { VideoUnit } from "../../../core/video/rates.ts";
import type { Sql } from "../schema.ts";

type StoredJob = {
  id: string;
  call_id: string;
  model: string;
  upstream: string;
  target_model: string;
  region: string | null;
  unit: string;
  least_tokens: number;
  most_tokens: number;
  cost_nano_usd: number;
  submitted_at_ms: number;
  deadline_ms: number;
  state: string;
  tokens: number | null;
  charged_nano_usd: number;
};

/** What a job takes from the hold that pays for it. */
export interface Submission {
  readonly model: string;
  readonly submittedAtMs: number;
  readonly deadlineMs: number;
}

/** How a job ended. */
export interface JobEnd {
  readonly state: Exclude<JobState, "running">;
  readonly tokens: number | null;
  readonly chargedNanoUsd: number;
}

export class Jobs {
  readonly #sql: Sql;
  /** When each running job is polled next. */
  readonly #nextPollMs = new Map<string, number>();

  constructor(sql: Sql, nowMs: number) {
    this.#sql = sql;
    for (const { id } of sql.exec<{ id: string }>("SELECT id FROM jobs WHERE state = 'running'")) {
      this.#nextPollMs.set(id, nowMs);
    }
  }

  find(id: string): Job | undefined {
    const [stored] = this.#sql.exec<StoredJob>("SELECT * FROM jobs WHERE id = ?", id).toArray();
    return stored && toJob(stored);
  }

  /** The same, for as long as a tenant can ask for it. */
  findKept(id: string, nowMs: number): Job | undefined {
    const job = this.find(id);
    return job && job.submittedAtMs > nowMs - JOB_KEPT_MS ? job : undefined;
  }

  insert(job: NewJob, { model, submittedAtMs, deadlineMs }: Submission, firstPollMs: number): void {
    this.#sql.exec(
      `INSERT INTO jobs (id, call_id, model, upstream, target_model, region, unit, least_tokens, most_tokens,
         cost_nano_usd, submitted_at_ms, deadline_ms, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'running')`,
      job.id,
      job.callId,
      model,
      job.upstream,
      job.targetModel,
      job.region,
      job.unit,
      job.estimate.minTokens,
      job.estimate.maxTokens,
      job.costNanoUsd,
      submittedAtMs,
      deadlineMs,
    );
    this.#nextPollMs.set(job.id, firstPollMs);
  }

  end(id: string, { state, tokens, chargedNanoUsd }: JobEnd): void {
    this.#sql.exec(
      "UPDATE jobs SET state = ?, tokens = ?, charged_nano_usd = ? WHERE id = ?",
      state,
      tokens,
      chargedNanoUsd,
      id,
    );
    this.#nextPollMs.delete(id);
  }

  /** Sets when a running job is polled next. */
  pollNext(id: string, atMs: number): void {
    if (this.#nextPollMs.has(id)) this.#nextPollMs.set(id, atMs);
  }

  /** Running jobs whose poll is due, the longest due first. */
  due(nowMs: number, limit: number): readonly Job[] {
    return [...this.#nextPollMs]
      .filter(([, atMs]) => atMs <= nowMs)
      .sort(([, a], [, b]) => a - b)
      .slice(0, limit)
      .flatMap(([id]) => this.find(id) ?? []);
  }

  runningAt(upstream: string): number {
    return this.#sql
      .exec<{ n: number }>("SELECT count(*) AS n FROM jobs WHERE state = 'running' AND upstream = ?", upstream)
      .one().n;
  }

  nextDueMs(): number | null {
    return this.#nextPollMs.size === 0 ? null : Math.min(...this.#nextPollMs.values());
  }

  /** When the submissions since then were admitted: those that became jobs and those still under way. */
  submissions(endpoint: string, sinceMs: number): readonly number[] {
    return this.#sql
      .exec<{ at: number }>(
        `SELECT submitted_at_ms AS at FROM jobs WHERE submitted_at_ms > ?
         UNION ALL
         SELECT admitted_at_ms AS at FROM holds WHERE open = 1 AND endpoint = ? AND admitted_at_ms > ?
           AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.call_id = holds.call_id)`,
        sinceMs,
        endpoint,
        sinceMs,
      )
      .toArray()
      .map(({ at }) => at);
  }

  /** Deletes at most `limit` ended jobs that tenants can no longer ask for. */
  prune(nowMs: number, limit: number): void {
    this.#sql.exec(
      `DELETE FROM jobs WHERE id IN
         (SELECT id FROM jobs WHERE submitted_at_ms <= ? AND state <> 'running' ORDER BY submitted_at_ms LIMIT ?)`,
      nowMs - JOB_KEPT_MS,
      limit,
    );
  }

  nextPruneMs(): number | null {
    const { at } = this.#sql
      .exec<{ at: number | null }>("SELECT min(submitted_at_ms) AS at FROM jobs WHERE state <> 'running'")
      .one();
    return at === null ? null : at + JOB_KEPT_MS;
  }
}

function toJob(stored: StoredJob): Job {
  return {
    id: stored.id,
    callId: stored.call_id as CallId,
    model: stored.model,
    upstream: stored.upstream,
    targetModel: stored.target_model,
    region: stored.region,
    unit: stored.unit as VideoUnit,
    estimate: { minTokens: stored.least_tokens, maxTokens: stored.most_tokens },
    costNanoUsd: stored.cost_nano_usd,
    submittedAtMs: stored.submitted_at_ms,
    deadlineMs: stored.deadline_ms,
    state: stored.state as JobState,
    tokens: stored.tokens,
    chargedNanoUsd: stored.charged_nano_usd,
  };
}

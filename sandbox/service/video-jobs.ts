/**
 * Video jobs. A job's end is decided when it is made, and shown when the clock gets there. Each account has a limit of
 * submissions a minute.
 */
import type { Usage } from "../usage.ts";

const WINDOW_MS = 60_000;

/** A job as it was accepted. */
export interface VideoJob {
  readonly id: string;
  readonly account: string;
  readonly model: string;
  readonly region: string;
  readonly callId: number;
  readonly createdMs: number;
  /** Until then it is queued. */
  readonly startsMs: number;
  /** Until then it is processing. */
  readonly endsMs: number;
  /** What it will have used; nothing if it fails. */
  readonly usage: Usage;
  /** The job's object after its end, as JSON, without what depends on the poll. */
  readonly outcome: string;
}

export class VideoJobs {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Milliseconds to wait if the account has submitted too often. */
  add(job: VideoJob, mostPerWindow: number): number | null {
    const recent = this.#sql
      .exec<{ created_ms: number }>(
        "SELECT created_ms FROM video_jobs WHERE account = ? AND created_ms > ? ORDER BY created_ms DESC LIMIT ?",
        job.account,
        job.createdMs - WINDOW_MS,
        mostPerWindow,
      )
      .toArray();
    const oldest = recent.at(-1);
    if (oldest && recent.length >= mostPerWindow) return oldest.created_ms + WINDOW_MS - job.createdMs;
    this.#sql.exec(
      "INSERT INTO video_jobs (id, account, created_ms, ends_ms, record) VALUES (?, ?, ?, ?, ?)",
      job.id,
      job.account,
      job.createdMs,
      job.endsMs,
      JSON.stringify(job),
    );
    return null;
  }

  /** Null: unknown, or another account's. */
  read(id: string, account: string): VideoJob | null {
    const [row] = this.#sql
      .exec<{ record: string }>("SELECT record FROM video_jobs WHERE id = ? AND account = ?", id, account)
      .toArray();
    return row ? (JSON.parse(row.record) as VideoJob) : null;
  }

  /** Jobs that have ended since the last call of this method. */
  takeEnded(nowMs: number): VideoJob[] {
    return this.#sql
      .exec<{ record: string }>(
        "UPDATE video_jobs SET logged = 1 WHERE logged = 0 AND ends_ms <= ? RETURNING record",
        nowMs,
      )
      .toArray()
      .map(({ record }) => JSON.parse(record) as VideoJob);
  }
}

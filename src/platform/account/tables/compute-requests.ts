/** Compute calls of each key, counted by the second and durable: the limit of a minute is exact over restarts. */
import type { KeyId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";

const SECOND_MS = 1_000;

export class ComputeRequests {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  count(key: KeyId, nowMs: number): void {
    this.#sql.exec(
      `INSERT INTO compute_requests VALUES (?, ?, 1) ON CONFLICT (second, key_id) DO UPDATE SET calls = calls + 1`,
      secondOf(nowMs),
      key,
    );
  }

  /** When the key called since then: each call at the end of its second, so that no stretch holds one too many. */
  calls(key: KeyId, sinceMs: number): number[] {
    return this.#sql
      .exec<{ second: number; calls: number }>(
        "SELECT second, calls FROM compute_requests WHERE second >= ? AND key_id = ?",
        secondOf(sinceMs),
        key,
      )
      .toArray()
      .flatMap(({ second, calls }) => Array<number>(calls).fill((second + 1) * SECOND_MS - 1));
  }

  prune(nowMs: number, limit: number): void {
    this.#sql.exec(
      `DELETE FROM compute_requests WHERE (second, key_id) IN
         (SELECT second, key_id FROM compute_requests WHERE second < ? LIMIT ?)`,
      secondOf(nowMs - KEPT_MS),
      limit,
    );
  }

  nextPruneMs(): number | null {
    const { second } = this.#sql
      .exec<{ second: number | null }>("SELECT min(second) AS second FROM compute_requests")
      .one();
    return second === null ? null : second * SECOND_MS + KEPT_MS;
  }
}

const KEPT_MS = 120_000;
const secondOf = (timeMs: number): number => Math.floor(timeMs / SECOND_MS);

/**
 * Repairs an account's rows after the clock was set back: times in the future are moved to now, once. No count is lost,
 * and nothing waits until the clock has caught up. docs/decisions/0011 says why.
 *
 * The ledger is not touched: its entries keep their original time and count in that time's budget window.
 */

import { DAY } from "../../core/account/trailing-count.ts";
import { DEADLINE_SLACK_MS } from "../../core/video/jobs.ts";
import type { Sql } from "./schema.ts";
import type { Lives } from "./settings.ts";
import { HOLD_KEPT_MS } from "./tables/holds.ts";

/** Call it in a transaction and reload the state afterwards. */
export function setBack(sql: Sql, nowMs: number, { ttlMs, jobMs }: Lives): void {
  // Ended holds with a future time are found by the time at which they may be deleted.
  sql.exec(
    `UPDATE holds SET admitted_at_ms = min(admitted_at_ms, ?1), ended_at_ms = min(ended_at_ms, ?1), due_ms = ?2
     WHERE open = 0 AND due_ms > ?2`,
    nowMs,
    nowMs + HOLD_KEPT_MS,
  );
  // A rental's hold has no end of its own.
  sql.exec("UPDATE holds SET admitted_at_ms = ?1 WHERE rental IS NOT NULL AND open = 1 AND admitted_at_ms > ?1", nowMs);
  // No other open hold may be due later than one renewed now, or one whose job began now.
  sql.exec(
    `UPDATE holds SET admitted_at_ms = min(admitted_at_ms, ?1), due_ms = min(due_ms, CASE
       WHEN EXISTS (SELECT 1 FROM jobs WHERE jobs.call_id = holds.call_id AND jobs.state = 'running') THEN ?3 ELSE ?2 END)
     WHERE open = 1 AND rental IS NULL`,
    nowMs,
    nowMs + ttlMs,
    nowMs + jobMs + DEADLINE_SLACK_MS,
  );
  sql.exec(
    `UPDATE jobs SET submitted_at_ms = ?1, deadline_ms = min(deadline_ms, ?2) WHERE submitted_at_ms > ?1`,
    nowMs,
    nowMs + jobMs,
  );
  const slot = Math.floor(nowMs / DAY.bucketMs);
  sql.exec(
    `INSERT INTO requests_by_slot SELECT ?1, subject, sum(requests) FROM requests_by_slot WHERE slot > ?1 GROUP BY subject
     ON CONFLICT (slot, subject) DO UPDATE SET requests = requests + excluded.requests`,
    slot,
  );
  sql.exec("DELETE FROM requests_by_slot WHERE slot > ?", slot);
  const second = Math.floor(nowMs / 1_000);
  sql.exec(
    `INSERT INTO compute_requests SELECT ?1, key_id, sum(calls) FROM compute_requests WHERE second > ?1 GROUP BY key_id
     ON CONFLICT (second, key_id) DO UPDATE SET calls = calls + excluded.calls`,
    second,
  );
  sql.exec("DELETE FROM compute_requests WHERE second > ?", second);
  // The launches of a minute are counted by it.
  sql.exec("UPDATE resources SET created_at_ms = ?1 WHERE created_at_ms > ?1", nowMs);
  // The buckets inside are corrected when they are read.
  sql.exec("UPDATE free_calls SET written_at_ms = ?1 WHERE written_at_ms > ?1", nowMs);
  sql.exec("UPDATE shipments SET sent_at_ms = ?1 WHERE sent_at_ms > ?1", nowMs);
}

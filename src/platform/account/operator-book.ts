/**
 * What the operator bears in place of the tenant: overruns (usage beyond a hold) and losses (what an upstream may have done
 * without a charge: calls that failed under way, tries before another target served, holds that expired). One row per call
 * and kind. A loss is an upper bound, the held amount for each try; a late word on an expired call corrects its row.
 */
import type { CallId } from "../../core/ids.ts";
import type { Sql } from "./schema.ts";

export class OperatorBook {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  overrun(callId: CallId, amountNanoUsd: number, atMs: number): void {
    this.#sql.exec("INSERT INTO operator_book VALUES (?, 'overrun', ?, 0, ?)", callId, amountNanoUsd, atMs);
  }

  loss(callId: CallId, upToNanoUsd: number, atMs: number): void {
    this.#sql.exec("INSERT INTO operator_book VALUES (?, 'operator_loss', ?, 1, ?)", callId, upToNanoUsd, atMs);
  }

  /** The first late word counts; later ones change nothing. */
  correctLoss(callId: CallId, amountNanoUsd: number): void {
    this.#sql.exec(
      `UPDATE operator_book SET amount_nano_usd = ?, estimated = 0
       WHERE call_id = ? AND kind = 'operator_loss' AND estimated = 1`,
      amountNanoUsd,
      callId,
    );
  }

  overrunSince(atMs: number): number {
    return this.#sql
      .exec<{ sum: number }>(
        "SELECT coalesce(sum(amount_nano_usd), 0) AS sum FROM operator_book WHERE kind = 'overrun' AND at_ms >= ?",
        atMs,
      )
      .one().sum;
  }

  totals(): { overrunNanoUsd: number; operatorLossNanoUsd: number } {
    return this.#sql
      .exec<{ overrunNanoUsd: number; operatorLossNanoUsd: number }>(
        `SELECT coalesce(sum(amount_nano_usd) FILTER (WHERE kind = 'overrun'), 0) AS overrunNanoUsd,
                coalesce(sum(amount_nano_usd) FILTER (WHERE kind = 'operator_loss'), 0) AS operatorLossNanoUsd
         FROM operator_book`,
      )
      .one();
  }
}

/**
 * What the operator bears in place of the tenant: overruns (usage beyond a hold) and losses (what an upstream may have done
 * without a charge: calls that failed under way, tries before another target served, holds that expired). One row per call
 * and kind. A loss is an upper bound, the held amount for each try; a late word on an expired call corrects its row. An
 * end of a call whose hold nobody knows any more is a loss of what it cost (`settle_unknown`).
 */
import type { CallId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";

export interface OperatorTotals {
  readonly version: object;
  readonly overrunNanoUsd: number;
  readonly operatorLossNanoUsd: number;
}

const SETTLE_UNKNOWN = "settle_unknown";

export class OperatorBook {
  readonly #sql: Sql;
  /** Another one after each change, and after a restart: what was summed under one stands as long as it does. */
  version: object = {};

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  overrun(callId: CallId, amountNanoUsd: number, atMs: number): void {
    this.#insert(callId, "overrun", amountNanoUsd, 0, atMs, null);
  }

  loss(callId: CallId, upToNanoUsd: number, atMs: number): void {
    this.#insert(callId, "operator_loss", upToNanoUsd, 1, atMs, null);
  }

  /** Of a call that these books do not know. */
  unknownLoss(callId: CallId, amountNanoUsd: number, atMs: number): void {
    this.#insert(callId, "operator_loss", amountNanoUsd, 0, atMs, SETTLE_UNKNOWN);
  }

  /** Whether a call has a loss, and why. */
  findLoss(callId: CallId): { readonly unknown: boolean } | undefined {
    const [row] = this.#sql
      .exec<{ reason: string | null }>(
        "SELECT reason FROM operator_book WHERE call_id = ? AND kind = 'operator_loss'",
        callId,
      )
      .toArray();
    return row && { unknown: row.reason === SETTLE_UNKNOWN };
  }

  /** The first late word counts; later ones change nothing. */
  correctLoss(callId: CallId, amountNanoUsd: number): void {
    this.version = {};
    this.#sql.exec(
      `UPDATE operator_book SET amount_nano_usd = ?, estimated = 0
       WHERE call_id = ? AND kind = 'operator_loss' AND estimated = 1`,
      amountNanoUsd,
      callId,
    );
  }

  #insert(
    callId: CallId,
    kind: "overrun" | "operator_loss",
    nanoUsd: number,
    estimated: 0 | 1,
    atMs: number,
    reason: string | null,
  ): void {
    this.version = {};
    this.#sql.exec(
      `INSERT INTO operator_book (call_id, kind, amount_nano_usd, estimated, at_ms, reason) VALUES (?, ?, ?, ?, ?, ?)`,
      callId,
      kind,
      nanoUsd,
      estimated,
      atMs,
      reason,
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

  /** The last of the next `count` rows' calls; null: there are fewer. */
  callAfter(after: string, count: number): string | null {
    const [row] = this.#sql
      .exec<{ id: string }>(
        "SELECT call_id AS id FROM operator_book WHERE call_id > ? ORDER BY call_id LIMIT 1 OFFSET ?",
        after,
        count - 1,
      )
      .toArray();
    return row?.id ?? null;
  }

  /** Over the calls after one, through another; null: to the end. */
  totals(after: string, through: string | null): { overrunNanoUsd: number; operatorLossNanoUsd: number } {
    return this.#sql
      .exec<{ overrunNanoUsd: number; operatorLossNanoUsd: number }>(
        `SELECT coalesce(sum(amount_nano_usd) FILTER (WHERE kind = 'overrun'), 0) AS overrunNanoUsd,
                coalesce(sum(amount_nano_usd) FILTER (WHERE kind = 'operator_loss'), 0) AS operatorLossNanoUsd
         FROM operator_book WHERE call_id > ? ${through === null ? "" : "AND call_id <= ?"}`,
        ...(through === null ? [after] : [after, through]),
      )
      .one();
  }
}

/**
 * What the operator pays in place of the tenant, one row per call and kind. Overruns are usage beyond a hold. Losses
 * are what an upstream may have executed without a charge: calls that failed under way, tries before another target
 * served, expired holds. A loss is an upper bound: the held amount for each try. A late end of an expired call corrects
 * its row. When a call ends whose hold is unknown, its cost is a loss (`settle_unknown`).
 */
import type { CallId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";

export interface OperatorTotals {
  readonly version: object;
  readonly overrunNanoUsd: number;
  readonly operatorLossNanoUsd: number;
}

export const SETTLE_UNKNOWN = "settle_unknown";

export class OperatorBook {
  readonly #sql: Sql;
  /**
   * A new object after each change and each restart. A sum is valid as long as the version it was made under is
   * current.
   */
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

  /** Sets the loss of a rental's period; what it was before is given back, so that reports get the difference. */
  setLoss(callId: CallId, amountNanoUsd: number, estimated: boolean, atMs: number): number {
    const [before] = this.#sql
      .exec<{ amount: number }>(
        "SELECT amount_nano_usd AS amount FROM operator_book WHERE call_id = ? AND kind = 'operator_loss'",
        callId,
      )
      .toArray();
    if (!before) {
      this.#insert(callId, "operator_loss", amountNanoUsd, estimated ? 1 : 0, atMs, null);
      return 0;
    }
    this.version = {};
    this.#sql.exec(
      "UPDATE operator_book SET amount_nano_usd = ?, estimated = ? WHERE call_id = ? AND kind = 'operator_loss'",
      amountNanoUsd,
      estimated ? 1 : 0,
      callId,
    );
    return before.amount;
  }

  /** The loss of a call whose hold is unknown. */
  unknownLoss(callId: CallId, amountNanoUsd: number, atMs: number): void {
    this.#insert(callId, "operator_loss", amountNanoUsd, 0, atMs, SETTLE_UNKNOWN);
  }

  /** Whether a call has a loss, and whether its hold was unknown. */
  findLoss(callId: CallId): { readonly unknown: boolean } | undefined {
    const [row] = this.#sql
      .exec<{ reason: string | null }>(
        "SELECT reason FROM operator_book WHERE call_id = ? AND kind = 'operator_loss'",
        callId,
      )
      .toArray();
    return row && { unknown: row.reason === SETTLE_UNKNOWN };
  }

  /** The first late end counts; later ones change nothing. */
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

  /** The call of the last of the next `count` rows; null if there are fewer rows. */
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

  /** Sums over the calls after `after` up to and including `through`; null: to the end. */
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

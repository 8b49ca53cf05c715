/**
 * Idempotency keys: the call that each key was used for, and how that call ended. A row is written with the call's
 * hold, and deleted with it if nothing was executed, in the same transactions. The running calls are kept in memory
 * too, so that the end of an ordinary call needs no look-up here.
 */
import type { Release } from "../../../core/account/hold.ts";
import {
  type EarlierCall,
  IDEMPOTENCY_KEPT_MS,
  type IdempotencyRef,
  IMPLIED_KEPT_MS,
  stateAfter,
} from "../../../core/account/idempotency.ts";
import type { CallId, KeyId } from "../../../core/ids.ts";
import type { Owned, OwnedKind } from "../../../core/owned.ts";
import type { Sql } from "../schema.ts";

type Row = { body_hmac: string; call_id: string; state: EarlierCall["state"]; status: number };
type OwnedRow = { kind: OwnedKind; id: string; upstream: string; target_model: string; model: string; tokens: number };

export class IdempotencyKeys {
  readonly #sql: Sql;
  readonly #running: Set<CallId>;

  constructor(sql: Sql) {
    this.#sql = sql;
    const running = sql.exec<{ call_id: CallId }>("SELECT call_id FROM idempotency WHERE state = 'running'").toArray();
    this.#running = new Set(running.map(({ call_id }) => call_id));
  }

  /** The call that the key was used for; `other_body`: it was used with another request. */
  find(keyId: KeyId, ref: IdempotencyRef, nowMs: number): EarlierCall | "other_body" | undefined {
    if (ref.implied === "first") return undefined;
    const [row] = this.#sql
      .exec<Row>(
        "SELECT body_hmac, call_id, state, status FROM idempotency WHERE key_id = ? AND key_hmac = ? AND kept_until_ms > ?",
        keyId,
        ref.keyHmac,
        nowMs,
      )
      .toArray();
    if (!row) return undefined;
    if (row.body_hmac !== ref.bodyHmac) return "other_body";
    const callId = row.call_id as CallId;
    const created = this.#created(callId);
    // A job's call was answered when its job was accepted, though its hold lives on with the job.
    if (created?.kind === "video_job") return { callId, state: "completed", status: 202, created };
    if (row.state === "unknown" && created) return { callId, state: "completed", status: 200, created };
    return { callId, state: row.state, status: row.status, created };
  }

  begin(keyId: KeyId, ref: IdempotencyRef, callId: CallId, nowMs: number): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, 'running', 0, ?)",
      keyId,
      ref.keyHmac,
      ref.bodyHmac,
      callId,
      nowMs + (ref.implied ? IMPLIED_KEPT_MS : IDEMPOTENCY_KEPT_MS),
    );
    this.#running.add(callId);
  }

  /** The call was executed and charged. */
  settled(callId: CallId, status: number, outcome: string): void {
    this.#end(callId, stateAfter(status, outcome), status);
  }

  /** The call cost nothing. If the client was answered with success (a job that failed later), that answer stands. */
  released({ callId, status, lostTries }: Pick<Release, "callId" | "status" | "lostTries">): void {
    if (stateAfter(status, "") === "completed") this.#end(callId, "completed", status);
    else if (lostTries === 0) this.#free(callId);
    else this.lost(callId, status);
  }

  /** It is unknown whether the call was executed. */
  lost(callId: CallId, status: number): void {
    this.#end(callId, "unknown", status);
  }

  /** A late end of a call whose hold had expired. */
  correct(callId: CallId, end: { status: number; outcome: string } | "not_executed"): void {
    this.#running.add(callId);
    if (end === "not_executed") this.#free(callId);
    else this.settled(callId, end.status, end.outcome);
  }

  /** Deletes at most `limit` keys that are no longer remembered. */
  prune(nowMs: number, limit: number): void {
    this.#sql.exec(
      `DELETE FROM idempotency WHERE (key_id, key_hmac) IN
         (SELECT key_id, key_hmac FROM idempotency WHERE kept_until_ms <= ? LIMIT ?)`,
      nowMs,
      limit,
    );
  }

  nextPruneMs(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT min(kept_until_ms) AS at FROM idempotency").one().at;
  }

  #free(callId: CallId): void {
    if (!this.#running.delete(callId)) return;
    this.#sql.exec("DELETE FROM idempotency WHERE call_id = ?", callId);
  }

  #end(callId: CallId, state: "completed" | "unknown", status: number): void {
    if (!this.#running.delete(callId)) return;
    this.#sql.exec("UPDATE idempotency SET state = ?, status = ? WHERE call_id = ?", state, status, callId);
  }

  /** The response or job that a call made, if that has an id. */
  #created(callId: CallId): Owned | null {
    const [row] = this.#sql
      .exec<OwnedRow>(
        `SELECT kind, id, upstream, target_model, model, total_tokens AS tokens FROM owned_ids WHERE call_id = ?1
         UNION ALL SELECT 'video_job', id, upstream, target_model, model, 0 FROM jobs WHERE call_id = ?1`,
        callId,
      )
      .toArray();
    if (!row) return null;
    const { kind, id, upstream, model } = row;
    return { kind, id, upstream, targetModel: row.target_model, model, totalTokens: row.tokens };
  }
}

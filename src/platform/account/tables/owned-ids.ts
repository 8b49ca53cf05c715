/**
 * Ids that the service handed out to this account. An id that is not here, or no longer kept, does not exist for the
 * account.
 *
 * A response belongs to a conversation, named by its first response. Each turn keeps the whole conversation for a full
 * lifetime.
 */
import type { CallId } from "../../../core/ids.ts";
import { CONVERSATION_LIFE_MS, type NewOwned, type Owned, type OwnedRef } from "../../../core/owned.ts";
import type { Sql } from "../schema.ts";

type Row = {
  upstream: string;
  target_model: string;
  model: string;
  conversation: string;
  total_tokens: number;
};

export class OwnedIds {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  find(ref: OwnedRef, nowMs: number): Owned | undefined {
    const row = this.#row(ref, nowMs);
    if (!row) return undefined;
    const { upstream, target_model, model, total_tokens } = row;
    return { ...ref, upstream, targetModel: target_model, model, totalTokens: total_tokens };
  }

  /**
   * Recording an id twice has no further effect. `upToTokens` is the most that its call can use. It counts until the
   * exact figure is known, so that a turn which continues it at once, or after a cut, holds enough.
   */
  record(owned: NewOwned, upToTokens: number, nowMs: number): void {
    const before = owned.continues === null ? undefined : this.#row({ kind: owned.kind, id: owned.continues }, nowMs);
    const conversation = before?.conversation ?? owned.id;
    this.#sql.exec(
      `INSERT INTO owned_ids (kind, id, call_id, upstream, target_model, model, conversation, total_tokens)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      owned.kind,
      owned.id,
      owned.callId,
      owned.upstream,
      owned.targetModel,
      owned.model,
      conversation,
      upToTokens,
    );
    this.#sql.exec(
      `INSERT INTO conversations (id, kept_until_ms) VALUES (?, ?)
       ON CONFLICT (id) DO UPDATE SET kept_until_ms = excluded.kept_until_ms`,
      conversation,
      nowMs + CONVERSATION_LIFE_MS,
    );
  }

  /**
   * Sets what the call that made an id used, by the upstream's own figures: the input that the next turn brings along.
   */
  settled(callId: CallId, totalTokens: number): void {
    this.#sql.exec("UPDATE owned_ids SET total_tokens = ? WHERE call_id = ?", totalTokens, callId);
  }

  /** One that the service deleted. The conversation's other turns stay. */
  forget({ kind, id }: OwnedRef): void {
    this.#sql.exec("DELETE FROM owned_ids WHERE kind = ? AND id = ?", kind, id);
  }

  /** Deletes at most `limit` conversations that are no longer kept, with their ids. */
  prune(nowMs: number, limit: number): void {
    const gone = this.#sql
      .exec<{ id: string }>("SELECT id FROM conversations WHERE kept_until_ms <= ? LIMIT ?", nowMs, limit)
      .toArray();
    for (const { id } of gone) {
      this.#sql.exec("DELETE FROM owned_ids WHERE conversation = ?", id);
      this.#sql.exec("DELETE FROM conversations WHERE id = ?", id);
    }
  }

  nextPruneMs(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT min(kept_until_ms) AS at FROM conversations").one().at;
  }

  #row(ref: OwnedRef, nowMs: number): Row | undefined {
    return this.#sql
      .exec<Row>(
        `SELECT upstream, target_model, model, conversation, total_tokens
         FROM owned_ids JOIN conversations ON conversations.id = owned_ids.conversation
         WHERE owned_ids.kind = ? AND owned_ids.id = ? AND kept_until_ms > ?`,
        ref.kind,
        ref.id,
        nowMs,
      )
      .toArray()[0];
  }
}

/**
 * Responses and the conversations they belong to. A conversation is kept for 24 h after its last turn; then all its
 * responses are deleted together. A response lives in the region that made it and belongs to one account.
 */
const RETENTION_MS = 24 * 3_600_000;

/** One output item: its type, and how many of the response's tokens are its own. */
export interface OutputItem {
  readonly id: string;
  readonly type: "reasoning" | "message" | "function_call";
  readonly size: number;
  /** Of a function call. */
  readonly name?: string;
  readonly callId?: string;
}

/** What is stored when a response begins. */
export interface NewResponse {
  readonly id: string;
  readonly account: string;
  readonly model: string;
  readonly region: string;
  readonly callId: number;
  readonly createdMs: number;
  readonly previousId: string | null;
  /** The conversation that it continues; null begins one. */
  readonly conversation: string | null;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  /** All that is being made, token by token. */
  readonly tokens: readonly string[];
  /** The output items, which share the tokens among them in their order. */
  readonly items: readonly OutputItem[];
  /** The new input, as items; empty if it was too long to be kept. */
  readonly input: readonly { readonly [name: string]: unknown }[];
}

/** A response as it is now. */
export interface KeptResponse extends NewResponse {
  readonly conversation: string;
  readonly running: boolean;
  readonly cancelled: boolean;
  /** How many of its tokens were made; fewer than all if the client left. */
  readonly outputTokens: number;
}

type Row = {
  conversation: string;
  cancelled: number;
  record: string;
  ended_ms: number | null;
  usage: string | null;
};

export class Conversations {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  save(response: NewResponse, nowMs: number): void {
    const conversation = response.conversation ?? response.id;
    this.#sql.exec(
      "INSERT INTO responses (id, account, conversation, call_id, record) VALUES (?, ?, ?, ?, ?)",
      response.id,
      response.account,
      conversation,
      response.callId,
      JSON.stringify(response),
    );
    this.#sql.exec("INSERT OR REPLACE INTO conversations (id, last_turn_ms) VALUES (?, ?)", conversation, nowMs);
  }

  /** Null: unknown, another account's, or too old. */
  read(id: string, account: string, nowMs: number): KeptResponse | null {
    const [row] = this.#sql
      .exec<Row>(
        `SELECT responses.conversation, cancelled, record, ended_ms, usage FROM responses
         JOIN conversations ON conversations.id = responses.conversation
         JOIN calls ON calls.id = responses.call_id
         WHERE responses.id = ? AND responses.account = ? AND last_turn_ms > ?`,
        id,
        account,
        nowMs - RETENTION_MS,
      )
      .toArray();
    if (!row) return null;
    const record = JSON.parse(row.record) as NewResponse;
    const usage = JSON.parse(row.usage ?? "null") as { output_tokens?: number } | null;
    const running = row.ended_ms === null;
    // One that was stored by an earlier version is a message.
    const message: OutputItem = { id: `msg_${id.slice(5)}`, type: "message", size: record.tokens.length };
    return {
      ...record,
      items: record.items ?? [message],
      input: record.input ?? [],
      conversation: row.conversation,
      running,
      cancelled: row.cancelled === 1,
      outputTokens: running ? 0 : (usage?.output_tokens ?? record.tokens.length),
    };
  }

  /** Only this turn: later ones keep what they counted. */
  delete(id: string): void {
    this.#sql.exec("DELETE FROM responses WHERE id = ?", id);
  }

  cancel(id: string): boolean {
    const { rowsWritten } = this.#sql.exec(
      `UPDATE responses SET cancelled = 1 WHERE id = ?
         AND EXISTS (SELECT 1 FROM calls WHERE calls.id = call_id AND ended_ms IS NULL)`,
      id,
    );
    return rowsWritten > 0;
  }
}

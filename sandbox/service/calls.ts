/**
 * The log of calls: one row for each call that reached the service, in order of arrival, never deleted.
 *
 * A row is written when a call starts and completed when it ends. Rows with `executed` are what the service would bill:
 * they are the executions log. The others were refused.
 */
import type { Usage } from "../usage.ts";
import { PAGE_ROWS } from "../whole-log.ts";

/** What is known when a call comes in. */
export interface Arrival {
  readonly method: string;
  /** Without the prefix that pins a region. */
  readonly path: string;
  readonly account: string | null;
  readonly model: string | null;
  /** The caller's own `x-request-id`. */
  readonly requestId: string | null;
  readonly bodySha256: string;
  /** Names only. */
  readonly headers: readonly string[];
}

/** What was really sent, known when a call has ended. */
export interface Ending {
  readonly status: number;
  /** False if the work was done but its answer not delivered. */
  readonly answered: boolean;
  /** False turns the call into a refused one. */
  readonly executed: boolean;
  readonly bytesSent: number;
  readonly framesSent: number;
  readonly closedEarly: boolean;
  readonly usage: Usage | null;
}

/** A row as the log shows it. */
export interface Call {
  readonly id: number;
  readonly at_ms: number;
  /** Null while the call runs, or if it never ended. */
  readonly ended_ms: number | null;
  readonly method: string;
  readonly path: string;
  readonly model: string | null;
  readonly region: string | null;
  readonly account: string | null;
  readonly request_id: string | null;
  readonly service_request_id: string;
  readonly body_sha256: string;
  readonly headers: readonly string[];
  readonly status: number | null;
  readonly executed: boolean;
  readonly answered: boolean;
  readonly bytes_sent: number;
  readonly frames_sent: number;
  readonly closed_early: boolean;
  readonly usage: Usage | null;
}

/** A filter for rows of the log. */
export interface Wanted {
  /** Only rows that came after this one. */
  readonly afterId: number;
  readonly onlyExecuted: boolean;
  /** Null: calls of every model, and calls without one. */
  readonly models: readonly string[] | null;
  /** Null: calls of every `x-request-id`, and calls without one. */
  readonly requestIds: readonly string[] | null;
}

export class CallLog {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  start(
    arrival: Arrival,
    at: { nowMs: number; region: string | null; serviceRequestId: string; executed: boolean },
  ): number {
    const { id } = this.#sql
      .exec<{ id: number }>(
        `INSERT INTO calls (at_ms, method, path, model, region, account, request_id, service_request_id, body_sha256,
           headers, executed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
        at.nowMs,
        arrival.method,
        arrival.path,
        arrival.model,
        at.region,
        arrival.account,
        arrival.requestId,
        at.serviceRequestId,
        arrival.bodySha256,
        JSON.stringify(arrival.headers),
        at.executed ? 1 : 0,
      )
      .one();
    return id;
  }

  end(id: number, nowMs: number, ending: Ending): void {
    this.#sql.exec(
      `UPDATE calls SET ended_ms = ?, status = ?, executed = ?, answered = ?, bytes_sent = ?, frames_sent = ?,
         closed_early = ?, usage = coalesce(?, usage) WHERE id = ?`,
      nowMs,
      ending.status,
      ending.executed ? 1 : 0,
      ending.answered ? 1 : 0,
      ending.bytesSent,
      ending.framesSent,
      ending.closedEarly ? 1 : 0,
      ending.usage && JSON.stringify(ending.usage),
      id,
    );
  }

  /** Sets what a job used, known long after the call that requested it ended. */
  setUsage(id: number, usage: Usage): void {
    this.#sql.exec("UPDATE calls SET usage = ? WHERE id = ?", JSON.stringify(usage), id);
  }

  /** The next page, oldest first. */
  list({ afterId, onlyExecuted, models, requestIds }: Wanted): Call[] {
    const rows = this.#sql.exec(
      `SELECT * FROM calls WHERE id > ?1 AND executed >= ?2
         AND (?3 IS NULL OR model IN (SELECT value FROM json_each(?3)))
         AND (?4 IS NULL OR request_id IN (SELECT value FROM json_each(?4))) ORDER BY id LIMIT ${PAGE_ROWS}`,
      afterId,
      onlyExecuted ? 1 : 0,
      models && JSON.stringify(models),
      requestIds && JSON.stringify(requestIds),
    );
    return rows.toArray().map(toCall);
  }
}

function toCall(row: Record<string, SqlStorageValue>): Call {
  return {
    id: Number(row.id),
    at_ms: Number(row.at_ms),
    ended_ms: row.ended_ms === null ? null : Number(row.ended_ms),
    method: String(row.method),
    path: String(row.path),
    model: row.model === null ? null : String(row.model),
    region: row.region === null ? null : String(row.region),
    account: row.account === null ? null : String(row.account),
    request_id: row.request_id === null ? null : String(row.request_id),
    service_request_id: String(row.service_request_id),
    body_sha256: String(row.body_sha256),
    headers: JSON.parse(String(row.headers)) as string[],
    status: row.status === null ? null : Number(row.status),
    executed: row.executed === 1,
    answered: row.answered === 1,
    bytes_sent: Number(row.bytes_sent),
    frames_sent: Number(row.frames_sent),
    closed_early: row.closed_early === 1,
    usage: row.usage === null ? null : (JSON.parse(String(row.usage)) as Usage),
  };
}

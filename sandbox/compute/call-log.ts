/**
 * The log of compute calls: one row for each that came in, refused ones too. Limits per minute count its rows, so they
 * hold across restarts.
 */
import { fingerprint } from "../seed.ts";
import { PAGE_ROWS } from "../whole-log.ts";

const MINUTE_MS = 60_000;
/** More of a body is not kept. */
const BODY_CHARACTERS = 4_000;

export interface ComputeArrival {
  readonly account: string | null;
  readonly key: string | null;
  readonly user: number | null;
  readonly kind: "control" | "service";
  readonly method: string;
  readonly path: string;
  readonly body: string | null;
  /** The caller's own `x-request-id`. */
  readonly requestId: string | null;
}

/** A row as the log shows it. */
export interface ComputeCall {
  readonly id: number;
  /** By the clock of the account. */
  readonly at_ms: number;
  readonly real_ms: number;
  readonly account: string | null;
  readonly key: string | null;
  readonly user: number | null;
  readonly kind: "control" | "service";
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly request_id: string | null;
  /** It counts in the calls a minute of its key. */
  readonly counted: boolean;
  /** It did what it asked for, whatever was answered. */
  readonly executed: boolean;
  /** What the service answered, before a fault; null while it has not. */
  readonly status: number | null;
  readonly resource: number | null;
  readonly faults: readonly string[];
  /** The headers that a pod was sent. */
  readonly pod_headers: Readonly<Record<string, string>> | null;
  /**
   * How a pod's stream of bytes or events ended: all of it was taken, or its reader left; null: it goes on, or is none.
   */
  readonly pod_ended: PodEnd | null;
}

export type PodEnd = "whole" | "left";

export interface WantedCalls {
  readonly afterId: number;
  readonly account: string | null;
  readonly kind: string | null;
}

export class ComputeCallLog {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  start(arrival: ComputeArrival, nowMs: number, faults: readonly string[]): number {
    return this.#sql
      .exec<{ id: number }>(
        `INSERT INTO calls (at_ms, real_ms, account, key, user, kind, method, path, body, request_id, faults)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
        nowMs,
        Date.now(),
        arrival.account,
        arrival.key,
        arrival.user,
        arrival.kind,
        arrival.method,
        arrival.path,
        arrival.body === null ? null : withoutSecret(arrival.body).slice(0, BODY_CHARACTERS),
        arrival.requestId,
        JSON.stringify(faults),
      )
      .one().id;
  }

  end(id: number, status: number, resource: number | null, launched: boolean): void {
    this.#sql.exec(
      "UPDATE calls SET status = ?, executed = ?, resource = ?, launched = ? WHERE id = ?",
      status,
      status < 400 ? 1 : 0,
      resource,
      launched ? 1 : 0,
      id,
    );
  }

  podHeaders(id: number, headers: Readonly<Record<string, string>>): void {
    this.#sql.exec("UPDATE calls SET pod_headers = ? WHERE id = ?", JSON.stringify(headers), id);
  }

  podEnded(id: number, how: PodEnd): void {
    this.#sql.exec("UPDATE calls SET pod_ended = ? WHERE id = ?", how, id);
  }

  /** Counts this call for its key. Null, or how long the key must wait. */
  count(id: number, key: string, nowMs: number, most: number): number | null {
    const wait = this.#wait("counted = 1 AND key", key, nowMs, most);
    if (wait === null) this.#sql.exec("UPDATE calls SET counted = 1 WHERE id = ?", id);
    return wait;
  }

  /** Null, or how long the account must wait until it may launch again. */
  launchWait(account: string, nowMs: number, most: number): number | null {
    return this.#wait("launched = 1 AND account", account, nowMs, most);
  }

  /** The next page, oldest first. */
  list({ afterId, account, kind }: WantedCalls): ComputeCall[] {
    return this.#sql
      .exec(
        `SELECT * FROM calls WHERE id > ?1 AND (?2 IS NULL OR account = ?2) AND (?3 IS NULL OR kind = ?3)
           ORDER BY id LIMIT ${PAGE_ROWS}`,
        afterId,
        account,
        kind,
      )
      .toArray()
      .map(toCall);
  }

  #wait(which: string, of: string, nowMs: number, most: number): number | null {
    const times = this.#sql
      .exec<{ at_ms: number }>(
        `SELECT at_ms FROM calls WHERE ${which} = ? AND at_ms > ? AND at_ms <= ? ORDER BY at_ms DESC LIMIT ?`,
        of,
        nowMs - MINUTE_MS,
        nowMs,
        most,
      )
      .toArray();
    const oldest = times[most - 1];
    return oldest === undefined ? null : oldest.at_ms + MINUTE_MS - nowMs;
  }
}

/** A registry's secret is kept as its fingerprint only. */
const withoutSecret = (body: string): string =>
  body.replace(/("registry_secret"\s*:\s*)("(?:[^"\\]|\\.)*")/g, (_, name: string, secret: string) => {
    return `${name}"${fingerprint(JSON.parse(secret) as string)}"`;
  });

function toCall(row: Record<string, SqlStorageValue>): ComputeCall {
  const text = (value: SqlStorageValue | undefined) => (value === null || value === undefined ? null : String(value));
  const number = (value: SqlStorageValue | undefined) => (value === null || value === undefined ? null : Number(value));
  return {
    id: Number(row.id),
    at_ms: Number(row.at_ms),
    real_ms: Number(row.real_ms),
    account: text(row.account),
    key: text(row.key),
    user: number(row.user),
    kind: row.kind === "service" ? "service" : "control",
    method: String(row.method),
    path: String(row.path),
    body: parsed(text(row.body)),
    request_id: text(row.request_id),
    counted: row.counted === 1,
    executed: row.executed === 1,
    status: number(row.status),
    resource: number(row.resource),
    faults: JSON.parse(String(row.faults)) as string[],
    pod_headers: row.pod_headers === null ? null : (JSON.parse(String(row.pod_headers)) as Record<string, string>),
    pod_ended: row.pod_ended === "whole" || row.pod_ended === "left" ? row.pod_ended : null,
  };
}

/** Bodies are JSON, but what was sent may be anything. */
function parsed(body: string | null): unknown {
  try {
    return body === null ? null : JSON.parse(body);
  } catch {
    return body;
  }
}

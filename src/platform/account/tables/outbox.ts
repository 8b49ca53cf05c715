/**
 * The outbox: usage events and alerts that D1 has not confirmed. A row is written in the transaction that ends the
 * call, or makes the alert true, and deleted when the queue's consumer confirms that D1 has it.
 *
 * Rows are sent in ranges. A range is stored as a shipment, then sent as one message. A shipment that is not confirmed
 * in time is sent again. The consumer counts an event once by its id, so sending twice is harmless and no event is
 * lost.
 */
import type { UsageEvent } from "../../../core/account/hold.ts";
import type { Alert } from "../../../core/alerts/alert.ts";
import type { CallId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";

/** A queue message may have 128 KB; this leaves room for its envelope. */
const MESSAGE_BYTES = 100_000;
const MESSAGE_EVENTS = 500;
/** Events are collected this long before they are sent, ms. */
const GATHER_MS = 1_000;
/** A shipment that is not confirmed after this time is sent again, ms. */
const RESEND_AFTER_MS = 120_000;
/** With this many unconfirmed shipments nothing new is sent. */
const MOST_SHIPMENTS = 64;
/** First wait after the queue threw, ms: doubled each time, up to a minute. */
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;

export interface Shipment {
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly events: readonly UsageEvent[];
  readonly alerts: readonly Alert[];
  /** True if it was sent before. */
  readonly again: boolean;
}

type StoredShipment = { first_seq: number; last_seq: number; sent_at_ms: number };
const LONG_AGO_MS = 0;

export class Outbox {
  readonly #sql: Sql;
  #lastSeq: number;
  #sentThrough: number;
  /** Mirror of the table; at most `MOST_SHIPMENTS`, oldest first. */
  #shipments: readonly StoredShipment[];
  /** When the oldest unsent event was written; null: none waits. */
  #waitingSinceMs: number | null;
  #failures = 0;
  #retryAtMs = 0;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#shipments = this.#readShipments();
    const last = sql.exec<{ value: number | null }>("SELECT max(seq) AS value FROM outbox").one().value ?? 0;
    this.#sentThrough = Math.max(0, ...this.#shipments.map((shipment) => shipment.last_seq));
    this.#lastSeq = Math.max(this.#sentThrough, last);
    this.#waitingSinceMs = last > this.#sentThrough ? LONG_AGO_MS : null;
  }

  add(event: UsageEvent): void {
    this.#add(event.eventId, event, event.endedAtMs);
  }

  tell(alert: Alert): void {
    this.#add(alert.id, alert, alert.atMs);
  }

  /** Stores the next range as sent and returns it: first a shipment not confirmed in time, else rows not sent yet. */
  take(nowMs: number): Shipment | undefined {
    if (nowMs < this.#retryAtMs) return undefined;
    return this.#takeAgain(nowMs) ?? this.#takeNew(nowMs);
  }

  /** The queue took the message. */
  sent(): void {
    this.#failures = 0;
    this.#retryAtMs = 0;
  }

  /** The queue threw: the range stays, and the wait grows each time. */
  failed(shipment: Shipment, nowMs: number): void {
    this.#retryAtMs = nowMs + Math.min(FIRST_RETRY_MS * 2 ** this.#failures, LONGEST_RETRY_MS);
    this.#failures += 1;
    if (shipment.again) {
      this.#sql.exec("UPDATE shipments SET sent_at_ms = ? WHERE first_seq = ?", LONG_AGO_MS, shipment.firstSeq);
    } else {
      this.#sql.exec("DELETE FROM shipments WHERE first_seq = ?", shipment.firstSeq);
      this.#sentThrough = shipment.firstSeq - 1;
      this.#waitingSinceMs = LONG_AGO_MS;
    }
    this.#shipments = this.#readShipments();
  }

  /** D1 has these events: deletes them. */
  confirm(eventIds: readonly CallId[]): void {
    this.#sql.exec(
      "DELETE FROM outbox WHERE seq <= ? AND event_id IN (SELECT value FROM json_each(?))",
      this.#sentThrough,
      JSON.stringify(eventIds),
    );
    this.#sql.exec(
      `DELETE FROM shipments WHERE NOT EXISTS
         (SELECT 1 FROM outbox WHERE seq BETWEEN shipments.first_seq AND shipments.last_seq)`,
    );
    this.#shipments = this.#readShipments();
  }

  /** When there is something to send; null: nothing. */
  nextDueMs(): number | null {
    const dues = this.#shipments.map((shipment) => shipment.sent_at_ms + RESEND_AFTER_MS);
    if (this.#waitingSinceMs !== null && this.#shipments.length < MOST_SHIPMENTS) {
      dues.push(this.#waitingSinceMs + GATHER_MS);
    }
    return dues.length === 0 ? null : Math.max(this.#retryAtMs, Math.min(...dues));
  }

  count(): number {
    return this.#sql.exec<{ count: number }>("SELECT count(*) AS count FROM outbox").one().count;
  }

  #takeAgain(nowMs: number): Shipment | undefined {
    const late = this.#shipments.find((shipment) => shipment.sent_at_ms <= nowMs - RESEND_AFTER_MS);
    if (!late) return undefined;
    this.#sql.exec("UPDATE shipments SET sent_at_ms = ? WHERE first_seq = ?", nowMs, late.first_seq);
    this.#shipments = this.#readShipments();
    const { events, alerts } = this.#stretch(late.first_seq, late.last_seq);
    return { firstSeq: late.first_seq, lastSeq: late.last_seq, events, alerts, again: true };
  }

  #takeNew(nowMs: number): Shipment | undefined {
    if (this.#waitingSinceMs === null || this.#shipments.length >= MOST_SHIPMENTS) return undefined;
    const firstSeq = this.#sentThrough + 1;
    const { events, alerts, lastSeq } = this.#stretch(firstSeq, this.#lastSeq);
    if (lastSeq === undefined) {
      this.#waitingSinceMs = null;
      return undefined;
    }
    this.#sql.exec("INSERT INTO shipments VALUES (?, ?, ?)", firstSeq, lastSeq, nowMs);
    this.#shipments = this.#readShipments();
    this.#sentThrough = lastSeq;
    this.#waitingSinceMs = lastSeq < this.#lastSeq ? nowMs : null;
    return { firstSeq, lastSeq, events, alerts, again: false };
  }

  /** As many of these rows as one message carries, at least one. */
  #stretch(firstSeq: number, lastSeq: number): Pick<Shipment, "events" | "alerts"> & { lastSeq: number | undefined } {
    const rows = this.#sql.exec<{ seq: number; event: string; bytes: number }>(
      `SELECT seq, event, octet_length(event) AS bytes FROM outbox WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?`,
      firstSeq,
      lastSeq,
      MESSAGE_EVENTS,
    );
    const events: UsageEvent[] = [];
    const alerts: Alert[] = [];
    let last: number | undefined;
    let bytes = 0;
    for (const row of rows) {
      bytes += row.bytes + 1;
      if (last !== undefined && bytes > MESSAGE_BYTES) break;
      const stored = JSON.parse(row.event) as UsageEvent | Alert;
      if ("type" in stored) alerts.push(stored);
      else events.push(stored);
      last = row.seq;
    }
    return { events, alerts, lastSeq: last };
  }

  #add(id: string, stored: UsageEvent | Alert, atMs: number): void {
    this.#lastSeq += 1;
    this.#sql.exec("INSERT INTO outbox VALUES (?, ?, ?)", this.#lastSeq, id, JSON.stringify(stored));
    this.#waitingSinceMs ??= atMs;
  }

  #readShipments(): readonly StoredShipment[] {
    return this.#sql.exec<StoredShipment>("SELECT * FROM shipments ORDER BY first_seq").toArray();
  }
}

/**
 * Free calls, counted over a trailing minute for each subject that limits them.
 *
 * They leave no hold row to count by, and memory is lost whenever the object is evicted, which a client can cause with
 * ten seconds of silence. So each window has a row, read at its subject's first call. A call that reached an upstream
 * is written at once, so a restart cannot forget it. Local calls are written once a sixtieth of the minute's allowance
 * has gathered; an eviction forgets fewer than that. So even a client that pauses ten seconds after each burst exceeds
 * its limit by less than a tenth, and few rows are written.
 */
import { type FreeReach, type FreeUse, freeRefusal } from "../../../core/account/free-calls.ts";
import { MINUTE, TrailingCount } from "../../../core/account/trailing-count.ts";
import type { Refusal } from "../../../core/refusal.ts";
import type { Sql } from "../schema.ts";
import type { Subject } from "./limit-scopes.ts";

/** The window of one level. */
export interface FreeLevel extends FreeUse {
  readonly subject: Subject;
}

interface Window {
  readonly calls: TrailingCount;
  unwritten: number;
}

/** Windows kept in memory; beyond it all are dropped and read again. */
const CACHED_WINDOWS = 4_000;
const WRITES_IN_A_MINUTE = 60;
/** A row is kept this long after it was written, ms. */
const KEPT_MS = 2 * (MINUTE.spanMs + MINUTE.bucketMs);

export class FreeCalls {
  readonly #sql: Sql;
  readonly #windows = new Map<string, Window>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  calls(subject: Subject, reach: FreeReach, nowMs: number): TrailingCount {
    return this.#window(subject, reach, nowMs).calls;
  }

  /** Counts one call at every level, or refuses it if a level has no room. */
  take(levels: readonly FreeLevel[], reach: FreeReach, nowMs: number): Refusal | undefined {
    const refusal = freeRefusal(levels, nowMs);
    if (refusal) return refusal;
    for (const { subject, allowed } of levels) {
      const window = this.#window(subject, reach, nowMs);
      window.calls.add(nowMs, 1);
      window.unwritten += 1;
      const step = reach === "upstream" ? 1 : Math.max(1, Math.floor(allowed / WRITES_IN_A_MINUTE));
      if (window.unwritten >= step) this.#write(subject, reach, window, nowMs);
    }
    return undefined;
  }

  /** Takes back the count of a call that turned out to be paid for. */
  giveBack(levels: readonly FreeLevel[], reach: FreeReach, nowMs: number): void {
    for (const { subject } of levels) {
      const { calls } = this.#window(subject, reach, nowMs);
      calls.takeBack(nowMs);
    }
  }

  /** Deletes at most `limit` windows that have long been empty. */
  prune(nowMs: number, limit: number): void {
    this.#sql.exec(
      `DELETE FROM free_calls WHERE (subject, reach) IN
         (SELECT subject, reach FROM free_calls WHERE written_at_ms < ? LIMIT ?)`,
      nowMs - KEPT_MS,
      limit,
    );
  }

  nextPruneMs(): number | null {
    const { at } = this.#sql.exec<{ at: number | null }>("SELECT min(written_at_ms) AS at FROM free_calls").one();
    return at === null ? null : at + KEPT_MS + 1;
  }

  #window(subject: Subject, reach: FreeReach, nowMs: number): Window {
    const name = `${reach} ${subject}`;
    const known = this.#windows.get(name);
    if (known) return known;
    const window = { calls: new TrailingCount(MINUTE), unwritten: 0 };
    const [row] = this.#sql
      .exec<{ buckets: string }>("SELECT buckets FROM free_calls WHERE subject = ? AND reach = ?", subject, reach)
      .toArray();
    const buckets = row ? (JSON.parse(row.buckets) as [startMs: number, calls: number][]) : [];
    // Counts dated in the future, left by a clock that was set back, count from now.
    for (const [startMs, calls] of buckets) window.calls.add(Math.min(startMs, nowMs), calls);
    if (this.#windows.size >= CACHED_WINDOWS) this.#windows.clear();
    this.#windows.set(name, window);
    return window;
  }

  #write(subject: Subject, reach: FreeReach, window: Window, nowMs: number): void {
    window.calls.used(nowMs);
    this.#sql.exec(
      `INSERT INTO free_calls (subject, reach, buckets, written_at_ms) VALUES (?, ?, ?, ?)
       ON CONFLICT (subject, reach) DO UPDATE SET buckets = excluded.buckets, written_at_ms = excluded.written_at_ms`,
      subject,
      reach,
      JSON.stringify(window.calls.buckets()),
      nowMs,
    );
    window.unwritten = 0;
  }
}

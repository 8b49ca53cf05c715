/**
 * Calls that cost nothing, counted over a trailing minute for each subject that limits them.
 *
 * They leave no hold row to count by, and memory is lost whenever the object is evicted, which a client brings about by ten
 * seconds of silence. So a window is a row of its own, read when its subject first calls. One that reached an upstream is
 * written at once: no restart forgets it. One that did not is written with the next of a sixtieth part of what a minute
 * allows: an eviction forgets fewer than that, so even a client that is silent for ten seconds after each burst has
 * less than a tenth more than its limit, for hardly a row.
 */
import { type FreeReach, type FreeUse, freeRefusal } from "../../../core/account/free-calls.ts";
import { MINUTE, TrailingCount } from "../../../core/account/trailing-count.ts";
import type { Refusal } from "../../../core/refusal.ts";
import type { Sql } from "../schema.ts";
import type { Subject } from "./limit-scopes.ts";

/** One level's window. */
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
/** A row stays this long after it was written, ms. */
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

  /** Counts one call at every level, or says which has no room. */
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

  /** The call that was counted is paid for after all. */
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
    // What a clock that was set back left in the future counts from now.
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

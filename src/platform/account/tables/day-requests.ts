/**
 * Requests of the last 24 hours in slots of 10 minutes, for `rpd_limit`. Sums in SQL cover all holds up to a mark; the
 * holds admitted since then are counted in memory (read from the hold rows at load). After every `ROLL_UP_EVERY`
 * admissions they are added to the sums and the mark moves. This costs a fraction of a row per call instead of one row
 * per level.
 */
import { DAY, TrailingCount } from "../../../core/account/trailing-count.ts";
import type { Sql } from "../schema.ts";
import type { RecentHold } from "./holds.ts";
import { addTo, eachSum, type Party, type Subject, subjectsOf } from "./limit-scopes.ts";

/** Admissions between two roll-ups: the most that a restart reads again. */
const ROLL_UP_EVERY = 256;
/** Windows kept in memory; beyond it all are dropped and read again. */
const CACHED_WINDOWS = 2_000;

export class DayRequests {
  readonly #sql: Sql;
  /** Requests per slot that are not in the sums yet. */
  readonly #tail = new Map<Subject, Map<number, number>>();
  readonly #windows = new Map<Subject, TrailingCount>();
  #through: number;
  #lastSeq: number;
  /** When the mark last moved. */
  readonly rolledUpAtMs: number;

  constructor(sql: Sql) {
    this.#sql = sql;
    const mark = sql
      .exec<{ holds_through: number; holds_at_ms: number }>("SELECT holds_through, holds_at_ms FROM marks")
      .one();
    this.#through = mark.holds_through;
    this.#lastSeq = mark.holds_through;
    this.rolledUpAtMs = mark.holds_at_ms;
  }

  /** Counts a row read at load. */
  load(hold: RecentHold): void {
    if (hold.rental !== null || hold.lease || hold.seq <= this.#through) return;
    this.#lastSeq = Math.max(this.#lastSeq, hold.seq);
    for (const subject of subjectsOf(hold)) addTo(this.#tail, subject, slotOf(hold.admittedAtMs), 1);
  }

  /** The number for the next hold. */
  get nextSeq(): number {
    return this.#lastSeq + 1;
  }

  admitted(party: Party, atMs: number): void {
    this.#lastSeq += 1;
    for (const subject of subjectsOf(party)) {
      addTo(this.#tail, subject, slotOf(atMs), 1);
      this.#windows.get(subject)?.add(atMs, 1);
    }
    if (this.#lastSeq - this.#through >= ROLL_UP_EVERY) this.#rollUp(atMs);
  }

  /** Counts requests that have no hold of their own. They go into the sums at once. */
  lost(party: Party, atMs: number, requests: number): void {
    if (requests === 0) return;
    for (const subject of subjectsOf(party)) {
      this.#sum(subject, slotOf(atMs), requests);
      this.#windows.get(subject)?.add(atMs, requests);
    }
  }

  window(subject: Subject, nowMs: number): TrailingCount {
    const known = this.#windows.get(subject);
    if (known) return known;
    const window = new TrailingCount(DAY);
    for (const [slot, requests] of this.#sums(subject, nowMs)) window.add(slot * DAY.bucketMs, requests);
    for (const [slot, requests] of this.#tail.get(subject) ?? []) window.add(slot * DAY.bucketMs, requests);
    if (this.#windows.size >= CACHED_WINDOWS) this.#windows.clear();
    this.#windows.set(subject, window);
    return window;
  }

  /**
   * Deletes at most `limit` sums that no window needs. Afterwards the rows of ended holds may go: the sums have them.
   */
  prune(nowMs: number, limit: number): void {
    if (this.#tail.size > 0) this.#rollUp(nowMs);
    this.#sql.exec(
      `DELETE FROM requests_by_slot WHERE (slot, subject) IN
         (SELECT slot, subject FROM requests_by_slot WHERE slot < ? LIMIT ?)`,
      firstSlot(nowMs),
      limit,
    );
  }

  nextPruneMs(): number | null {
    const { slot } = this.#sql.exec<{ slot: number | null }>("SELECT min(slot) AS slot FROM requests_by_slot").one();
    return slot === null ? null : (slot + 1) * DAY.bucketMs + DAY.spanMs;
  }

  /** One look-up per slot. The table is ordered by slot first, so that old slots can be deleted as one range. */
  *#sums(subject: Subject, nowMs: number): Iterable<[number, number]> {
    const first = firstSlot(nowMs);
    const slots = Array.from({ length: slotOf(nowMs) - first + 1 }, (_, index) => first + index);
    const rows = this.#sql.exec<{ slot: number; requests: number }>(
      `SELECT slot, requests FROM json_each(?) JOIN requests_by_slot ON slot = json_each.value WHERE subject = ?`,
      JSON.stringify(slots),
      subject,
    );
    for (const row of rows) yield [row.slot, row.requests];
  }

  #sum(subject: Subject, slot: number, requests: number): void {
    this.#sql.exec(
      `INSERT INTO requests_by_slot VALUES (?, ?, ?)
       ON CONFLICT (slot, subject) DO UPDATE SET requests = requests + excluded.requests`,
      slot,
      subject,
      requests,
    );
  }

  #rollUp(nowMs: number): void {
    for (const [subject, slot, requests] of eachSum(this.#tail)) this.#sum(subject, slot, requests);
    this.#sql.exec("UPDATE marks SET holds_through = ?, holds_at_ms = ?", this.#lastSeq, nowMs);
    this.#through = this.#lastSeq;
    this.#tail.clear();
  }
}

const slotOf = (timeMs: number): number => Math.floor(timeMs / DAY.bucketMs);

/** The oldest slot that a window ending now still counts. */
const firstSlot = (nowMs: number): number => slotOf(nowMs - DAY.spanMs);

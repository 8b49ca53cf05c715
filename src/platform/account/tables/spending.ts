/**
 * What each key, team and account has spent per UTC day, for budgets. Sums in SQL cover the ledger's charges up to a
 * mark; charges since then are summed in memory. What a correction gives back of a
 * rental's charge counts too. Because these are sums of the ledger, a budget set later counts
 * earlier spending too.
 */

import { budgetWindow, DAY_MS, dayOf } from "../../../core/account/budgets.ts";
import { BUDGET_DURATIONS, type BudgetDuration } from "../../../core/account/tenant.ts";
import type { KeyId, TeamId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";
import { addTo, eachSum, type Party, type Subject, subjectsOf } from "./limit-scopes.ts";

/** Ledger entries between two roll-ups: the most that a restart reads again. */
const ROLL_UP_EVERY = 256;
/** Sums kept in memory; beyond it all are dropped and read again. */
const CACHED_SUMS = 4_000;

interface Sum {
  readonly firstDay: number;
  /** The first day after the window; infinite for `total`. */
  readonly endDay: number;
  spentNanoUsd: number;
}

export class Spending {
  readonly #sql: Sql;
  /** Nano-USD per day that are not in the sums yet. */
  readonly #tail = new Map<Subject, Map<number, number>>();
  /** When each was last charged, since the last roll-up. */
  readonly #last = new Map<Subject, number>();
  readonly #sums = new Map<`${BudgetDuration} ${Subject}`, Sum>();
  #through: number;
  /** Who was charged since they were last taken. */
  #charged: Party[] = [];

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#through = sql.exec<{ through: number }>("SELECT entries_through AS through FROM marks").one().through;
    const rows = sql.exec<{ key_id: string; team_id: string | null; at_ms: number; amount_nano_usd: number }>(
      `SELECT key_id, team_id, coalesce(counts_at_ms, at_ms) AS at_ms, amount_nano_usd FROM entries
       WHERE id > ? AND (kind = 'charge' OR (call_id IS NOT NULL AND reference IS NULL))`,
      this.#through,
    );
    for (const row of rows) {
      const party = { keyId: row.key_id as KeyId, teamId: row.team_id as TeamId | null };
      for (const subject of subjectsOf(party)) {
        addTo(this.#tail, subject, dayOf(row.at_ms), -row.amount_nano_usd);
        this.#last.set(subject, row.at_ms);
      }
    }
  }

  /** Counts a charge entered in the ledger as `entryId`; a negative one gives back. */
  charged(party: Party, amountNanoUsd: number, atMs: number, entryId: number): void {
    const day = dayOf(atMs);
    const last = this.#charged.at(-1);
    const again = last?.keyId === party.keyId && last.teamId === party.teamId;
    if (amountNanoUsd > 0 && !again) this.#charged.push(party);
    for (const subject of subjectsOf(party)) {
      addTo(this.#tail, subject, day, amountNanoUsd);
      this.#last.set(subject, atMs);
      for (const duration of BUDGET_DURATIONS) {
        const sum = this.#sums.get(`${duration} ${subject}`);
        if (sum && day >= sum.firstDay && day < sum.endDay) sum.spentNanoUsd += amountNanoUsd;
      }
    }
    this.entered(entryId);
  }

  /** Who was charged since this was last asked. */
  takeCharged(): readonly Party[] {
    if (this.#charged.length === 0) return this.#charged;
    const charged = this.#charged;
    this.#charged = [];
    return charged;
  }

  /** Moves the mark if the ledger has grown enough, by entries of any kind. */
  entered(entryId: number): void {
    if (entryId - this.#through >= ROLL_UP_EVERY) this.#rollUp(entryId);
  }

  /** Before entries leave: no restart may need them. `lastId`: the ledger's. */
  sumUp(lastId: number): void {
    if (this.#through < lastId) this.#rollUp(lastId);
  }

  /** Charged in the budget window that contains `nowMs`. */
  spent(subject: Subject, duration: BudgetDuration, nowMs: number): number {
    const { firstDay, endsAtMs } = budgetWindow(duration, nowMs);
    const known = this.#sums.get(`${duration} ${subject}`);
    if (known?.firstDay === firstDay) return known.spentNanoUsd;
    // Charges dated later were made while the clock was ahead; they count when their window comes.
    const endDay = endsAtMs === null ? Number.MAX_SAFE_INTEGER : dayOf(endsAtMs);
    const spentNanoUsd = this.#summed(subject, firstDay, endDay) + this.#recent(subject, firstDay, endDay);
    if (this.#sums.size >= CACHED_SUMS) this.#sums.clear();
    this.#sums.set(`${duration} ${subject}`, { firstDay, endDay, spentNanoUsd });
    return spentNanoUsd;
  }

  /** When it was last charged; null: never. Sums of before this was kept give the day's beginning. */
  lastMs(subject: Subject): number | null {
    const { last } = this.#sql
      .exec<{ last: number | null }>(
        "SELECT max(coalesce(last_ms, day * 86400000)) AS last FROM spent_by_day WHERE subject = ?",
        subject,
      )
      .one();
    const recent = this.#last.get(subject) ?? null;
    return recent === null || last === null ? (recent ?? last) : Math.max(recent, last);
  }

  #summed(subject: Subject, firstDay: number, endDay: number): number {
    return this.#sql
      .exec<{ spent: number }>(
        "SELECT coalesce(sum(spent_nano_usd), 0) AS spent FROM spent_by_day WHERE subject = ? AND day >= ? AND day < ?",
        subject,
        firstDay,
        endDay,
      )
      .one().spent;
  }

  #recent(subject: Subject, firstDay: number, endDay: number): number {
    let spentNanoUsd = 0;
    for (const [day, amount] of this.#tail.get(subject) ?? []) {
      if (day >= firstDay && day < endDay) spentNanoUsd += amount;
    }
    return spentNanoUsd;
  }

  #rollUp(entryId: number): void {
    for (const [subject, day, amount] of eachSum(this.#tail)) {
      this.#sql.exec(
        `INSERT INTO spent_by_day (subject, day, spent_nano_usd, last_ms) VALUES (?, ?, ?, ?)
         ON CONFLICT (subject, day) DO UPDATE
         SET spent_nano_usd = spent_nano_usd + excluded.spent_nano_usd, last_ms = max(coalesce(last_ms, 0), excluded.last_ms)`,
        subject,
        day,
        amount,
        this.#last.get(subject) ?? day * DAY_MS,
      );
    }
    this.#sql.exec("UPDATE marks SET entries_through = ?", entryId);
    this.#through = entryId;
    this.#tail.clear();
    this.#last.clear();
  }
}

/**
 * What the account's owners and the operator are told: alerts go into the outbox in the transaction that makes them
 * true. Marks remember what was told, where a figure alone does not say it.
 */
import { DAY_MS, dayOf } from "../../../core/account/budgets.ts";
import type { Alert, News } from "../../../core/alerts/alert.ts";
import type { BudgetMark } from "../../../core/alerts/thresholds.ts";
import type { AccountId } from "../../../core/ids.ts";
import type { Sql } from "../schema.ts";
import type { Subject } from "./limit-scopes.ts";
import type { Outbox } from "./outbox.ts";

/** Marks of budgets kept in memory; beyond it all are dropped and read again. */
const CACHED_MARKS = 4_000;
/** Marks of a day go after this. */
const MARK_KEPT_MS = 2 * DAY_MS;
const DAILY = "day ";

export class Alerts {
  readonly #sql: Sql;
  readonly #outbox: Outbox;
  readonly #budgets = new Map<Subject, BudgetMark | null>();

  constructor(sql: Sql, outbox: Outbox) {
    this.#sql = sql;
    this.#outbox = outbox;
  }

  tell(account: AccountId, news: News, nowMs: number): void {
    this.#outbox.tell({ id: `evt_${crypto.randomUUID()}`, account, atMs: nowMs, ...news } as Alert);
  }

  /** True the first time that this name is asked for on a UTC day. */
  firstToday(name: string, nowMs: number): boolean {
    const day = String(dayOf(nowMs));
    if (this.#told(DAILY + name) === day) return false;
    this.#sql.exec(
      "DELETE FROM alert_marks WHERE at_ms < ? AND name >= ? AND name < ?",
      nowMs - MARK_KEPT_MS,
      DAILY,
      `${DAILY}\u{10ffff}`,
    );
    this.#mark(DAILY + name, day, nowMs);
    return true;
  }

  budgetMark(subject: Subject): BudgetMark | null {
    const cached = this.#budgets.get(subject);
    if (cached !== undefined) return cached;
    const told = this.#told(`budget ${subject}`);
    const mark = told === undefined ? null : (JSON.parse(told) as BudgetMark);
    if (this.#budgets.size >= CACHED_MARKS) this.#budgets.clear();
    this.#budgets.set(subject, mark);
    return mark;
  }

  markBudget(subject: Subject, mark: BudgetMark, nowMs: number): void {
    this.#budgets.set(subject, mark);
    this.#mark(`budget ${subject}`, JSON.stringify(mark), nowMs);
  }

  #told(name: string): string | undefined {
    return this.#sql.exec<{ told: string }>("SELECT told FROM alert_marks WHERE name = ?", name).toArray()[0]?.told;
  }

  #mark(name: string, told: string, nowMs: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO alert_marks VALUES (?, ?, ?)", name, told, nowMs);
  }
}

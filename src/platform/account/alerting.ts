/**
 * The account's alerts about money and keys, decided at the end of each transaction that may have moved them: the
 * figures are exact there, and what is told is stored with what made it true. A transaction that moved nothing costs
 * nothing.
 */
import { budgetWindow } from "../../core/account/budgets.ts";
import { floorOf } from "../../core/account/ledger.ts";
import type { Key, Limits } from "../../core/account/tenant.ts";
import { budgetStep, type Purse, purseAlerts } from "../../core/alerts/thresholds.ts";
import { type AccountId, asId, type KeyId, type TeamId } from "../../core/ids.ts";
import { toUsd } from "../../core/pricing/money.ts";
import type { LimitLevel } from "../../core/refusal.ts";
import { isFilling, STORE_LIMIT_BYTES } from "../store-sizes.ts";
import type { Books } from "./state.ts";
import type { Party, Subject } from "./tables/limit-scopes.ts";

/** Keys told of in one transaction. */
const WARNED_AT_ONCE = 200;

export function purseOf({ tenants, ledger }: Books): Purse {
  const account = tenants.account();
  return {
    balanceNanoUsd: ledger.balanceNanoUsd,
    floorNanoUsd: floorOf(account),
    lowNanoUsd: account.lowBalanceNanoUsd ?? null,
  };
}

/** `before`: the purse as the transaction found it. */
export function tellChanges(books: Books, before: Purse, nowMs: number): void {
  tellPurse(books, before, nowMs);
  for (const party of books.spending.takeCharged()) tellBudgets(books, party, nowMs);
}

function tellPurse(books: Books, before: Purse, nowMs: number): void {
  const after = purseOf(books);
  const { low, empty } = purseAlerts(before, after);
  if (!low && !empty) return;
  const { id } = books.tenants.account();
  const balance_usd = toUsd(after.balanceNanoUsd);
  if (low) {
    const data = { balance_usd, threshold_usd: toUsd(after.lowNanoUsd ?? 0) };
    books.alerts.tell(id, { type: "balance.low", data }, nowMs);
  }
  if (empty) {
    const data = { balance_usd, credit_limit_usd: toUsd(0 - after.floorNanoUsd) };
    books.alerts.tell(id, { type: "balance.empty", data }, nowMs);
  }
}

function tellBudgets(books: Books, { keyId, teamId }: Party, nowMs: number): void {
  tellBudget(books, "key", keyId, nowMs);
  if (teamId !== null) tellBudget(books, "team", teamId, nowMs);
  tellBudget(books, "account", books.tenants.account().id, nowMs);
}

/** Where does one budget stand? Asked after a charge, and after a change of the budget. `of`: the id of its level. */
export function tellBudget(books: Books, level: LimitLevel, of: string, nowMs: number): void {
  const subject = (level === "account" ? level : `${level}:${of}`) as Subject;
  const limits = limitsOf(books, level, of);
  if (!limits || limits.maxBudgetNanoUsd === null) return;
  const { budgetDuration: duration, maxBudgetNanoUsd: budgetNanoUsd } = limits;
  const { firstDay, endsAtMs } = budgetWindow(duration, nowMs);
  const spentNanoUsd = books.spending.spent(subject, duration, nowMs);
  const known = books.alerts.budgetMark(subject);
  const { tell, mark } = budgetStep(known, { window: `${duration} ${firstDay}`, budgetNanoUsd, spentNanoUsd });
  if (mark && mark !== known) books.alerts.markBudget(subject, mark, nowMs);
  for (const percent of tell) {
    const data = {
      level,
      of,
      percent,
      spent_usd: toUsd(spentNanoUsd),
      budget_usd: toUsd(budgetNanoUsd),
      budget_duration: duration,
      resets_at: endsAtMs === null ? null : new Date(endsAtMs).toISOString(),
    };
    books.alerts.tell(books.tenants.account().id, { type: "budget.threshold", data }, nowMs);
  }
}

function limitsOf({ keys, tenants }: Books, level: LimitLevel, of: string): Limits | null {
  if (level === "key") return keys.limits(asId<KeyId>(of));
  return level === "team" ? (tenants.team(asId<TeamId>(of))?.limits ?? null) : tenants.account().limits;
}

export const keyNamed = ({ id, name, team }: Key) => ({ key: id, name, team });

/** Tells of keys that will expire. Called by the alarm. */
export function tellExpiring(books: Books, nowMs: number): void {
  const dueMs = books.keys.nextWarnMs();
  if (dueMs === null || nowMs < dueMs) return;
  const { id } = books.tenants.account();
  for (const key of books.keys.takeWarned(nowMs, WARNED_AT_ONCE)) {
    if (key.expiresAtMs === null) continue;
    const data = { ...keyNamed(key), expires_at: new Date(key.expiresAtMs).toISOString() };
    books.alerts.tell(id, { type: "key.expiring", data }, nowMs);
  }
}

/** Tells once a day that the object's storage is filling up. Returns whose it is. */
export function tellSize(books: Books, bytes: number, nowMs: number): AccountId {
  const { id } = books.tenants.account();
  if (isFilling(bytes) && books.alerts.firstToday("size", nowMs)) {
    const data = { store: "account", bytes, limit_bytes: STORE_LIMIT_BYTES };
    books.alerts.tell(id, { type: "store.filling", data }, nowMs);
  }
  return id;
}

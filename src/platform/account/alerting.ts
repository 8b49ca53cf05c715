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
import type { AccountState } from "./state.ts";
import type { Party, Subject } from "./tables/limit-scopes.ts";

/** Keys told of in one transaction. */
const WARNED_AT_ONCE = 200;

export function purseOf({ tenants, ledger }: AccountState): Purse {
  const account = tenants.account();
  return {
    balanceNanoUsd: ledger.balanceNanoUsd,
    floorNanoUsd: floorOf(account),
    lowNanoUsd: account.lowBalanceNanoUsd ?? null,
  };
}

/** `before`: the purse as the transaction found it. */
export function tellChanges(state: AccountState, before: Purse, nowMs: number): void {
  tellPurse(state, before, nowMs);
  for (const party of state.spending.takeCharged()) tellBudgets(state, party, nowMs);
}

function tellPurse(state: AccountState, before: Purse, nowMs: number): void {
  const after = purseOf(state);
  const { low, empty } = purseAlerts(before, after);
  if (!low && !empty) return;
  const { id } = state.tenants.account();
  const balance_usd = toUsd(after.balanceNanoUsd);
  if (low) {
    const data = { balance_usd, threshold_usd: toUsd(after.lowNanoUsd ?? 0) };
    state.alerts.tell(id, { type: "balance.low", data }, nowMs);
  }
  if (empty) {
    const data = { balance_usd, credit_limit_usd: toUsd(0 - after.floorNanoUsd) };
    state.alerts.tell(id, { type: "balance.empty", data }, nowMs);
  }
}

function tellBudgets(state: AccountState, { keyId, teamId }: Party, nowMs: number): void {
  tellBudget(state, "key", keyId, nowMs);
  if (teamId !== null) tellBudget(state, "team", teamId, nowMs);
  tellBudget(state, "account", state.tenants.account().id, nowMs);
}

/** Where does one budget stand? Asked after a charge, and after a change of the budget. `of`: the id of its level. */
export function tellBudget(state: AccountState, level: LimitLevel, of: string, nowMs: number): void {
  const subject = (level === "account" ? level : `${level}:${of}`) as Subject;
  const limits = limitsOf(state, level, of);
  if (!limits || limits.maxBudgetNanoUsd === null) return;
  const { budgetDuration: duration, maxBudgetNanoUsd: budgetNanoUsd } = limits;
  const { firstDay, endsAtMs } = budgetWindow(duration, nowMs);
  const spentNanoUsd = state.spending.spent(subject, duration, nowMs);
  const known = state.alerts.budgetMark(subject);
  const { tell, mark } = budgetStep(known, { window: `${duration} ${firstDay}`, budgetNanoUsd, spentNanoUsd });
  if (mark && mark !== known) state.alerts.markBudget(subject, mark, nowMs);
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
    state.alerts.tell(state.tenants.account().id, { type: "budget.threshold", data }, nowMs);
  }
}

function limitsOf({ keys, tenants }: AccountState, level: LimitLevel, of: string): Limits | null {
  if (level === "key") return keys.limits(asId<KeyId>(of));
  return level === "team" ? (tenants.team(asId<TeamId>(of))?.limits ?? null) : tenants.account().limits;
}

export const keyNamed = ({ id, name, team }: Key) => ({ key: id, name, team });

/** Tells of keys that will expire. Called by the alarm. */
export function tellExpiring(state: AccountState, nowMs: number): void {
  const dueMs = state.keys.nextWarnMs();
  if (dueMs === null || nowMs < dueMs) return;
  const { id } = state.tenants.account();
  for (const key of state.keys.takeWarned(nowMs, WARNED_AT_ONCE)) {
    if (key.expiresAtMs === null) continue;
    const data = { ...keyNamed(key), expires_at: new Date(key.expiresAtMs).toISOString() };
    state.alerts.tell(id, { type: "key.expiring", data }, nowMs);
  }
}

/** Tells once a day that the object's storage is filling up. Returns whose it is. */
export function tellSize(state: AccountState, bytes: number, nowMs: number): AccountId {
  const { id } = state.tenants.account();
  if (isFilling(bytes) && state.alerts.firstToday("size", nowMs)) {
    const data = { store: "account", bytes, limit_bytes: STORE_LIMIT_BYTES };
    state.alerts.tell(id, { type: "store.filling", data }, nowMs);
  }
  return id;
}

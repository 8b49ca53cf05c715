/**
 * Budgets: what a key, team or account may spend in a calendar window (UTC).
 *
 * The window is computed from the current time; no job resets it. Spent is the sum of the ledger's charges since the
 * window began, by the time of each charge. Open holds count too, since they will be charged in this window or a later
 * one. So the charges of a window never exceed its budget, even for calls that run across its end.
 */
import type { LimitLevel, Refusal } from "../refusal.ts";
import type { BudgetDuration } from "./tenant.ts";

export const DAY_MS = 86_400_000;

/** Days since 1970-01-01 UTC. Spending is summed per day. */
export const dayOf = (timeMs: number): number => Math.floor(timeMs / DAY_MS);

/** Begins with `firstDay`; `endsAtMs` is exclusive, and null for `total`. */
export interface BudgetWindow {
  readonly firstDay: number;
  readonly endsAtMs: number | null;
}

/** The window of this length that contains `nowMs`. Weeks begin on Monday. */
export function budgetWindow(duration: BudgetDuration, nowMs: number): BudgetWindow {
  const day = dayOf(nowMs);
  switch (duration) {
    case "day":
      return { firstDay: day, endsAtMs: (day + 1) * DAY_MS };
    case "week": {
      const firstDay = day - daysSinceMonday(nowMs);
      return { firstDay, endsAtMs: (firstDay + 7) * DAY_MS };
    }
    case "month":
      return { firstDay: dayOf(firstOfMonthMs(nowMs, 0)), endsAtMs: firstOfMonthMs(nowMs, 1) };
    case "total":
      return { firstDay: 0, endsAtMs: null };
  }
}

const daysSinceMonday = (timeMs: number): number => (new Date(timeMs).getUTCDay() + 6) % 7;

/** When the month of `timeMs` began, or one that comes `later` months after it. */
function firstOfMonthMs(timeMs: number, later: number): number {
  const date = new Date(timeMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1);
}

/** One level's budget and how much of it is used. Levels without a budget are left out. */
export interface BudgetUse {
  readonly level: LimitLevel;
  readonly budgetNanoUsd: number;
  readonly duration: BudgetDuration;
  /** When the window ends; null for `total`. */
  readonly endsAtMs: number | null;
  /** Charged in this window. */
  readonly spentNanoUsd: number;
  /** Set aside for calls in flight. */
  readonly heldNanoUsd: number;
}

/** The amount that all budgets leave for one more call; infinite without a budget. */
export function budgetRoom(budgets: readonly BudgetUse[]): number {
  return Math.min(...budgets.map(roomIn));
}

const roomIn = (use: BudgetUse): number => use.budgetNanoUsd - use.spentNanoUsd - use.heldNanoUsd;

/** The refusal of the first budget without room for `amountNanoUsd`. `budgets` are ordered narrowest level first. */
export function budgetRefusal(
  budgets: readonly BudgetUse[],
  amountNanoUsd: number,
  nowMs: number,
): Refusal | undefined {
  const spent = budgets.find((use) => amountNanoUsd > roomIn(use));
  if (!spent) return undefined;
  const { level, budgetNanoUsd, duration, endsAtMs } = spent;
  const renews = endsAtMs !== null && amountNanoUsd <= budgetNanoUsd;
  return { kind: "budget_spent", level, budgetNanoUsd, duration, retryAfterMs: renews ? endsAtMs - nowMs : null };
}

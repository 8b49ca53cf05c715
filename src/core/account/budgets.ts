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
      // 1970-01-01 was a Thursday: day 4 was the first Monday.
      const firstDay = day - ((((day - 4) % 7) + 7) % 7);
      return { firstDay, endsAtMs: (firstDay + 7) * DAY_MS };
    }
    case "month": {
      const { year, month } = civilOf(day);
      const next = month === 12 ? firstOf(year + 1, 1) : firstOf(year, month + 1);
      return { firstDay: firstOf(year, month), endsAtMs: next * DAY_MS };
    }
    case "total":
      return { firstDay: 0, endsAtMs: null };
  }
}

/**
 * Year and month (1 to 12) of a day number, in the proleptic Gregorian calendar. Years are counted from March, so that
 * the leap day comes last, in eras of 400 years (146,097 days); 719,468 days lie between 0000-03-01 and 1970-01-01.
 */
function civilOf(day: number): { year: number; month: number } {
  const shifted = day + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1_460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const marchMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month };
}

/** The day number of a month's first day. */
function firstOf(year: number, month: number): number {
  const marchYear = month <= 2 ? year - 1 : year;
  const era = Math.floor(marchYear / 400);
  const yearOfEra = marchYear - era * 400;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5);
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
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

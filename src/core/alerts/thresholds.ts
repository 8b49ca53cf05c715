/**
 * When a figure crosses a threshold. A balance is told each time it comes down to its threshold from above. A budget is
 * told once in its window: charges that are given back do not arm it again, a change of the budget does.
 */
import { BUDGET_PERCENTS, type BudgetPercent } from "./alert.ts";

/** An account's money at one moment, nano-USD. */
export interface Purse {
  readonly balanceNanoUsd: number;
  /** 0, or minus the credit limit. */
  readonly floorNanoUsd: number;
  /** Null: no threshold is set. */
  readonly lowNanoUsd: number | null;
}

const isLow = ({ balanceNanoUsd, lowNanoUsd }: Purse): boolean => lowNanoUsd !== null && balanceNanoUsd <= lowNanoUsd;
const isEmpty = ({ balanceNanoUsd, floorNanoUsd }: Purse): boolean => balanceNanoUsd <= floorNanoUsd;

/** What one transaction made true. Decided from both sides of it, so no state can differ from the ledger. */
export const purseAlerts = (before: Purse, after: Purse) => ({
  low: isLow(after) && !isLow(before),
  empty: isEmpty(after) && !isEmpty(before),
});

/** What was told of one budget. */
export interface BudgetMark {
  /** The window: its length and first day. */
  readonly window: string;
  readonly budgetNanoUsd: number;
  /** The highest that was told; 0: none. */
  readonly percent: number;
}

export interface BudgetFigures {
  readonly window: string;
  readonly budgetNanoUsd: number;
  readonly spentNanoUsd: number;
}

/**
 * The percentages to tell now, lowest first, and the mark to keep. `mark` is the same object where nothing has to be
 * written.
 */
export function budgetStep(
  mark: BudgetMark | null,
  { window, budgetNanoUsd, spentNanoUsd }: BudgetFigures,
): { readonly tell: readonly BudgetPercent[]; readonly mark: BudgetMark | null } {
  const reached = BUDGET_PERCENTS.findLast((percent) => reaches(spentNanoUsd, budgetNanoUsd, percent)) ?? 0;
  const known = mark?.window === window ? mark : null;
  // If the budget was changed, only what is still reached counts as told.
  const told = known?.budgetNanoUsd === budgetNanoUsd ? known.percent : Math.min(known?.percent ?? 0, reached);
  const percent = Math.max(reached, told);
  const tell = BUDGET_PERCENTS.filter((one) => one > told && one <= reached);
  const same = known ? known.percent === percent && known.budgetNanoUsd === budgetNanoUsd : percent === 0;
  return { tell, mark: same ? mark : { window, budgetNanoUsd, percent } };
}

/** Exact for every amount: no product leaves the safe integers. A budget of 0 has no thresholds. */
function reaches(spentNanoUsd: number, budgetNanoUsd: number, percent: number): boolean {
  if (budgetNanoUsd <= 0) return false;
  const rest = budgetNanoUsd % 100;
  const threshold = ((budgetNanoUsd - rest) / 100) * percent + Math.ceil((rest * percent) / 100);
  return spentNanoUsd >= threshold;
}

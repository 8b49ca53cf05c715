/**
 * Decides whether to admit one call. The facts are read in the transaction that will write the hold.
 *
 * Checked in this order: limits (narrowest level first), price, budgets (narrowest first), balance; the first without
 * room gives the refusal. If the caller named no output cap, only the smallest useful cap has to fit, and the call is
 * granted the largest cap that tokens, budgets and balance allow. Whether the key may call at all was decided before.
 */

import { type Outcome, refused } from "../outcome.ts";
import { dearestOf, pricesCover, type UnitPrices } from "../pricing/prices.ts";
import { countedTokens } from "../pricing/usage.ts";
import { type BudgetUse, budgetRefusal, budgetRoom } from "./budgets.ts";
import { type Bound, boundUsage, MIN_OUTPUT_CAP } from "./hold.ts";
import { creditRefusal, type Money, moneyRoom } from "./ledger.ts";
import { type LevelUse, limitRefusal, tokenRoom } from "./limits.ts";

export interface AdmissionFacts {
  readonly model: string;
  readonly bound: Bound;
  readonly prices: UnitPrices;
  /** Costs the tenant nothing, even in units that have no price. */
  readonly free: boolean;
  /** Narrowest first. */
  readonly levels: readonly LevelUse[];
  /** Narrowest first. */
  readonly budgets: readonly BudgetUse[];
  readonly money: Money;
  readonly nowMs: number;
}

/** What an admitted call sets aside. */
interface Grant {
  readonly amountNanoUsd: number;
  /** Counts against `tpm_limit` until the actual figure is known. */
  readonly countedTokens: number;
  /** Output tokens per choice; undefined if the endpoint has no cap. */
  readonly outputCap: number | undefined;
}

export type AdmissionDecision = Outcome<{ grant: Grant }>;

export function decideAdmission(facts: AdmissionFacts): AdmissionDecision {
  const { bound, levels, budgets, money, nowMs } = facts;
  const least = grantFor(facts, leastCap(bound));
  const limited = limitRefusal(levels, least.countedTokens, nowMs);
  if (limited) return refused(limited);
  if (!facts.free && !pricesCover(boundUsage(bound, undefined), facts.prices)) {
    return refused({ kind: "model_not_priced", model: facts.model });
  }
  const poor =
    (least.amountNanoUsd > 0 ? budgetRefusal(budgets, least.amountNanoUsd, nowMs) : undefined) ??
    creditRefusal(money, least.amountNanoUsd);
  if (poor) return refused(poor);
  if (!bound.output?.lowerable) return { ok: true, grant: least };
  // Stryker disable next-line LogicalOperator: a lower start finds the same grant
  return { ok: true, grant: greatestGrant(facts, least.outputCap ?? 0, bound.output.cap) };
}

/** The cap that has to fit: the caller's own, or the smallest useful one if admission may choose. */
function leastCap(bound: Bound): number | undefined {
  if (!bound.output?.lowerable) return bound.output?.cap;
  return Math.min(MIN_OUTPUT_CAP, bound.output.cap);
}

function grantFor(facts: AdmissionFacts, outputCap: number | undefined): Grant {
  const usage = boundUsage(facts.bound, outputCap);
  const amountNanoUsd = facts.free ? 0 : Math.min(dearestOf(usage, facts.prices), Number.MAX_SAFE_INTEGER);
  return { amountNanoUsd, countedTokens: countedTokens(usage), outputCap };
}

/**
 * The grant with the largest cap from `fitting` to `wanted` that fits. What a grant needs grows with its cap, so a
 * binary search finds it.
 */
function greatestGrant(facts: AdmissionFacts, fitting: number, wanted: number): Grant {
  const tokens = tokenRoom(facts.levels, facts.nowMs);
  const nanoUsd = Math.min(budgetRoom(facts.budgets), moneyRoom(facts.money));
  const fits = (grant: Grant) =>
    grant.countedTokens <= tokens && (grant.amountNanoUsd === 0 || grant.amountNanoUsd <= nanoUsd);
  const whole = grantFor(facts, wanted);
  if (fits(whole)) return whole;
  let low = fitting;
  let high = wanted;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(grantFor(facts, middle))) low = middle;
    else high = middle;
  }
  return grantFor(facts, low);
}

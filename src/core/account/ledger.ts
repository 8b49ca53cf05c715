/**
 * The rules of the ledger: hold, settle, release, expire, credit.
 *
 * Two phases, as in banking: a hold sets money aside, and exactly one of three ends resolves it. A charge never exceeds
 * its hold; the excess is the operator's overrun. Balance minus holds stays at or above the floor after every step. An
 * expired hold accepts one late end, which corrects its charge.
 */
import { MAX_NANO_USD } from "../pricing/money.ts";
import type { Refusal } from "../refusal.ts";
import type { AccountFields, Credit } from "./tenant.ts";

/** An account's money at one moment, nano-USD. */
export interface Money {
  /** Sum of the ledger's entries. */
  readonly balanceNanoUsd: number;
  /** Sum of the open holds. */
  readonly heldNanoUsd: number;
  /** Balance minus holds never goes below this: 0, or minus the credit limit of an account that pays monthly. */
  readonly floorNanoUsd: number;
}

/** The lowest allowed value of balance minus holds. */
export function floorOf(fields: Pick<AccountFields, "billsMonthly" | "creditLimitNanoUsd">): number {
  return fields.billsMonthly ? 0 - Math.min(fields.creditLimitNanoUsd, MAX_NANO_USD) : 0;
}

/** What one more hold may take; negative if the floor was raised above what is already used. */
export const moneyRoom = (money: Money): number => money.balanceNanoUsd - money.heldNanoUsd - money.floorNanoUsd;

/** Why `amountNanoUsd` cannot be held; undefined if it can. A call that costs nothing needs no credit. */
export function creditRefusal(money: Money, amountNanoUsd: number): Refusal | undefined {
  const availableNanoUsd = moneyRoom(money);
  if (amountNanoUsd === 0 || amountNanoUsd <= availableNanoUsd) return undefined;
  return {
    kind: "no_credit",
    neededNanoUsd: amountNanoUsd,
    availableNanoUsd: Math.max(0, availableNanoUsd),
    heldNanoUsd: money.heldNanoUsd,
  };
}

/** Splits a call's actual price: the tenant pays up to the hold, the operator the rest. */
export function splitCharge(
  actualNanoUsd: number,
  heldNanoUsd: number,
): { chargedNanoUsd: number; overrunNanoUsd: number } {
  const chargedNanoUsd = Math.min(actualNanoUsd, heldNanoUsd);
  return { chargedNanoUsd, overrunNanoUsd: actualNanoUsd - chargedNanoUsd };
}

/** What a settlement changes that arrives after its hold expired. */
export interface LateCharge {
  /** The call's total charge after the correction. */
  readonly chargedNanoUsd: number;
  /** Usage beyond the hold. */
  readonly overrunNanoUsd: number;
  /** What the tenant owes but the remaining room does not cover. */
  readonly unpaidNanoUsd: number;
}

/**
 * Corrects the charge of an expired hold to min(actual, held). The hold no longer sets money aside, so the charge rises
 * by at most `roomNanoUsd`, which is what balance and budgets leave now.
 */
export function lateCharge(
  actualNanoUsd: number,
  hold: { readonly amountNanoUsd: number; readonly chargedNanoUsd: number },
  roomNanoUsd: number,
): LateCharge {
  const { chargedNanoUsd: dueNanoUsd, overrunNanoUsd } = splitCharge(actualNanoUsd, hold.amountNanoUsd);
  const chargedNanoUsd = Math.min(dueNanoUsd, hold.chargedNanoUsd + Math.max(0, roomNanoUsd));
  return { chargedNanoUsd, overrunNanoUsd, unpaidNanoUsd: dueNanoUsd - chargedNanoUsd };
}

/** The sign belongs to the kind: a top-up brings money in, a refund pays it out, a correction goes either way. */
export function signFits(kind: Credit["kind"], amountNanoUsd: number): boolean {
  if (kind === "top_up") return amountNanoUsd > 0;
  return kind === "refund" ? amountNanoUsd < 0 : true;
}

/**
 * Whether the operator may book `amountNanoUsd`: the stored numbers must stay exact, a deduction must leave the open
 * holds covered, and the sign must be the kind's.
 */
export function mayCredit(money: Money, kind: Credit["kind"], amountNanoUsd: number): boolean {
  if (!Number.isSafeInteger(amountNanoUsd) || !signFits(kind, amountNanoUsd)) return false;
  const balanceNanoUsd = money.balanceNanoUsd + amountNanoUsd;
  if (Math.abs(amountNanoUsd) > MAX_NANO_USD || Math.abs(balanceNanoUsd) > MAX_NANO_USD) return false;
  return amountNanoUsd >= 0 || moneyRoom(money) + amountNanoUsd >= 0;
}

/**
 * Tells the operator, once a day (UTC) and account, when what calls came to beyond their holds has passed a hundredth of
 * what the account was charged that day: then a bound is wrong, or an upstream gives more than it was asked for.
 */

import { DAY_MS, dayOf } from "../../../core/account/budgets.ts";
import type { AccountId } from "../../../core/ids.ts";
import { formatUsd } from "../../../core/pricing/money.ts";
import { log } from "../../log.ts";
import type { OperatorBook } from "./operator-losses.ts";

/** Overruns above this share of a day's charges are told. */
const SHARE = 100;

export class OverrunWatch {
  readonly #book: OperatorBook;
  #day = Number.NEGATIVE_INFINITY;
  #overrunNanoUsd = 0;
  #told = false;

  constructor(book: OperatorBook) {
    this.#book = book;
  }

  /** After an overrun was written. `chargedNanoUsd`: the account's day so far. */
  overrun(account: AccountId, amountNanoUsd: number, chargedNanoUsd: number, nowMs: number): void {
    const day = dayOf(nowMs);
    if (day === this.#day) this.#overrunNanoUsd += amountNanoUsd;
    else {
      this.#day = day;
      this.#told = false;
      this.#overrunNanoUsd = this.#book.overrunSince(day * DAY_MS);
    }
    if (this.#told || this.#overrunNanoUsd * SHARE <= chargedNanoUsd) return;
    this.#told = true;
    log({
      event: "overrun_high",
      account,
      overrun_usd: formatUsd(this.#overrunNanoUsd),
      charged_usd: formatUsd(chargedNanoUsd),
    });
  }
}

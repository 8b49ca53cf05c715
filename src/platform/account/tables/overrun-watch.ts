/**
 * Logs, at most once per account and UTC day, that overruns have passed a hundredth of the account's charges of that
 * day. Then a bound is wrong, or an upstream delivers more than it was asked for.
 */

import { DAY_MS, dayOf } from "../../../core/account/budgets.ts";
import type { AccountId } from "../../../core/ids.ts";
import { formatUsd, toUsd } from "../../../core/pricing/money.ts";
import { log } from "../../log.ts";
import type { OperatorBook } from "./operator-losses.ts";
import type { Alerts } from "./told.ts";

/** Overruns above one part in this many of a day's charges are logged. */
const SHARE = 100;

export class OverrunWatch {
  readonly #book: OperatorBook;
  readonly #alerts: Alerts;
  #day = Number.NEGATIVE_INFINITY;
  #overrunNanoUsd = 0;
  #logged = false;

  constructor(book: OperatorBook, alerts: Alerts) {
    this.#book = book;
    this.#alerts = alerts;
  }

  /** Call it after an overrun was written. `chargedNanoUsd`: the account's charges of the day so far. */
  overrun(account: AccountId, amountNanoUsd: number, chargedNanoUsd: number, nowMs: number): void {
    const day = dayOf(nowMs);
    if (day === this.#day) this.#overrunNanoUsd += amountNanoUsd;
    else {
      this.#day = day;
      this.#logged = false;
      this.#overrunNanoUsd = this.#book.overrunSince(day * DAY_MS);
    }
    if (this.#logged || this.#overrunNanoUsd * SHARE <= chargedNanoUsd) return;
    this.#logged = true;
    if (!this.#alerts.firstToday("overrun", nowMs)) return;
    const data = { overrun_usd: toUsd(this.#overrunNanoUsd), charged_usd: toUsd(chargedNanoUsd) };
    this.#alerts.tell(account, { type: "overrun.high", data }, nowMs);
    log({
      event: "overrun_high",
      account,
      overrun_usd: formatUsd(this.#overrunNanoUsd),
      charged_usd: formatUsd(chargedNanoUsd),
    });
  }
}

/**
 * Logs `margin.negative` when a call cost the operator more than its price: an alias with a dearer target, however it
 * came about. Decided at settlement, where both figures are exact; once per target of a name, account and UTC day.
 */
import { dayOf } from "../../../core/account/budgets.ts";
import type { Settlement } from "../../../core/account/hold.ts";
import type { AccountId } from "../../../core/ids.ts";
import { formatUsd, toUsd } from "../../../core/pricing/money.ts";
import { log } from "../../log.ts";
import type { HoldRow } from "./holds.ts";
import type { Alerts } from "./told.ts";

/** Names kept in memory; beyond it they are read again. */
const MOST_KEPT = 1_000;

export class MarginWatch {
  #day = Number.NEGATIVE_INFINITY;
  readonly #told = new Set<string>();
  readonly #alerts: Alerts;

  constructor(alerts: Alerts) {
    this.#alerts = alerts;
  }

  /** `priceNanoUsd`: at the call's prices, also where its hold did not cover it. */
  settled(
    account: AccountId,
    hold: Pick<HoldRow, "callId" | "model" | "priceRule">,
    { servedBy, costNanoUsd }: Pick<Settlement, "servedBy" | "costNanoUsd">,
    priceNanoUsd: number,
    nowMs: number,
  ): void {
    // What is free is meant to cost the operator.
    if (costNanoUsd <= priceNanoUsd || hold.priceRule === "free") return;
    const day = dayOf(nowMs);
    if (day !== this.#day || this.#told.size >= MOST_KEPT) this.#told.clear();
    this.#day = day;
    const name = JSON.stringify([hold.model, servedBy.upstream, servedBy.model]);
    if (this.#told.has(name)) return;
    this.#told.add(name);
    if (!this.#alerts.firstToday(`margin ${name}`, nowMs)) return;
    const data = {
      call: hold.callId,
      model: hold.model,
      upstream: servedBy.upstream,
      target_model: servedBy.model,
      price_usd: toUsd(priceNanoUsd),
      cost_usd: toUsd(costNanoUsd),
    };
    this.#alerts.tell(account, { type: "margin.negative", data }, nowMs);
    log({
      event: "margin.negative",
      account,
      call: hold.callId,
      model: hold.model,
      upstream: servedBy.upstream,
      target_model: servedBy.model,
      price_usd: formatUsd(priceNanoUsd),
      cost_usd: formatUsd(costNanoUsd),
    });
  }
}

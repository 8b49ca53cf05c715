/** The upstream account's own balance and hourly burn: the operator's money, not a tenant's. */
import { dayOf } from "../../core/account/budgets.ts";
import type { Alert, News } from "../../core/alerts/alert.ts";
import { operatorAlert } from "../../core/alerts/operator-alert.ts";
import type { BrokerView, ControlAnswer } from "../../core/compute/control.ts";
import { asObject, parseObject } from "../../core/formats/json-fields.ts";
import { parseUsd, toUsd } from "../../core/pricing/money.ts";
import { log } from "../log.ts";
import type { BrokerTables } from "./tables.ts";

/** How long a balance is used before it is read again, ms. */
const KEPT_MS = 60_000;
/** A launch must leave enough balance on the upstream account for its burn over this time, hours. */
const RESERVE_HOURS = 2;
/** How often a low balance is logged, ms. */
const TOLD_EVERY_MS = 300_000;
/** Statuses of instances and clusters that cost money. */
const COSTS = new Set(["pending", "running", "terminating_requested", "terminating_low_balance", "degraded"]);

export class Balance {
  readonly #tables: BrokerTables;
  readonly #now: () => number;
  readonly #tell: (alert: Alert) => void;

  /** `tell`: tells the operator; it must not keep anyone waiting. */
  constructor(tables: BrokerTables, now: () => number, tell: (alert: Alert) => void) {
    this.#tables = tables;
    this.#now = now;
    this.#tell = tell;
  }

  /** Reads the balance if it is unknown or old. */
  async refresh(read: () => Promise<ControlAnswer>): Promise<void> {
    const atMs = this.#tables.time("balance_at");
    if (atMs !== null && Math.abs(this.#now() - atMs) < KEPT_MS) return;
    const answer = await read();
    if (answer.kind !== "answered" || answer.status !== 200) return;
    const { balance } = parseObject(answer.body) ?? {};
    if (typeof balance !== "number" || !Number.isFinite(balance)) return;
    const parsed = parseUsd(balance.toFixed(9));
    if (!parsed.ok) return;
    this.#tables.setFact("balance", String(parsed.nanoUsd));
    this.#tables.setFact("balance_at", String(answer.sentAtMs));
  }

  /** Whether the upstream account can pay this and two hours of its burn. True while its balance is unknown. */
  covers(upstream: string, nanoUsd: number): boolean {
    const { balanceNanoUsd, burnNanoUsdPerHour } = this.view();
    if (balanceNanoUsd === null || balanceNanoUsd >= nanoUsd + RESERVE_HOURS * burnNanoUsdPerHour) return true;
    const nowMs = this.#now();
    if (nowMs - (this.#tables.time("low_balance_told") ?? 0) >= TOLD_EVERY_MS) {
      this.#tables.setFact("low_balance_told", String(nowMs));
      log({
        event: "upstream_balance_low",
        upstream,
        balance_nano_usd: balanceNanoUsd,
        burn_nano_usd_per_hour: burnNanoUsdPerHour,
        needed_nano_usd: nanoUsd,
      });
      const data = {
        upstream,
        balance_usd: toUsd(balanceNanoUsd),
        burn_usd_per_hour: toUsd(burnNanoUsdPerHour),
      };
      const news: News = { type: "compute.upstream_balance_low", data };
      // Once a day: of one name only the first counts.
      this.#tell(operatorAlert(`balance_low_${upstream}_${dayOf(nowMs)}`, news, nowMs));
    }
    return false;
  }

  /** A launch was sent: subtracts what upstream takes for it, until the balance is read again. */
  spent(nanoUsd: number): void {
    const { balanceNanoUsd } = this.view();
    if (balanceNanoUsd !== null) this.#tables.setFact("balance", String(balanceNanoUsd - nanoUsd));
  }

  view(): Pick<BrokerView, "balanceNanoUsd" | "balanceAtMs" | "burnNanoUsdPerHour"> {
    const balance = this.#tables.fact("balance");
    const documents = this.#tables.seen().filter(({ kind }) => kind === "instance" || kind === "cluster");
    return {
      balanceNanoUsd: balance === undefined ? null : Number(balance),
      balanceAtMs: this.#tables.time("balance_at"),
      burnNanoUsdPerHour: documents.reduce((sum, { document }) => sum + hourly(document), 0),
    };
  }
}

function hourly(document: string): number {
  const { status, hourly_rate_usd } = asObject(JSON.parse(document)) ?? {};
  if (typeof status !== "string" || !COSTS.has(status) || typeof hourly_rate_usd !== "number") return 0;
  const parsed = parseUsd(hourly_rate_usd.toFixed(9));
  return parsed.ok && parsed.nanoUsd > 0 ? parsed.nanoUsd : 0;
}

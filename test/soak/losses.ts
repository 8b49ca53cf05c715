/**
 * Explains each entry of the operator's losses. A reason must be visible from outside: a kill during the call, or a try
 * in the service's own log. An entry without one is unexplained and fails the soak.
 */
import { costOf, type UnitPrices } from "../../src/core/pricing/prices.ts";
import type { JoinedEvent } from "../support/joined-books.ts";
import type { Execution } from "../support/sandbox.ts";
import type { BookRow } from "./operator-book.ts";
import { meteredOf } from "./price-check.ts";

/** What is known about a call besides its loss row. */
export interface Evidence {
  /** Its usage event, and the second one if it ended after its hold had expired. */
  readonly event: JoinedEvent | undefined;
  readonly late: JoinedEvent | undefined;
  /** Every request that reached the service under its id, refused or not. */
  readonly tries: readonly Execution[];
}

export interface Explained {
  readonly row: BookRow;
  readonly reason: string;
  /** What is wrong with it; null: nothing. */
  readonly flaw: string | null;
}

/** Statuses that mean that nothing was executed. */
const NOT_EXECUTED: ReadonlySet<number> = new Set([400, 401, 402, 403, 404, 409, 413, 415, 422, 429, 503]);
/** Quotes come before a job's submission, under the same id. */
const QUOTE = "/quote";

export function explainLoss(
  row: BookRow,
  { event, late, tries }: Evidence,
  killsAtMs: readonly number[],
  prices: UnitPrices,
): Explained {
  const unexplained = (reason: string): Explained => ({ row, reason, flaw: `unexplained: ${reason}` });
  if (row.reason === "settle_unknown") return unexplained("settle_unknown: no hold is forgotten within a soak");
  if (!event) return unexplained("no usage event tells of it");
  if (row.kind === "overrun") return unexplained("used beyond its hold, which is a bound");
  const perhaps = tries.filter(
    ({ status, path }) => !path.endsWith(QUOTE) && (status === null || !NOT_EXECUTED.has(status)),
  );
  const costNanoUsd = perhaps.reduce((sum, { usage }) => sum + (usage ? costOf(meteredOf(usage), prices) : 0), 0);
  const paidNanoUsd = event.price_nano_usd + (late?.price_nano_usd ?? 0);
  const covered = costNanoUsd <= paidNanoUsd + row.amount_nano_usd;
  const flaw = covered ? null : `it covers less than was executed: ${costNanoUsd} nano-USD`;
  if (event.outcome === "expired") {
    const killed = killsAtMs.some((at) => at >= event.started_ms && at <= event.ended_ms);
    if (!killed) return unexplained(`expired (${event.reason}), and nobody killed its process`);
    const executed = perhaps.length > 0 ? "executed" : "never sent";
    const corrected = late ? ", ended late" : "";
    return { row, reason: `expired after a kill, ${executed}${corrected}`, flaw };
  }
  const lost = perhaps.length - (event.outcome === "failed" ? 0 : 1);
  if (lost < 1) return unexplained(`${event.outcome} (${event.reason}), and no try was lost`);
  const statuses = perhaps.map(({ status, executed }) => `${status ?? "none"}${executed ? "" : ", not executed"}`);
  const after = event.outcome === "failed" ? "failed" : "another try served";
  return { row, reason: `lost try, ${after}: ${statuses.sort().join("; ")}`, flaw };
}

/** Each entry's line in a table, under the sums by reason. */
export function lossTable(explained: readonly Explained[]): string[] {
  const byReason = Map.groupBy(explained, ({ row, reason }) => `${row.kind} ${reason}`);
  const sums = [...byReason]
    .map(([reason, some]) => ({ reason, some, nanoUsd: sumOf(some) }))
    .sort((a, b) => b.nanoUsd - a.nanoUsd);
  const lines = [`operator loss: ${explained.length} entries, ${usd(sumOf(explained))} USD`];
  for (const { reason, some, nanoUsd } of sums) {
    lines.push(`  ${usd(nanoUsd)}  ${String(some.length).padStart(4)}  ${reason}`);
  }
  for (const { row, reason, flaw } of explained) {
    const { account, call_id, kind, amount_nano_usd } = row;
    lines.push(`    ${account} ${call_id} ${kind} ${usd(amount_nano_usd)} ${reason}${flaw ? ` (${flaw})` : ""}`);
  }
  return lines;
}

const sumOf = (explained: readonly Explained[]): number =>
  explained.reduce((sum, { row }) => sum + row.amount_nano_usd, 0);
const usd = (nanoUsd: number): string => (nanoUsd / 1e9).toFixed(9);

/** Judges a soak when everything is at rest: do ledger, usage, losses and the service's executions agree? */
import { costOf } from "../../src/core/pricing/prices.ts";
import {
  type JoinedEvent,
  lostLeases,
  mismatches,
  unrecordedExecutions,
  usageEventsOf,
} from "../support/joined-books.ts";
import type { Operator } from "../support/operator.ts";
import type { Execution } from "../support/sandbox.ts";
import type { Hostiles } from "./hostile/hostiles.ts";
import { type Explained, explainLoss, lossTable } from "./losses.ts";
import { readOperatorBooks } from "./operator-book.ts";
import { checkOwnCounts } from "./own-counts.ts";
import { type Party, tally } from "./party.ts";
import { checkPrices, meteredOf, PRICES } from "./price-check.ts";
import type { Done } from "./trouble.ts";

interface Judged {
  readonly lines: readonly string[];
  readonly wrong: string[];
}

const LATE = ".late";
/** An endless stream is ended one hold's life before this. */
export const LONGEST_HOLD_MS = 60_000;

export async function judge(
  stateDir: string,
  operator: Operator,
  parties: readonly Party[],
  hostiles: Hostiles,
  done: Done,
): Promise<Judged> {
  const tenants = parties.map(({ tenant }) => tenant);
  // Rows without a call's id are requests of the gateway itself and of the operator.
  const calls = (await operator.sandbox.allCalls()).filter(({ request_id }) => request_id !== null);
  const executions = calls.filter(({ executed }) => executed);
  const stored = tenants.flatMap(({ account }) => usageEventsOf(stateDir, account));
  const [late, events] = [true, false].map((wanted) =>
    stored.filter(({ event_id }) => event_id.endsWith(LATE) === wanted),
  ) as [JoinedEvent[], JoinedEvent[]];

  const prices = checkPrices(events, executions);
  const ownCounts = checkOwnCounts(events, executions, hostiles.leftAfterOutput);
  const losses = explainAll(stateDir, events, late, calls, done);
  const wrong: string[] = [];
  for (const tenant of tenants) wrong.push(...(await mismatches(stateDir, tenant, executions)));
  const costOfOne = ({ usage }: Execution) => (usage ? costOf(meteredOf(usage), PRICES) : 0);
  wrong.push(...unrecordedExecutions(stateDir, tenants, executions, costOfOne), ...prices.wrong, ...ownCounts.wrong);
  wrong.push(...losses.flatMap(({ row, flaw }) => (flaw ? [`loss of ${row.account} ${row.call_id}: ${flaw}`] : [])));
  wrong.push(...(await unbooked(operator, parties, losses, stored)));
  wrong.push(...tooLong(events), ...executedAllTheSame(hostiles, executions));
  wrong.push(...parties.flatMap(({ surprises }) => surprises));

  const answers = sumOf(parties.map((party) => party.answers));
  const asked = [...answers.values()].reduce((sum, count) => sum + count, 0);
  const lines = [`calls        ${asked}`, ...byWorkload(answers).map((line) => `  ${line}`)];
  lines.push(`executions   ${executions.length}, ${prices.checked} of them held against their price`);
  lines.push(`lost leases  ${lostLeases(stored).length}`);
  lines.push(`in usage     ${events.length}: ${tally(events.map(({ outcome, source }) => `${outcome} (${source})`))}`);
  return { lines: [...lines, ...ownCounts.lines, ...lossTable(losses)], wrong };
}

function explainAll(
  stateDir: string,
  events: readonly JoinedEvent[],
  late: readonly JoinedEvent[],
  calls: readonly Execution[],
  { killsAtMs }: Done,
): Explained[] {
  const byCall = new Map(events.map((event) => [event.event_id, event]));
  const lateByCall = new Map(late.map((event) => [event.event_id.slice(0, -LATE.length), event]));
  const triesByCall = Map.groupBy(calls, ({ request_id }) => request_id);
  return readOperatorBooks(stateDir).map((row) => {
    const { call_id } = row;
    const tries = triesByCall.get(call_id) ?? [];
    const evidence = { event: byCall.get(call_id), late: lateByCall.get(call_id), tries };
    return explainLoss(row, evidence, killsAtMs, PRICES);
  });
}

/** Compares audit and reports with the sum of the explained rows. */
async function unbooked(
  operator: Operator,
  parties: readonly Party[],
  losses: readonly Explained[],
  stored: readonly JoinedEvent[],
): Promise<string[]> {
  const wrong: string[] = [];
  const rowsNanoUsd = losses.reduce((sum, { row }) => sum + row.amount_nano_usd, 0);
  let auditUsd = 0;
  for (const { tenant } of parties) {
    const { operator_loss_usd, overrun_usd } = await operator.audit(tenant.account);
    auditUsd += operator_loss_usd + overrun_usd;
  }
  const reportedNanoUsd = stored.reduce((sum, event) => sum + event.loss_nano_usd + event.overrun_nano_usd, 0);
  if (Math.round(auditUsd * 1e9) !== rowsNanoUsd) {
    wrong.push(`the audits' losses are ${auditUsd} USD, the operator's books ${rowsNanoUsd} nano-USD`);
  }
  if (reportedNanoUsd !== rowsNanoUsd) {
    wrong.push(`usage events report losses of ${reportedNanoUsd} nano-USD, the operator's books ${rowsNanoUsd}`);
  }
  return wrong;
}

/** No call outlives its hold; a job has a hold of its own. */
const tooLong = (events: readonly JoinedEvent[]): string[] =>
  events
    .filter(({ endpoint, outcome }) => outcome !== "expired" && !endpoint.startsWith("video"))
    .filter(({ started_ms, ended_ms }) => ended_ms - started_ms > LONGEST_HOLD_MS)
    .map((event) => `${event.event_id} outlived its hold: ${JSON.stringify(event)}`);

const executedAllTheSame = ({ smuggler }: Hostiles, executions: readonly Execution[]): string[] =>
  executions
    .filter(({ request_id }) => smuggler.refused.has(request_id ?? ""))
    .map(({ path, request_id }) => `${path} ${request_id} was refused and executed all the same`);

function sumOf(counts: readonly ReadonlyMap<string, number>[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of counts.flatMap((one) => [...one])) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}

/** A line for each workload with the number of each outcome. */
function byWorkload(answers: ReadonlyMap<string, number>): string[] {
  const workloads = Map.groupBy(answers, ([name]) => name.slice(0, name.lastIndexOf(":")));
  return [...workloads].map(([workload, some]) => {
    const parts = some
      .sort((a, b) => b[1] - a[1])
      .map(([name, count]) => `${count} ${name.slice(workload.length + 2)}`);
    return `${workload.padEnd(28)} ${parts.join(", ")}`;
  });
}

/**
 * The judge after crashes: what the upstream executed, what the ledger charges and what usage says, joined call by
 * call. Each execution is billed once, or booked as the operator's loss once, by itself or within a lease's; nothing
 * else is billed. A call whose first try may have been carried out and whose second was, is billed for the second and
 * lost for the first. One that ended after its hold had expired has two entries and two events, which count by their
 * sums.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Audit } from "../../client/operator.ts";
import { timeIn } from "../../src/core/account/call-time.ts";
import { OVER_MS } from "../../src/core/leases/slice.ts";
import { eventually } from "./eventually.ts";
import type { Execution } from "./sandbox.ts";
import type { Tenant } from "./tenant.ts";

export interface JoinedEvent {
  readonly event_id: string;
  readonly endpoint: string;
  readonly outcome: string;
  readonly reason: string | null;
  readonly source: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly price_nano_usd: number;
  readonly loss_nano_usd: number;
  readonly overrun_nano_usd: number;
  readonly started_ms: number;
  readonly ended_ms: number;
}

/** The usage events of an account, as they stand in the operator's D1. */
export function usageEventsOf(stateDir: string, account: string): JoinedEvent[] {
  const files = readdirSync(join(stateDir, "gateway"), { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => /d1.*\.sqlite$/i.test(file))
    .flatMap((file) => {
      const database = new DatabaseSync(join(stateDir, "gateway", file), { readOnly: true });
      try {
        const rows = database.prepare("SELECT * FROM usage_events WHERE account = ?").all(account);
        return rows as unknown as JoinedEvent[];
      } catch {
        // A database of miniflare's own.
        return [];
      } finally {
        database.close();
      }
    });
}

/** Waits until nothing of this account is under way any more. */
export const atRest = (tenant: Tenant, withinMs: number): Promise<Audit> =>
  eventually(
    `${tenant.account} is at rest`,
    async () => {
      const audit = await tenant.audit();
      return audit.open_holds === 0 && audit.outbox === 0 && audit;
    },
    { withinMs, everyMs: 200 },
  );

/** What does not agree, in words. `executions`: of this tenant's calls, and perhaps of others. */
export async function mismatches(
  stateDir: string,
  tenant: Tenant,
  executions: readonly Execution[],
): Promise<readonly string[]> {
  const audit = await tenant.audit();
  const charges = await tenant.charges();
  const { events, lateCalls } = joinLate(usageEventsOf(stateDir, tenant.account));
  // A video job that failed used nothing, and its log says so: nobody owes it.
  const owed = executions.filter(({ usage }) => usage === null || Object.keys(usage).length > 0);
  const executed = Map.groupBy(owed, ({ request_id }) => request_id);
  const wrong = [...audit.problems];
  const say = (words: string) => wrong.push(`${tenant.account}: ${words}`);
  if (!audit.ok || audit.held_usd !== 0) say(`the audit says ${JSON.stringify(audit)}`);
  const charged = new Map<string | null, number>();
  for (const { call_id, amount_usd } of charges) {
    const before = charged.get(call_id);
    if (before !== undefined && !lateCalls.delete(call_id ?? "")) say(`${call_id} is charged twice`);
    charged.set(call_id, (before ?? 0) + amount_usd);
  }
  for (const [call_id, amount_usd] of charged) {
    const event = events.get(call_id ?? "");
    if (!event) say(`${call_id} is charged and in no report`);
    else if (Math.abs(event.price_nano_usd / 1e9 + amount_usd) > 1e-12) {
      say(`${call_id} is charged ${amount_usd} and reported as ${event.price_nano_usd}`);
    }
    if (amount_usd !== 0 && !executed.has(call_id)) say(`${call_id} is charged and was never executed`);
  }
  for (const event of events.values()) {
    const { event_id, price_nano_usd, loss_nano_usd } = event;
    // An upper bound of what was lost: a try may have been carried out, or not.
    const times = executed.get(event_id)?.length ?? 0;
    if (times > 1 && loss_nano_usd === 0) say(`${event_id} was executed ${times} times and nothing of it is lost`);
    if (price_nano_usd > 0 && !charged.has(event_id)) say(`${event_id} is reported and not charged`);
    if (executed.has(event_id) && price_nano_usd === 0 && loss_nano_usd === 0 && !charged.has(event_id)) {
      say(`${event_id} was executed and is neither billed nor lost: ${JSON.stringify(event)}`);
    }
  }
  return wrong;
}

const LATE = ".late";

/** Each call's event, with the differences of its late one where it has one; and the calls that have. */
function joinLate(stored: readonly JoinedEvent[]): { events: Map<string, JoinedEvent>; lateCalls: Set<string> } {
  const [late, first] = [true, false].map((wanted) =>
    stored.filter(({ event_id }) => event_id.endsWith(LATE) === wanted),
  ) as [JoinedEvent[], JoinedEvent[]];
  const events = new Map(first.map((event) => [event.event_id, event]));
  const lateCalls = new Set<string>();
  for (const { event_id, price_nano_usd, loss_nano_usd, overrun_nano_usd } of late) {
    const call = event_id.slice(0, -LATE.length);
    const before = events.get(call);
    if (!before) continue;
    lateCalls.add(call);
    events.set(call, {
      ...before,
      price_nano_usd: before.price_nano_usd + price_nano_usd,
      loss_nano_usd: before.loss_nano_usd + loss_nano_usd,
      overrun_nano_usd: before.overrun_nano_usd + overrun_nano_usd,
    });
  }
  return { events, lateCalls };
}

/**
 * Executions of these models that no usage event covers. Calls that a killed process had admitted out of a lease and
 * not yet reported are covered by the lease's event: those of its second, as many as its loss pays for.
 */
export function unrecordedExecutions(
  stateDir: string,
  tenants: readonly Tenant[],
  executions: readonly Execution[],
  costNanoUsd: (execution: Execution) => number = atOneUsdAMillion,
): readonly string[] {
  const events = tenants.flatMap(({ account }) => usageEventsOf(stateDir, account));
  const told = new Set(events.map(({ event_id }) => event_id));
  const leases = lostLeases(events).map(({ started_ms, loss_nano_usd }) => ({
    started_ms,
    leftNanoUsd: loss_nano_usd,
  }));
  return executions.flatMap((execution) => {
    const { request_id, path } = execution;
    if (request_id !== null && told.has(request_id)) return [];
    const atMs = timeIn(request_id ?? "") ?? 0;
    const owed = costNanoUsd(execution);
    const lease = leases
      .filter(({ started_ms }) => atMs > started_ms - BEGUN_BEFORE_MS && atMs < started_ms + OVER_MS)
      .sort((a, b) => b.leftNanoUsd - a.leftNanoUsd)[0];
    if (!lease || lease.leftNanoUsd < owed) return [`${path} ${request_id} was executed and nobody reports it`];
    lease.leftNanoUsd -= owed;
    return [];
  });
}

/** A call's id is made before its body is read, and it is admitted afterwards. */
const BEGUN_BEFORE_MS = 1_000;

/** The events of leases whose isolate died. */
export const lostLeases = (events: readonly JoinedEvent[]): JoinedEvent[] =>
  events.filter(({ endpoint, outcome }) => endpoint === "lease" && outcome === "expired");

/** What it costs in nano-USD at the price of the tests' instances. */
export const atOneUsdAMillion = ({ usage }: Execution): number =>
  ((usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0)) * 1_000;

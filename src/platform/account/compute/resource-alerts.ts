/**
 * What owners and the operator are told of rented things: their states as upstream shows them, and trouble with them.
 */
import type { News } from "../../../core/alerts/alert.ts";
import type { InferenceRow } from "../../../core/compute/inference.ts";
import type { Act } from "../../../core/compute/rental.ts";
import { isMachine, isStorage, type MachineRow, type RentedRow } from "../../../core/compute/resource.ts";
import { toUsd } from "../../../core/pricing/money.ts";
import type { AccountState } from "../state.ts";

/** Tells what became of a machine. `before`: its row until now; undefined: it had none. */
export function tellMachine(
  state: AccountState,
  before: MachineRow | undefined,
  after: MachineRow,
  nowMs: number,
): void {
  const [was, is] = [before?.seen.state ?? "none", after.seen.state];
  if (was === is) return;
  const data = { kind: after.kind, id: after.id, name: after.launched.name };
  const { id } = state.tenants.account();
  if (is === "running" && was !== "degraded" && was !== "stopping") {
    state.alerts.tell(id, { type: "instance.running", data }, nowMs);
  }
  if (is === "preempted") state.alerts.tell(id, { type: "instance.preempted", data }, nowMs);
  if (is === "ended") {
    const reason = after.seen.reason ?? "failed";
    state.alerts.tell(id, { type: "instance.ended", data: { ...data, reason } }, nowMs);
  }
}

type EventAct = Extract<Act, { act: "event" }>;

/** What may come again for the same thing is told once a day. */
const DAILY = new Set<EventAct["event"]>(["stop_overdue", "instance_unpaid"]);

export function tellRental(
  state: AccountState,
  row: RentedRow | InferenceRow,
  upstream: string,
  act: EventAct,
  nowMs: number,
): void {
  const news = newsOf(row, upstream, act);
  if (!news || (DAILY.has(act.event) && !state.alerts.firstToday(`${act.event} ${row.id}`, nowMs))) return;
  state.alerts.tell(state.tenants.account().id, news, nowMs);
}

function newsOf(row: RentedRow | InferenceRow, upstream: string, act: EventAct): News | undefined {
  const at = { resource: row.id, upstream };
  switch (act.event) {
    case "stop_overdue":
      return { type: "compute.stop_overdue", data: { ...at, since: toIso(act.sinceMs) } };
    case "instance_unpaid":
      return { type: "compute.instance_unpaid", data: { ...at, since: toIso(act.sinceMs) } };
    case "late_orphan":
      return { type: "compute.late_orphan", data: at };
    case "compute_cost_differs": {
      const [expected_usd, shown_usd] = [toUsd(act.expectedNanoUsd), toUsd(act.shownNanoUsd)];
      return { type: "compute.cost_differs", data: { ...at, expected_usd, shown_usd } };
    }
    case "storage.suspended":
    case "storage.deleting": {
      if (row.kind === "inference" || !isStorage(row)) return undefined;
      const named = { kind: row.kind, id: row.id, name: row.asked.name };
      return act.event === "storage.suspended"
        ? { type: act.event, data: { ...named, since: toIso(act.sinceMs) } }
        : { type: act.event, data: { ...named, deletes_at: toIso(act.deletesAtMs) } };
    }
    default:
      return undefined;
  }
}

const toIso = (ms: number): string => new Date(ms).toISOString();

/** The row that stands in the table, if it is a machine's. */
export function machineBefore(state: AccountState, row: RentedRow): MachineRow | undefined {
  const before = isMachine(row) ? state.resources.find(row.id)?.row : undefined;
  return before && isMachine(before) ? before : undefined;
}

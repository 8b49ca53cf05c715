/** The rules that change or end an existing instance or cluster. */
import type * as z from "zod/mini";
import type { Refused } from "../outcome.ts";
import type { InstancePatch } from "./bodies.ts";
import { type Decision, type Facts, findRow, gpuRefusal, invalid, moneyRefusal, refuse } from "./facts.ts";
import { imageRefusal } from "./image-rules.ts";
import { extend, extensionHold } from "./machine-rental.ts";
import type { StateFault } from "./refusals.ts";
import { type MachineKind, type MachineRow, type Setup, showsRunning } from "./resource.ts";
import { formerOf, type RowCall, sent, wantEnd } from "./wants.ts";

type Found = { readonly ok: true; readonly row: MachineRow } | Refused;

function lookUp(facts: Facts, kind: MachineKind, id: number): Found {
  const row = findRow(facts, kind, id);
  return row ? { ok: true, row } : refuse({ kind: "not_found", what: kind });
}

/** Why a row cannot be ended or changed now; undefined if it runs. */
function stateFault(row: MachineRow): StateFault | undefined {
  if (row.seen.state === "ended") return "not_running";
  if (row.wants.end || row.seen.state === "stopping") return "ending";
  if (row.seen.state === "preempted") return "preempted";
  if (row.wants.rebuild) return "rebuilding";
  return showsRunning(row) ? undefined : "pending";
}

const wrongState = (row: MachineRow, why: StateFault): Refused => refuse({ kind: "state", what: row.kind, why });

/** POST terminate, DELETE of a cluster. Charges stop now. */
export function endMachine(facts: Facts, kind: MachineKind, id: number): Decision {
  const found = lookUp(facts, kind, id);
  if (!found.ok) return found;
  const fault = stateFault(found.row);
  if (fault) return wrongState(found.row, fault);
  return send(wantEnd(found.row, "user", facts.nowMs), { verb: "stop" }, found.row, facts);
}

/** POST extend: holds the hours and moves the end. */
export function extendMachine(facts: Facts, kind: MachineKind, id: number, hours: number): Decision {
  const found = lookUp(facts, kind, id);
  if (!found.ok) return found;
  const { row } = found;
  if (row.rental.hours === null) {
    return invalid(
      "hours",
      "cannot be added: this instance has no end time and is billed by the hour until it is terminated",
    );
  }
  const fault = changeFault(row);
  if (fault) return wrongState(row, fault);
  const refusal = moneyRefusal(facts, extensionHold(row.rental, hours));
  if (refusal) return refusal;
  const step = extend(row.rental, hours, facts);
  const after = { ...row, rental: step.rental };
  // Upstream may run longer already than what was bought: it was extended twice.
  const missing = row.rental.hours + hours - Math.max(row.seen.hours ?? 0, row.rental.hours);
  if (missing <= 0) return { ok: true, row: after, acts: step.acts, call: null };
  const decision = send(after, { verb: "extend", hours: missing }, row, facts);
  return decision.ok ? { ...decision, acts: step.acts } : decision;
}

/** POST scale of a cluster. Rate and hold stay as launched; `max_gpus` counts what will run. */
export function scaleCluster(facts: Facts, id: number, replicas: number): Decision {
  const found = lookUp(facts, "cluster", id);
  if (!found.ok) return found;
  const { row } = found;
  const limited = gpuRefusal(facts, (replicas - row.wants.replicas) * row.launched.gpuCount);
  const fault = changeFault(row);
  if (limited || fault) return limited ?? wrongState(row, fault ?? "changing");
  if (replicas === row.wants.replicas) return { ok: true, row, acts: [], call: null };
  return send({ ...row, wants: { ...row.wants, replicas } }, { verb: "scale", replicas }, row, facts);
}

/** PATCH of an instance: it is rebuilt, and charging continues. Absent fields keep their values. */
export function patchInstance(facts: Facts, id: number, body: z.output<typeof InstancePatch>): Decision {
  const found = lookUp(facts, "instance", id);
  if (!found.ok) return found;
  const { row } = found;
  const image = body.container_image === undefined ? undefined : imageRefusal(facts, body.container_image);
  if (image) return image;
  const fault = changeFault(row);
  if (fault) return wrongState(row, fault);
  const before = row.wants.setup;
  const setup: Setup = {
    containerImage: body.container_image ?? before.containerImage,
    startupCommand: body.startup_command === undefined ? before.startupCommand : body.startup_command,
    initScript: body.init_script === undefined ? before.initScript : body.init_script,
    servicePort: body.service_port === undefined ? before.servicePort : body.service_port,
  };
  const wants = { ...row.wants, setup, rebuild: { answeredMs: null } };
  return send({ ...row, wants }, { verb: "patch", setup }, row, facts);
}

/** DELETE of an instance: hides it from the list. Repeats change nothing. */
export function hideInstance(facts: Facts, id: number): Decision {
  const found = lookUp(facts, "instance", id);
  if (!found.ok) return found;
  const { row } = found;
  if (row.seen.state !== "ended") return wrongState(row, "not_ended");
  return { ok: true, row: { ...row, hiddenAtMs: row.hiddenAtMs ?? facts.nowMs }, acts: [], call: null };
}

/** One change at a time: a second one would overwrite what the first restores on failure. */
const changeFault = (row: MachineRow): StateFault | undefined =>
  stateFault(row) ?? (row.sending === null ? undefined : "changing");

/** The operator's stop. It also ends pending and preempted ones as soon as upstream accepts it. */
export function stopMachine(
  row: MachineRow,
  nowMs: number,
): { readonly row: MachineRow; readonly call: RowCall | null } {
  const wanted = wantEnd(row, "admin", nowMs);
  if (wanted === row || wanted.upstreamId === null) return { row: wanted, call: null };
  const call: RowCall = { verb: "stop" };
  return { row: sent(wanted, call, nowMs), call };
}

function send(after: MachineRow, call: RowCall, before: MachineRow, { nowMs }: Facts): Decision {
  return { ok: true, row: sent(after, call, nowMs, formerOf(before)), acts: [], call };
}

/**
 * Rows after our clock was set back. A time that lies after now was written by a clock that was ahead, and is moved to
 * now, once: else what upstream shows would count as old, and stops would wait, until the clock has caught up. What was
 * charged for time that has not come yet is given back, as far as its periods are still known.
 */
import { giveBack } from "./machine-books.ts";
import type { Observed } from "./observe.ts";
import { type Act, type Lengths, type MachineRental, type Phase, type Step, unchanged } from "./rental.ts";
import {
  type ImageRow,
  isMachine,
  isStorage,
  type KeyRow,
  type MachineRow,
  type ResourceRow,
  type StorageRow,
} from "./resource.ts";

/** The row as of `nowMs`. Its turn must follow in the same transaction. */
export function rowSetBack(row: ResourceRow, nowMs: number, lengths: Lengths): Observed<ResourceRow> {
  if (isMachine(row)) return machineSetBack(row, nowMs, lengths);
  return { row: isStorage(row) ? storageSetBack(row, nowMs) : freeSetBack(row, nowMs), acts: [] };
}

const atMost = <Time extends number | null>(time: Time, nowMs: number): Time =>
  time !== null && time > nowMs ? (nowMs as Time) : time;

/** What rows of every kind have. */
const base = ({ createdAtMs, changedAtMs }: ResourceRow, nowMs: number) => ({
  createdAtMs: atMost(createdAtMs, nowMs),
  changedAtMs: atMost(changedAtMs, nowMs),
});

function machineSetBack(row: MachineRow, nowMs: number, lengths: Lengths): Observed<MachineRow> {
  const at = <Time extends number | null>(time: Time): Time => atMost(time, nowMs);
  const { seen, wants, sending } = row;
  const { missing } = seen;
  const money = rentalSetBack(row.rental, nowMs, lengths);
  const after: MachineRow = {
    ...row,
    ...base(row, nowMs),
    wants: {
      ...wants,
      end: wants.end && { ...wants.end, askedMs: at(wants.end.askedMs) },
      rebuild: wants.rebuild && { answeredMs: at(wants.rebuild.answeredMs) },
    },
    seen: {
      ...seen,
      endedAtMs: at(seen.endedAtMs),
      firstRunningMs: at(seen.firstRunningMs),
      lastRunningMs: at(seen.lastRunningMs),
      askedAtMs: at(seen.askedAtMs),
      missing: missing && { ...missing, notFoundMs: at(missing.notFoundMs), triedMs: at(missing.triedMs ?? 0) },
    },
    sending: sending && { ...sending, lastMs: at(sending.lastMs) },
    rental: money.rental,
  };
  return { row: after, acts: money.acts };
}

/** Also of inference instances by the hour, with a day in the hour's place. */
export function rentalSetBack(rental: MachineRental, nowMs: number, { hourMs }: Lengths): Step<MachineRental> {
  const { phase } = rental;
  switch (phase.at) {
    case "running":
      return runningSetBack(rental, phase, nowMs, hourMs);
    case "preempted":
      return phase.sinceMs <= nowMs ? unchanged(rental) : preemptedSetBack(rental, phase, nowMs, hourMs);
    case "ending": {
      const { idle } = phase;
      const ending: Phase<"ending"> = {
        ...phase,
        endMs: atMost(phase.endMs, nowMs),
        askedMs: atMost(phase.askedMs, nowMs),
        overdueMs: atMost(phase.overdueMs, nowMs),
        idle: idle && { ...idle, sinceMs: atMost(idle.sinceMs, nowMs) },
      };
      return unchanged({ ...rental, phase: ending });
    }
    default:
      return unchanged(rental);
  }
}

/** What comes back of a fixed run is held for the time that remains of it. */
function preemptedSetBack(
  rental: MachineRental,
  phase: Phase<"preempted">,
  nowMs: number,
  hourMs: number,
): Step<MachineRental> {
  const back = giveBack(rental, nowMs, hourMs);
  const backMs = back.acts.reduce((sum, act) => (act.act === "correct" ? sum + act.toMs - act.fromMs : sum), 0);
  const { heldNanoUsd } = back.rental;
  if (phase.leftMs === null || heldNanoUsd === null) {
    return { rental: { ...back.rental, phase: { ...phase, sinceMs: nowMs } }, acts: back.acts, stop: null };
  }
  const amountNanoUsd = heldNanoUsd + back.givenNanoUsd;
  const resized: Act[] = back.givenNanoUsd > 0 ? [{ act: "resize", n: rental.n, amountNanoUsd }] : [];
  const after = { ...phase, sinceMs: nowMs, leftMs: phase.leftMs + backMs };
  return {
    rental: { ...back.rental, heldNanoUsd: amountNanoUsd, phase: after },
    acts: [...back.acts, ...resized],
    stop: null,
  };
}

function runningSetBack(
  rental: MachineRental,
  phase: Phase<"running">,
  nowMs: number,
  hourMs: number,
): Step<MachineRental> {
  const triedMs = atMost(phase.triedMs, nowMs);
  if (phase.fromMs <= nowMs) return unchanged({ ...rental, phase: { ...phase, triedMs } });
  const back = giveBack(rental, nowMs, hourMs);
  const paid = paidAhead(rental, phase, nowMs);
  const fromMs = Math.max(nowMs, paid.untilMs);
  const { heldNanoUsd } = back.rental;
  const byTheHour = rental.hours === null || heldNanoUsd === null;
  // By the hour the hold pays for as much time as before. A fixed run keeps its end, unless it began ahead of now too:
  // what came back is held for the time until then.
  const earlierMs = byTheHour ? phase.fromMs - fromMs : paid.beganAheadMs;
  const amountNanoUsd = byTheHour ? heldNanoUsd : heldNanoUsd + back.givenNanoUsd;
  const acts: Act[] = [...back.acts];
  if (amountNanoUsd !== null && amountNanoUsd !== heldNanoUsd) acts.push({ act: "resize", n: rental.n, amountNanoUsd });
  const moved = { paidUntilMs: phase.paidUntilMs - earlierMs, goalMs: phase.goalMs - earlierMs };
  const running = { ...phase, ...moved, fromMs, triedMs };
  return { rental: { ...back.rental, heldNanoUsd: amountNanoUsd, phase: running }, acts, stop: null };
}

/** What stays paid after now, because its period is not known any more; and how far ahead of now it all began. */
function paidAhead({ recent, n }: MachineRental, phase: Phase<"running">, nowMs: number) {
  const [oldest] = recent;
  const first = oldest ?? { n, fromMs: phase.fromMs };
  if (first.n === 1) return { untilMs: nowMs, beganAheadMs: Math.max(0, first.fromMs - nowMs) };
  return { untilMs: first.fromMs, beganAheadMs: 0 };
}

function storageSetBack(row: StorageRow, nowMs: number): StorageRow {
  const at = <Time extends number | null>(time: Time): Time => atMost(time, nowMs);
  const { seen, wants, sending } = row;
  const { missing } = seen;
  return {
    ...row,
    ...base(row, nowMs),
    wants: { end: wants.end && { ...wants.end, askedMs: at(wants.end.askedMs) } },
    seen: {
      ...seen,
      sinceMs: at(seen.sinceMs),
      endedAtMs: at(seen.endedAtMs),
      askedAtMs: at(seen.askedAtMs),
      missing: missing && { ...missing, notFoundMs: at(missing.notFoundMs) },
    },
    sending: sending && { ...sending, lastMs: at(sending.lastMs) },
  };
}

function freeSetBack(row: ImageRow | KeyRow, nowMs: number): ImageRow | KeyRow {
  const after = { ...row, ...base(row, nowMs), deletedAtMs: atMost(row.deletedAtMs, nowMs) };
  if (after.kind === "ssh_key") return after;
  const { sending, missing } = after;
  return {
    ...after,
    changingSinceMs: atMost(after.changingSinceMs, nowMs),
    sending: sending && { ...sending, lastMs: atMost(sending.lastMs, nowMs) },
    missing: { ...missing, askedAtMs: atMost(missing.askedAtMs, nowMs) },
  };
}

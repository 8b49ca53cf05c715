/**
 * A machine whose end was asked for and not seen yet. Its tenant pays nothing more; what it still runs is the
 * operator's loss. While it is not running (never started, or preempted) nothing is lost and no stop is overdue,
 * however long that takes: upstream refuses to stop it then.
 */
import { bookEnd, giveBack, lossAct, ranOnMs } from "./machine-books.ts";
import { type Act, type Lengths, type MachineRental, type Phase, type Step, unchanged } from "./rental.ts";

type Ending = Phase<"ending">;

/** Usage is booked this long after the end was requested, whatever upstream shows. */
const BOOK_AFTER_MS = 600_000;
const OVERDUE_EVERY_MS = 300_000;

/** Books after ten minutes, tells the loss by the hour, and that the stop is overdue. */
export function turnEnding(
  rental: MachineRental,
  phase: Ending,
  nowMs: number,
  { hourMs }: Lengths,
): Step<MachineRental> {
  const acts: Act[] = [];
  let after = rental;
  let { overdueMs, lossHours } = phase;
  if (rental.heldNanoUsd !== null && nowMs >= phase.askedMs + BOOK_AFTER_MS) {
    const booked = bookEnd(rental, phase.fromMs, phase.endMs, hourMs);
    after = booked.rental;
    acts.push(...booked.acts);
  }
  const lostMs = ranOnMs(phase, nowMs);
  const hours = Math.floor(lostMs / hourMs);
  const loss = hours > lossHours ? lossAct(rental, lostMs, hourMs, true) : undefined;
  if (loss) {
    lossHours = hours;
    acts.push(loss);
  }
  if (!isIdle(phase) && nowMs >= overdueMs + OVERDUE_EVERY_MS) {
    overdueMs = nowMs;
    acts.push({ act: "event", event: "stop_overdue", sinceMs: phase.askedMs });
  }
  if (acts.length === 0) return unchanged(rental);
  return { rental: { ...after, phase: { ...phase, overdueMs, lossHours } }, acts, stop: null };
}

/** When that has something to do; null: not before another step. */
export function endingDueMs({ heldNanoUsd }: MachineRental, phase: Ending, { hourMs }: Lengths): number | null {
  const bookMs = heldNanoUsd === null ? [] : [phase.askedMs + BOOK_AFTER_MS];
  const nextLossMs = phase.endMs + (phase.idle?.ms ?? 0) + (phase.lossHours + 1) * hourMs;
  const runningMs = isIdle(phase) ? [] : [phase.overdueMs + OVERDUE_EVERY_MS, nextLossMs];
  const all = [...bookMs, ...runningMs];
  return all.length === 0 ? null : Math.min(...all);
}

const isIdle = ({ idle }: Ending): boolean => (idle?.sinceMs ?? null) !== null;

/** It started after all. Until its end was asked for it is charged, as far as its hold is still there. */
export function begunEnding({ heldNanoUsd }: MachineRental, phase: Ending, startedAtMs: number): Ending {
  if (!phase.idle || phase.idle.begun) return phase;
  const overdueMs = Math.max(phase.overdueMs, startedAtMs);
  // A launch's hold pays for at least an hour, and an early stop never costs more than the hold.
  const charged = heldNanoUsd !== null && startedAtMs < phase.endMs;
  const idle = { sinceMs: null, ms: charged ? 0 : startedAtMs - phase.endMs, begun: true };
  return { ...phase, overdueMs, fromMs: charged ? startedAtMs : phase.fromMs, idle };
}

/** It is preempted: before its end was asked for, if it was last seen running before that. */
export function preemptEnding(
  rental: MachineRental,
  phase: Ending,
  lastRunningMs: number,
  hourMs: number,
): Step<MachineRental> {
  const { fromMs } = phase;
  const endMs = fromMs === null ? phase.endMs : Math.max(fromMs, Math.min(phase.endMs, lastRunningMs));
  const back = giveBack(rental, endMs, hourMs);
  const before = phase.idle?.ms ?? 0;
  const sinceMs = Math.max(endMs + before, lastRunningMs);
  const idle = isIdle(phase) ? phase.idle : { sinceMs, ms: before, begun: true };
  return { rental: { ...back.rental, phase: { ...phase, endMs, idle } }, acts: back.acts, stop: null };
}

/** It runs again since `fromMs`. */
export function resumedEnding(phase: Ending, fromMs: number): Ending {
  const { idle } = phase;
  if (!idle || idle.sinceMs === null) return phase;
  const ms = idle.ms + Math.max(0, fromMs - idle.sinceMs);
  return { ...phase, overdueMs: Math.max(phase.overdueMs, fromMs), idle: { ...idle, sinceMs: null, ms } };
}

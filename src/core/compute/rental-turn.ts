/** The turn of any rental, and when it is due. */
import { endingDueMs } from "./machine-ending.ts";
import { AUTO_STOP_GRACE_MS, RETRY_SHORT_MS, turnMachine } from "./machine-rental.ts";
import type { Lengths, MachineRental, Rental, Step, StorageRental, TurnFacts } from "./rental.ts";
import { storageDueMs, turnStorage } from "./storage-rental.ts";

/**
 * Brings a rental's money up to `nowMs`, however late: charges finished periods, holds the next one, and asks for a
 * stop if that cannot be paid. A second turn at the same time changes nothing.
 */
export function turn(rental: MachineRental, nowMs: number, facts: TurnFacts): Step<MachineRental>;
export function turn(rental: StorageRental, nowMs: number, facts: TurnFacts): Step<StorageRental>;
export function turn(rental: Rental, nowMs: number, facts: TurnFacts): Step;
export function turn(rental: Rental, nowMs: number, facts: TurnFacts): Step {
  return rental.kind === "machine" ? turnMachine(rental, nowMs, facts) : turnStorage(rental, nowMs, facts);
}

/**
 * When the next turn has something to do; null: not before another step. May be in the past. Unpaid storage is also due
 * with every credit.
 */
export function turnDueMs(rental: Rental, facts: Pick<TurnFacts, "graceDays" | keyof Lengths>): number | null {
  return rental.kind === "machine" ? machineDueMs(rental, facts) : storageDueMs(rental, facts);
}

function machineDueMs(rental: MachineRental, lengths: Lengths): number | null {
  const { phase } = rental;
  const { hourMs, dayMs } = lengths;
  switch (phase.at) {
    case "running":
      if (rental.hours !== null) {
        const hourOverMs = phase.fromMs + hourMs;
        return hourOverMs < phase.paidUntilMs ? hourOverMs : phase.paidUntilMs + AUTO_STOP_GRACE_MS;
      }
      return phase.paidUntilMs < phase.goalMs
        ? Math.min(phase.paidUntilMs, phase.triedMs + RETRY_SHORT_MS)
        : phase.paidUntilMs;
    case "preempted":
      return rental.heldNanoUsd === null ? null : phase.sinceMs + dayMs;
    case "ending":
      return endingDueMs(rental, phase, lengths);
    default:
      return null;
  }
}

/** The money of instances and clusters: by the hour, for a fixed time, and while preempted or resumed. */
import { bookStretch, ended, giveBack, openHold } from "./machine-books.ts";
import { begunEnding, preemptEnding, resumedEnding, turnEnding } from "./machine-ending.ts";
import {
  type Act,
  type Lengths,
  type MachineRental,
  type MoneyAct,
  msFor,
  type Phase,
  type Rate,
  rateFor,
  type Step,
  type TurnFacts,
  unchanged,
} from "./rental.ts";

/** Upstream stops a fixed run itself; if it does not, we do this much later. */
export const AUTO_STOP_GRACE_MS = 30_000;
/** How often to look for the rest of the money while the next hour is paid only in part. */
export const RETRY_SHORT_MS = 10_000;

/** The hold of a launch: an hour, or the whole run. */
export function launchHold(rate: Rate, hours: number | null): number {
  return rate.priceNanoUsd * (hours ?? 1);
}

/** The rental of a launch. The transaction that stores it opens its hold. */
export function openMachine(rate: Rate, hours: number | null): Step<MachineRental> {
  const amountNanoUsd = launchHold(rate, hours);
  const rental: MachineRental = {
    kind: "machine",
    rate,
    hours,
    n: 1,
    heldNanoUsd: amountNanoUsd,
    phase: { at: "waiting" },
    recent: [],
  };
  return { rental, acts: [{ act: "hold", n: 1, amountNanoUsd }], stop: null };
}

/** Starts the rental when the machine was first seen running, from `startedAtMs` on. */
export function begin(rental: MachineRental, startedAtMs: number, { hourMs }: Lengths): Step<MachineRental> {
  const { phase } = rental;
  if (phase.at === "ending") return unchanged({ ...rental, phase: begunEnding(rental, phase, startedAtMs) });
  if (phase.at !== "waiting") return unchanged(rental);
  const paidUntilMs = startedAtMs + (rental.hours ?? 1) * hourMs;
  const running: Phase<"running"> = {
    at: "running",
    fromMs: startedAtMs,
    paidUntilMs,
    goalMs: paidUntilMs,
    triedMs: startedAtMs,
  };
  return unchanged({ ...rental, phase: running });
}

/** The price of `hours` more. */
export const extensionHold = (rental: MachineRental, hours: number): number => rental.rate.priceNanoUsd * hours;

/** Moves a fixed run's end by `hours`, with the money for it. The caller has checked that there is room. */
export function extend(rental: MachineRental, hours: number, lengths: Lengths): Step<MachineRental> {
  return stretched(rental, hours, lengths);
}

/** Reverts an extension that upstream certainly did not execute. */
export function takeBackExtension(rental: MachineRental, hours: number, lengths: Lengths): Step<MachineRental> {
  return stretched(rental, -hours, lengths);
}

function stretched(rental: MachineRental, hours: number, { hourMs }: Lengths): Step<MachineRental> {
  const { phase, heldNanoUsd, n, rate } = rental;
  if (rental.hours === null || heldNanoUsd === null || phase.at === "ending" || phase.at === "ended") {
    return unchanged(rental);
  }
  const moved = hours * hourMs;
  const amountNanoUsd = Math.max(0, heldNanoUsd + rate.priceNanoUsd * hours);
  const after = { ...rental, hours: rental.hours + hours, heldNanoUsd: amountNanoUsd };
  const acts: MoneyAct[] = [{ act: "resize", n, amountNanoUsd }];
  if (phase.at === "waiting") return { rental: after, acts, stop: null };
  if (phase.at === "preempted") {
    const leftMs = Math.max(0, (phase.leftMs ?? 0) + moved);
    return { rental: { ...after, phase: { ...phase, leftMs } }, acts, stop: null };
  }
  const endMs = Math.max(phase.fromMs, phase.paidUntilMs + moved);
  return { rental: { ...after, phase: { ...phase, paidUntilMs: endMs, goalMs: endMs } }, acts, stop: null };
}

/** Brings a machine's money up to now. */
export function turnMachine(rental: MachineRental, nowMs: number, facts: TurnFacts): Step<MachineRental> {
  const step = turnPhase(rental, nowMs, facts);
  if (rental.phase.at !== "running" || step.rental.phase.at !== "ending") return step;
  // It ends in this turn, perhaps long ago: the time since then is a loss already.
  const after = turnEnding(step.rental, step.rental.phase, nowMs, facts);
  return { rental: after.rental, acts: [...step.acts, ...after.acts], stop: step.stop };
}

function turnPhase(rental: MachineRental, nowMs: number, facts: TurnFacts): Step<MachineRental> {
  const { phase } = rental;
  switch (phase.at) {
    case "running":
      return rental.hours === null ? turnHourly(rental, phase, nowMs, facts) : turnFixed(rental, phase, nowMs, facts);
    case "preempted": {
      if (rental.heldNanoUsd === null || nowMs < phase.sinceMs + facts.dayMs) return unchanged(rental);
      return { rental: { ...rental, heldNanoUsd: null }, acts: [{ act: "release", n: rental.n }], stop: null };
    }
    case "ending":
      return turnEnding(rental, phase, nowMs, facts);
    default:
      return unchanged(rental);
  }
}

function turnHourly(
  rental: MachineRental,
  phase: Phase<"running">,
  nowMs: number,
  facts: TurnFacts,
): Step<MachineRental> {
  if (nowMs < phase.paidUntilMs) return topUp(rental, phase, nowMs, facts);
  const { hourMs } = facts;
  const price = rental.rate.priceNanoUsd;
  const over = bookStretch(rental, phase.fromMs, phase.paidUntilMs, hourMs);
  const fromMs = phase.paidUntilMs;
  const goalMs = nowMs + hourMs;
  const roomNanoUsd = facts.roomNanoUsd + over.freedNanoUsd;
  const wanted = rateFor(price, goalMs - fromMs, hourMs);
  const paidUntilMs = wanted <= roomNanoUsd ? goalMs : Math.min(goalMs, fromMs + msFor(roomNanoUsd, price, hourMs));
  const amountNanoUsd = rateFor(price, paidUntilMs - fromMs, hourMs);
  const held = paidUntilMs > fromMs ? openHold(over.rental, amountNanoUsd) : { rental: over.rental, acts: [] };
  const acts = [...over.acts, ...held.acts];
  if (paidUntilMs <= nowMs) {
    const ending = ended(paidUntilMs > fromMs ? fromMs : null, paidUntilMs, nowMs);
    return { rental: { ...held.rental, phase: ending }, acts, stop: "credit_depleted" };
  }
  const running = { ...phase, fromMs, paidUntilMs, goalMs, triedMs: nowMs };
  return { rental: { ...held.rental, phase: running }, acts, stop: null };
}

/** In a stretch that is paid only in part: holds what money there is now. */
function topUp(rental: MachineRental, phase: Phase<"running">, nowMs: number, facts: TurnFacts): Step<MachineRental> {
  const { heldNanoUsd } = rental;
  if (phase.paidUntilMs >= phase.goalMs || heldNanoUsd === null || nowMs < phase.triedMs + RETRY_SHORT_MS) {
    return unchanged(rental);
  }
  const price = rental.rate.priceNanoUsd;
  const most = heldNanoUsd + Math.max(0, facts.roomNanoUsd);
  const whole = rateFor(price, phase.goalMs - phase.fromMs, facts.hourMs) <= most;
  const reach = whole ? phase.goalMs : phase.fromMs + msFor(most, price, facts.hourMs);
  const paidUntilMs = Math.max(phase.paidUntilMs, Math.min(phase.goalMs, reach));
  const after = { ...rental, phase: { ...phase, paidUntilMs, triedMs: nowMs } };
  if (paidUntilMs === phase.paidUntilMs) return unchanged(after);
  const amountNanoUsd = rateFor(price, paidUntilMs - phase.fromMs, facts.hourMs);
  return {
    rental: { ...after, heldNanoUsd: amountNanoUsd },
    acts: [{ act: "resize", n: rental.n, amountNanoUsd }],
    stop: null,
  };
}

/** A fixed run: charges the hours that are over and keeps the rest of the hold. It needs no more money. */
function turnFixed(
  rental: MachineRental,
  phase: Phase<"running">,
  nowMs: number,
  { hourMs }: TurnFacts,
): Step<MachineRental> {
  const endMs = phase.paidUntilMs;
  if (nowMs >= endMs + AUTO_STOP_GRACE_MS) {
    const over = bookStretch(rental, phase.fromMs, endMs, hourMs);
    return {
      rental: { ...over.rental, phase: ended(null, endMs, nowMs) },
      acts: over.acts,
      stop: "duration_expired",
    };
  }
  const hours = Math.floor((Math.min(nowMs, endMs - 1) - phase.fromMs) / hourMs);
  if (hours < 1) return unchanged(rental);
  const toMs = phase.fromMs + hours * hourMs;
  const over = bookStretch(rental, phase.fromMs, toMs, hourMs);
  const rest = openHold(over.rental, over.freedNanoUsd);
  return {
    rental: { ...rest.rental, phase: { ...phase, fromMs: toMs } },
    acts: [...over.acts, ...rest.acts],
    stop: null,
  };
}

/**
 * Pauses the charge of a preempted machine at `lastRunningMs`, when it was last seen running. Keeps the rest of the
 * hold.
 */
export function preempt(rental: MachineRental, lastRunningMs: number, { hourMs }: Lengths): Step<MachineRental> {
  const { phase } = rental;
  if (phase.at === "ending") return preemptEnding(rental, phase, lastRunningMs, hourMs);
  if (phase.at !== "running") return unchanged(rental);
  const price = rental.rate.priceNanoUsd;
  const sinceMs = Math.min(lastRunningMs, phase.paidUntilMs);
  const back = giveBack(rental, sinceMs, hourMs);
  const over = sinceMs > phase.fromMs ? bookStretch(back.rental, phase.fromMs, sinceMs, hourMs) : undefined;
  const freed = (over?.freedNanoUsd ?? back.rental.heldNanoUsd ?? 0) + back.givenNanoUsd;
  const leftMs = rental.hours === null ? null : phase.paidUntilMs - sinceMs;
  const wanted = rateFor(price, leftMs ?? hourMs, hourMs);
  const amountNanoUsd = Math.min(wanted, freed);
  const acts: Act[] = [...back.acts, ...(over?.acts ?? [])];
  let after = over?.rental ?? back.rental;
  if (after.heldNanoUsd !== null) {
    acts.push({ act: "resize", n: after.n, amountNanoUsd });
    after = { ...after, heldNanoUsd: amountNanoUsd };
  } else if (amountNanoUsd > 0) {
    const rest = openHold(after, amountNanoUsd);
    acts.push(...rest.acts);
    after = rest.rental;
  }
  return { rental: { ...after, phase: { at: "preempted", sinceMs, leftMs } }, acts, stop: null };
}

/** Since when it is known not to run; null: it runs, or never did. */
export function awaySinceMs({ phase }: MachineRental): number | null {
  if (phase.at === "preempted") return phase.sinceMs;
  return phase.at === "ending" && phase.idle?.begun ? phase.idle.sinceMs : null;
}

/**
 * Resumes a machine that runs again since `fromMs`. After a day its hold is gone, so it is stopped. An hourly machine
 * is paid as far as the hold goes; the next turn gets money for the rest of the hour.
 */
export function resume(rental: MachineRental, fromMs: number, { hourMs, dayMs }: Lengths): Step<MachineRental> {
  const { phase } = rental;
  if (phase.at === "ending") return unchanged({ ...rental, phase: resumedEnding(phase, fromMs) });
  if (phase.at !== "preempted") return unchanged(rental);
  const begunMs = Math.max(fromMs, phase.sinceMs);
  // A fixed run without its hold has no money left to run on.
  const released = rental.hours !== null && rental.heldNanoUsd === null;
  if (released || begunMs >= phase.sinceMs + dayMs) {
    const release: Act[] = rental.heldNanoUsd === null ? [] : [{ act: "release", n: rental.n }];
    const after: MachineRental = { ...rental, heldNanoUsd: null, phase: ended(null, begunMs, begunMs) };
    return { rental: after, acts: [...release, { act: "event", event: "resumed_late" }], stop: "preempted" };
  }
  const goalMs = begunMs + (phase.leftMs ?? hourMs);
  const paid = msFor(rental.heldNanoUsd ?? 0, rental.rate.priceNanoUsd, hourMs);
  const paidUntilMs = phase.leftMs === null ? Math.min(goalMs, begunMs + paid) : goalMs;
  const running: Phase<"running"> = { at: "running", fromMs: begunMs, paidUntilMs, goalMs, triedMs: 0 };
  return unchanged({ ...rental, phase: running });
}

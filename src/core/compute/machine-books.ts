/** Books a machine's periods: opens, charges, refunds and ends them. */
import {
  type Act,
  gpuMs,
  type Idle,
  type Lengths,
  type MachineRental,
  type MoneyAct,
  type Period,
  type Phase,
  rateFor,
  type Step,
  unchanged,
} from "./rental.ts";

interface BookedSoFar {
  readonly rental: MachineRental;
  readonly acts: readonly MoneyAct[];
}

/** Opens the next period's hold. */
export function openHold(rental: MachineRental, amountNanoUsd: number): BookedSoFar {
  const n = rental.n + 1;
  return { rental: { ...rental, n, heldNanoUsd: amountNanoUsd }, acts: [{ act: "hold", n, amountNanoUsd }] };
}

/** Charges [from, to) to the open hold, never more than it holds. `freedNanoUsd`: the rest of the hold. */
export function bookStretch(
  rental: MachineRental,
  fromMs: number,
  toMs: number,
  hourMs: number,
): BookedSoFar & { readonly freedNanoUsd: number } {
  const { n, heldNanoUsd, rate, recent } = rental;
  if (heldNanoUsd === null) return { rental, acts: [], freedNanoUsd: 0 };
  const ms = Math.max(0, toMs - fromMs);
  const period: Period = {
    n,
    fromMs,
    toMs: fromMs + ms,
    amountNanoUsd: Math.min(heldNanoUsd, rateFor(rate.priceNanoUsd, ms, hourMs)),
  };
  const charge: MoneyAct = {
    act: "charge",
    ...period,
    costNanoUsd: rateFor(rate.costNanoUsd, ms, hourMs),
    unit: rate.unit,
    quantity: gpuMs(rate.size, ms, hourMs),
  };
  return {
    rental: { ...rental, heldNanoUsd: null, recent: [...recent, period] },
    acts: [charge],
    freedNanoUsd: heldNanoUsd - period.amountNanoUsd,
  };
}

/** Refunds what was charged for the time after `endMs`. */
export function giveBack(
  rental: MachineRental,
  endMs: number,
  hourMs: number,
): BookedSoFar & { readonly givenNanoUsd: number } {
  const { rate } = rental;
  const acts: MoneyAct[] = [];
  let givenNanoUsd = 0;
  const recent = rental.recent.flatMap((period): Period[] => {
    if (period.toMs <= endMs) return [period];
    const toMs = Math.max(period.fromMs, endMs);
    const [long, short] = [period.toMs - period.fromMs, toMs - period.fromMs];
    const kept = Math.min(period.amountNanoUsd, rateFor(rate.priceNanoUsd, short, hourMs));
    const amountNanoUsd = period.amountNanoUsd - kept;
    givenNanoUsd += amountNanoUsd;
    acts.push({
      act: "correct",
      n: period.n,
      fromMs: toMs,
      toMs: period.toMs,
      amountNanoUsd,
      costNanoUsd: rateFor(rate.costNanoUsd, long, hourMs) - rateFor(rate.costNanoUsd, short, hourMs),
      unit: rate.unit,
      quantity: gpuMs(rate.size, long, hourMs) - gpuMs(rate.size, short, hourMs),
    });
    return short > 0 ? [{ ...period, toMs, amountNanoUsd: kept }] : [];
  });
  return acts.length === 0 ? { rental, acts, givenNanoUsd } : { rental: { ...rental, recent }, acts, givenNanoUsd };
}

/** Ends the open hold: charges to `endMs`, or releases it if nothing ran. */
export function bookEnd(rental: MachineRental, fromMs: number | null, endMs: number, hourMs: number): BookedSoFar {
  if (rental.heldNanoUsd === null) return { rental, acts: [] };
  if (fromMs !== null && endMs > fromMs) return bookStretch(rental, fromMs, endMs, hourMs);
  return { rental: { ...rental, heldNanoUsd: null }, acts: [{ act: "release", n: rental.n }] };
}

/** Charges stop at `endMs`; upstream has yet to show the end. */
export const ended = (
  fromMs: number | null,
  endMs: number,
  askedMs: number,
  idle: Idle | null = null,
): Phase<"ending"> => ({
  at: "ending",
  fromMs,
  endMs,
  askedMs,
  overdueMs: askedMs,
  lossHours: 0,
  idle,
});

/** How long it ran after its end, until `untilMs`. */
export const ranOnMs = ({ endMs, idle }: Phase<"ending">, untilMs: number): number =>
  Math.max(0, Math.min(untilMs, idle?.sinceMs ?? untilMs) - endMs - (idle?.ms ?? 0));

/** The end was requested at `atMs`: nothing is charged after it. */
export function askEnd(rental: MachineRental, atMs: number): Step<MachineRental> {
  const { phase } = rental;
  if (phase.at === "ending" || phase.at === "ended") return unchanged(rental);
  const ending =
    phase.at === "running"
      ? ended(phase.fromMs, Math.min(atMs, phase.paidUntilMs), atMs)
      : ended(null, atMs, atMs, { sinceMs: atMs, ms: 0, begun: phase.at === "preempted" });
  return unchanged({ ...rental, phase: ending });
}

/** The end that upstream showed. */
export interface SeenEnd {
  /** No time after this is charged: upstream's `terminated_at`, or when it was last seen running. */
  readonly endMs: number;
  /** Until when it ran upstream; null if it never started. */
  readonly ranUntilMs: number | null;
}

/**
 * Books an end that was seen. Charges to the earlier of both ends, refunds what was charged after it, and books the
 * time that it ran on as the operator's loss.
 */
export function closeMachine(
  rental: MachineRental,
  seen: SeenEnd,
  nowMs: number,
  lengths: Lengths,
): Step<MachineRental> {
  const { hourMs } = lengths;
  const asked = askEnd(rental, Math.min(seen.endMs, nowMs)).rental;
  const { phase } = asked;
  if (phase.at !== "ending") return unchanged(rental);
  const endMs = Math.min(phase.endMs, seen.endMs);
  const back = giveBack(asked, endMs, hourMs);
  const booked = bookEnd(back.rental, phase.fromMs, endMs, hourMs);
  const acts: Act[] = [...back.acts, ...booked.acts];
  const loss = lossAct(rental, seen.ranUntilMs === null ? 0 : ranOnMs(phase, seen.ranUntilMs), hourMs, false);
  if (loss && (loss.costNanoUsd > 0 || phase.lossHours > 0)) acts.push(loss);
  return { rental: { ...booked.rental, phase: { at: "ended", endMs } }, acts, stop: null };
}

/**
 * An ended machine still ran upstream until `ranUntilMs`: this is the operator's loss so far. `fromMs`: the start, if
 * none of it was charged; null: since its end.
 */
export function ranOn(
  rental: MachineRental,
  fromMs: number | null,
  ranUntilMs: number,
  estimated: boolean,
  { hourMs }: Lengths,
): readonly MoneyAct[] {
  if (rental.phase.at !== "ended") return [];
  const loss = lossAct(rental, ranUntilMs - (fromMs ?? rental.phase.endMs), hourMs, estimated);
  return loss && loss.costNanoUsd > 0 ? [loss] : [];
}

export function lossAct(rental: MachineRental, ms: number, hourMs: number, estimated: boolean) {
  if (rental.n === 0) return undefined;
  const costNanoUsd = rateFor(rental.rate.costNanoUsd, ms, hourMs);
  return { act: "loss", n: rental.n, costNanoUsd, estimated } as const;
}

/** The newest charged stretches are kept all the same: our clock may prove to have been ahead (clock-back.ts). */
const KEPT_PERIODS = 3;

/** Drops charged stretches that were seen running: they are not given back. */
export function forgetBefore(rental: MachineRental, lastRunningMs: number): MachineRental {
  const { recent } = rental;
  const kept = recent.filter(({ toMs }, index) => toMs > lastRunningMs || index >= recent.length - KEPT_PERIODS);
  return kept.length === recent.length ? rental : { ...rental, recent: kept };
}

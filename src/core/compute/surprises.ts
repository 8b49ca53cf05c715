/**
 * What upstream shows against what we know: another cost, a longer run than was bought, life after the end. The
 * operator is told, and pays.
 */
import { ranOn } from "./machine-books.ts";
import type { Act, Lengths } from "./rental.ts";
import type { MachineRow, MachineState } from "./resource.ts";

/** What of upstream's document matters here. */
interface Document {
  readonly state: MachineState;
  readonly rateNanoUsd: number | null;
  readonly startedAtMs: number | null;
  readonly terminatedAtMs: number | null;
}
interface Told {
  readonly row: MachineRow;
  readonly acts: readonly Act[];
}

/** When it started, as far as we can know: neither before its launch nor ahead of our clock. */
export function knownStart({ createdAtMs, seen }: MachineRow, { startedAtMs }: Document, nowMs: number): number | null {
  if (startedAtMs === null) return seen.startedAtMs;
  return startedAtMs > nowMs ? (seen.startedAtMs ?? nowMs) : Math.max(startedAtMs, createdAtMs);
}

/** The price in upstream's document is what the operator pays. It is compared with the price book once. */
export function comparePrice(row: MachineRow, { rateNanoUsd }: Document): Told {
  if (row.seen.priced || rateNanoUsd === null) return { row, acts: [] };
  const { rate } = row.rental;
  const seen = { ...row.seen, priced: true };
  if (rateNanoUsd === rate.costNanoUsd) return { row: { ...row, seen }, acts: [] };
  const rental = { ...row.rental, rate: { ...rate, costNanoUsd: rateNanoUsd } };
  return {
    row: { ...row, seen, rental },
    acts: [
      {
        act: "event",
        event: "compute_cost_differs",
        expectedNanoUsd: rate.costNanoUsd,
        shownNanoUsd: rateNanoUsd,
      },
    ],
  };
}

const isLonger = ({ seen, rental }: MachineRow): boolean =>
  seen.hours !== null && rental.hours !== null && seen.hours > rental.hours;

/**
 * Tells the operator once that upstream's run is longer than what was bought. The tenant pays for none of that: we stop
 * it at the end of what was bought.
 */
export const extendedTwice = (before: MachineRow, after: MachineRow): readonly Act[] =>
  isLonger(after) && !isLonger(before) ? [{ act: "event", event: "extended_twice" }] : [];

/** An ended row is seen again. If it is alive, it is stopped, and its cost is the operator's loss. */
export function haunted(row: MachineRow, document: Document, askedAtMs: number, lengths: Lengths): Told {
  const { seen, rental } = row;
  const haunts = document.state !== "ended";
  const untilMs = haunts ? askedAtMs : Math.min(document.terminatedAtMs ?? askedAtMs, askedAtMs);
  const startedAtMs = document.startedAtMs === null ? null : Math.max(document.startedAtMs, row.createdAtMs);
  const loss =
    startedAtMs === null || !(haunts || seen.haunts)
      ? []
      : ranOn(rental, row.create === "done" ? null : startedAtMs, untilMs, haunts, lengths);
  const acts: Act[] = [...loss];
  if (haunts && !seen.haunts) {
    acts.unshift({ act: "event", event: row.create === "done" ? "ended_runs" : "late_orphan" });
  }
  return { row: { ...row, seen: { ...seen, askedAtMs, haunts } }, acts };
}

/**
 * What a figure is, and how it measures: one side at a time, with numbers for its rows; the harness pairs the sides of
 * a round. Costs are CPU time of the side's process, latencies are the client's.
 */

import { cpuMicros, quiet, waitMicros } from "./machine.ts";
import type { Load, Outcome } from "./processes.ts";
import type { Side, Subject } from "./subject.ts";

/** One line of the table. */
export interface Row {
  readonly id: string;
  readonly label: string;
  readonly unit: string;
  readonly digits: number;
  /** What the design asks for, of the medians. */
  readonly target?: { readonly text: string; met(of: Medians): boolean };
}
export interface Medians {
  readonly gateway: number;
  /** By the bare Worker. */
  readonly ratio: number;
  readonly added: number;
  /** By Portkey; NaN where it was not measured. */
  readonly byPortkey: number;
}

export type Values = Readonly<Record<string, number>>;

export interface Figure {
  /** For `--only`. */
  readonly name: string;
  readonly rows: readonly Row[];
  /** True where each measurement wants a process that has done nothing yet. */
  readonly fresh: boolean;
  /**
   * How often a round measures each side, in turn: a machine's own times drift, and the more where little is measured.
   */
  readonly turns: number;
  /** Whether Portkey is measured beside. */
  readonly portkey?: boolean;
  measure(on: Bench, side: Side): Promise<Values>;
}

export interface Bench {
  readonly subject: Subject;
  readonly load: Load;
  /** How much of everything: 1 in a full run. */
  readonly scale: number;
  note(text: string): void;
}

/** A side of the subject; the harness asks for none that cannot be called. */
export function called(on: Bench, side: Side) {
  const found = on.subject.targets.get(side);
  if (!found) throw new Error(`${side} cannot be called`);
  return found;
}

export const scaled = (on: Bench, count: number, least: number) => Math.max(least, Math.round(count * on.scale));

/** What follows a call: the outbox ships after 0.5 s, the queue's consumer takes a batch after one more. */
export const TRAIL_MS: Record<Side, number> = { gateway: 2_200, beside: 2_200, bare: 200, portkey: 200 };

/** CPU time from before the order to when everything that it left behind is done, microseconds. */
export async function cpuOf(
  on: Bench,
  side: Side,
  work: () => Promise<Outcome>,
): Promise<{ micros: number; outcome: Outcome }> {
  const { pid } = called(on, side);
  const before = cpuMicros(pid);
  const outcome = await work();
  if (outcome.failed > 0)
    throw new Error(`${outcome.failed} of ${outcome.calls} calls failed (${side}, ${outcome.failedWith})`);
  await quiet(pid, TRAIL_MS[side]);
  return { micros: cpuMicros(pid) - before, outcome };
}

/** Above this share of a core, latency is the queue's and no longer the subject's. */
export const SATURATED = 0.7;
/**
 * The longest that the subject may have waited for its core, as a share of the time: above it, latency is a
 * neighbour's.
 */
const DISTURBED = 0.1;
/** How late the harness itself may have been in sending calls, and in passing on the frames of 500 streams. */
const LATE_CALL_MS = 20;
const LATE_FRAME_MS = 50;

/** The outcome of an order, and whether its times are the subject's own; if they are not, the notes say whose. */
export async function timesOf(
  on: Bench,
  side: Side,
  what: string,
  work: () => Promise<Outcome>,
): Promise<{ outcome: Outcome; busy: number; sound: boolean }> {
  const { pid } = called(on, side);
  const [cpuBefore, waitBefore] = [cpuMicros(pid), waitMicros(pid)];
  const outcome = await work();
  const elapsedMicros = outcome.elapsedMs * 1000;
  const busy = (cpuMicros(pid) - cpuBefore) / elapsedMicros;
  const waited = (waitMicros(pid) - waitBefore) / elapsedMicros;
  await quiet(pid, TRAIL_MS[side]);
  const late = (outcome.sendLateMs ?? 0) > LATE_CALL_MS || (outcome.ownLateMs ?? 0) > LATE_FRAME_MS;
  const flaw =
    (waited > DISTURBED && "the subject had to wait for its core") || (late && "the harness itself was late");
  if (flaw) on.note(`${what}: ${flaw}, a measurement is left out.`);
  return { outcome, busy, sound: !flaw };
}

/**
 * Inference instances by the hour: a tenant pays GPU-hours for a model that the operator runs for it, a day held ahead.
 * The gateway ends nothing here: while a day cannot be paid, calls are refused and the operator is told.
 *
 * The money is a machine's that runs by the hour, with a day in the hour's place: its rate is that of a day, its size
 * the GPU-hours of a day. Without money it is `ending`, and what upstream runs then is the operator's loss; with money
 * again it is resumed from that moment on.
 */
import { type Key, NEW_KEY } from "../account/tenant.ts";
import { type AccountNumber, asId, type KeyId } from "../ids.ts";
import { rentalSetBack } from "./clock-back.ts";
import { bookEnd, closeMachine, openHold } from "./machine-books.ts";
import { begin, openMachine, turnMachine } from "./machine-rental.ts";
import { type Act, type Lengths, type MachineRental, msFor, rateFor, type TurnFacts } from "./rental.ts";
import { turnDueMs } from "./rental-turn.ts";
import type { MadeBy } from "./resource.ts";

export interface HourlyPlan {
  readonly gpuType: string;
  /** Per replica. */
  readonly gpuCount: number;
  readonly replicas: number;
}

export interface InferenceRow {
  readonly kind: "inference";
  readonly id: number;
  /** Unique; nothing carries it upstream. */
  readonly tag: string;
  readonly by: MadeBy;
  readonly createdAtMs: number;
  /** The id that its calls name, `<name>:<instance_id>`. */
  readonly instanceId: number;
  readonly hourly: HourlyPlan;
  readonly rental: MachineRental;
  /** Until then the operator's books must have its instance, else nothing was begun; null: they have it. */
  readonly unstoredUntilMs?: number | null;
}

/** Between a rental's beginning and its instance's row the process may die. Then nobody is charged. */
const STORED_WITHIN_MS = 10 * 60_000;

const HOURS_A_DAY = 24;

/** Whose holds these are: the operator begins them, so no key's or team's budget counts them. */
export const OPERATORS_KEY: Key = {
  ...NEW_KEY,
  name: "operator",
  id: asId<KeyId>("operator"),
  lastFour: "",
  createdAtMs: 0,
  revokedAtMs: null,
};

export const isUnpaid = ({ rental }: InferenceRow): boolean => rental.phase.at !== "running";
export const isOver = ({ rental }: InferenceRow): boolean => rental.phase.at === "ended";

export const sameHourly = (one: HourlyPlan, other: HourlyPlan): boolean =>
  one.gpuType === other.gpuType && one.gpuCount === other.gpuCount && one.replicas === other.replicas;

/** The machine's rules, with a day in the hour's place. */
const byDay = <Facts extends Lengths>(facts: Facts): Facts => ({ ...facts, hourMs: facts.dayMs });

interface Stepped {
  readonly row: InferenceRow;
  readonly acts: readonly Act[];
}

/** Price and cost are of one GPU-hour. The caller has checked that the first day can be held. */
export function beginInference(
  { id, account, instanceId, hourly }: { id: number; account: AccountNumber; instanceId: number; hourly: HourlyPlan },
  prices: { readonly priceNanoUsd: number; readonly costNanoUsd: number },
  nowMs: number,
  lengths: Lengths,
): Stepped {
  const size = hourly.gpuCount * hourly.replicas * HOURS_A_DAY;
  const rate = {
    unit: "gpu_hours",
    size,
    priceNanoUsd: prices.priceNanoUsd * size,
    costNanoUsd: prices.costNanoUsd * size,
  } as const;
  const opened = openMachine(rate, null);
  const row: InferenceRow = {
    kind: "inference",
    id,
    tag: `inference-${account}-${id}-${instanceId}`,
    by: { keyId: OPERATORS_KEY.id, teamId: null, user: null },
    createdAtMs: nowMs,
    instanceId,
    hourly,
    rental: begin(opened.rental, nowMs, byDay(lengths)).rental,
    unstoredUntilMs: nowMs + STORED_WITHIN_MS,
  };
  return { row, acts: opened.acts };
}

/** The operator's books have its instance. */
export const storedInference = (row: InferenceRow): InferenceRow => ({ ...row, unstoredUntilMs: null });

/** Brings its money up to now. */
export function turnInference(row: InferenceRow, nowMs: number, facts: TurnFacts): Stepped {
  const { rental, unstoredUntilMs } = row;
  if (rental.phase.at === "ended") return { row, acts: [] };
  if (unstoredUntilMs && nowMs >= unstoredUntilMs) return endInference(row, row.createdAtMs, facts);
  if (rental.phase.at === "ending") {
    const resumed = resumeInference(row, nowMs, facts);
    if (resumed) return resumed;
  }
  const step = turnMachine(rental, nowMs, byDay(facts));
  const acts = step.acts.map(renamed);
  const { phase } = step.rental;
  if (rental.phase.at !== "running" || phase.at !== "ending") return { row: withRental(row, step.rental), acts };
  // The last of the money is charged at once.
  const last = bookEnd(step.rental, phase.fromMs, phase.endMs, facts.dayMs);
  const told: Act = { act: "event", event: "instance_unpaid", sinceMs: phase.endMs };
  return { row: withRental(row, last.rental), acts: [...acts, ...last.acts, told] };
}

const withRental = (row: InferenceRow, rental: MachineRental): InferenceRow =>
  // Nothing upstream is read, so nothing charged is ever given back.
  ({ ...row, rental: { ...rental, recent: [] } });

const renamed = (act: Act): Act =>
  act.act === "event" && act.event === "stop_overdue" ? { ...act, event: "instance_unpaid" } : act;

/** Paid again from now on, once there is room for an hour; undefined without it. */
function resumeInference(row: InferenceRow, nowMs: number, { dayMs, roomNanoUsd }: TurnFacts): Stepped | undefined {
  const { rental } = row;
  const { phase, rate } = rental;
  if (phase.at !== "ending" || nowMs <= phase.endMs) return undefined;
  const room = Math.min(roomNanoUsd, rate.priceNanoUsd);
  if (room < rateFor(rate.priceNanoUsd, Math.ceil(dayMs / HOURS_A_DAY), dayMs)) return undefined;
  const goalMs = nowMs + dayMs;
  const paidUntilMs = Math.min(goalMs, nowMs + msFor(room, rate.priceNanoUsd, dayMs));
  const held = openHold(rental, rateFor(rate.priceNanoUsd, paidUntilMs - nowMs, dayMs));
  const costNanoUsd = rateFor(rate.costNanoUsd, nowMs - phase.endMs, dayMs);
  const loss: Act[] = costNanoUsd > 0 ? [{ act: "loss", n: rental.n, costNanoUsd, estimated: false }] : [];
  const running = { at: "running", fromMs: nowMs, paidUntilMs, goalMs, triedMs: nowMs } as const;
  return { row: withRental(row, { ...held.rental, phase: running }), acts: [...loss, ...held.acts] };
}

/** Our clock was set back: what lies after now is moved to now. What was charged is not known any more, and stays. */
export function inferenceSetBack(row: InferenceRow, nowMs: number, lengths: Lengths): Stepped {
  const { rental, acts } = rentalSetBack(row.rental, nowMs, byDay(lengths));
  return { row: withRental({ ...row, createdAtMs: Math.min(row.createdAtMs, nowMs) }, rental), acts };
}

/** The operator ended it: charges to now, releases the rest. */
export function endInference(row: InferenceRow, nowMs: number, lengths: Lengths): Stepped {
  const { rental, acts } = closeMachine(row.rental, { endMs: nowMs, ranUntilMs: nowMs }, nowMs, byDay(lengths));
  return { row: withRental(row, rental), acts };
}

export function inferenceDueMs({ rental, unstoredUntilMs }: InferenceRow, lengths: Lengths): number | null {
  const dueMs = turnDueMs(rental, { ...byDay(lengths), graceDays: null });
  return unstoredUntilMs && dueMs !== null ? Math.min(dueMs, unstoredUntilMs) : dueMs;
}

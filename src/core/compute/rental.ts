/**
 * Compute: the decisions about GPU instances, clusters, storage, images and SSH keys. They take rows and facts and
 * return decisions.
 *
 * This folder must not know tables, upstream calls or the clock. `turn` (rental-turn.ts) and the steps beside it move a
 * rental's money, observe.ts applies what upstream shows, wants.ts decides what to send next, launches.ts and
 * changes.ts answer the tenant's calls, and documents.ts writes what tenants read.
 *
 * This file: a rental is the money of one resource. Its time is divided into periods numbered n = 1, 2, 3, ... Each
 * period has one hold and ends with one charge, never above the hold. Amounts are rounded up per period, so n periods
 * come to at most n nano-USD more than rate times time.
 */
/** Lengths of the billing hour and day. Tests shorten them; usage is still counted in true GPU-ms and GB-days. */
export interface Lengths {
  readonly hourMs: number;
  readonly dayMs: number;
}
const TRUE_HOUR_MS = 3_600_000;

type RentalUnit = "gpu_hours" | "interruptible_gpu_hours" | "storage_gb_days";

/** Price and cost of the whole resource, fixed at launch: per hour, or per day for storage. */
export interface Rate {
  readonly unit: RentalUnit;
  /** GPUs, or GB. */
  readonly size: number;
  readonly priceNanoUsd: number;
  readonly costNanoUsd: number;
}

/** `rate` nano-USD per `lengthMs`, for `ms`, rounded up. */
export function rateFor(rateNanoUsd: number, ms: number, lengthMs: number): number {
  if (ms <= 0) return 0;
  const length = BigInt(lengthMs);
  return Number((BigInt(rateNanoUsd) * BigInt(ms) + length - 1n) / length);
}

/** How many whole ms an amount pays for; 0 without money. Infinite at a rate of 0. */
export function msFor(amountNanoUsd: number, rateNanoUsd: number, lengthMs: number): number {
  if (rateNanoUsd === 0) return Number.MAX_SAFE_INTEGER;
  if (amountNanoUsd <= 0) return 0;
  if (!Number.isFinite(amountNanoUsd)) return Number.MAX_SAFE_INTEGER;
  const ms = (BigInt(Math.floor(amountNanoUsd)) * BigInt(lengthMs)) / BigInt(rateNanoUsd);
  return ms > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(ms);
}

/** Metered quantity of a stretch of time: GPU-ms, in true hours. */
export function gpuMs(gpus: number, ms: number, hourMs: number): number {
  return Number((BigInt(gpus) * BigInt(ms) * BigInt(TRUE_HOUR_MS)) / BigInt(hourMs));
}

/** A stretch that was charged. */
export interface Period {
  readonly n: number;
  readonly fromMs: number;
  readonly toMs: number;
  readonly amountNanoUsd: number;
}

/** An amount of a period, with its usage and the operator's cost. */
interface Booked extends Period {
  readonly costNanoUsd: number;
  readonly unit: RentalUnit;
  /** GPU-ms or GB-days. */
  readonly quantity: number;
}

/**
 * What the account books, in this order, in the transaction that stores the new row. Hold, entry, event and loss share
 * the id `rentalCallId(account, resource, n)`.
 *
 * `hold` opens hold n, `resize` sets its amount, `charge` ends it with an entry and a usage event and releases the
 * rest, `release` ends it without a charge. `correct` refunds a charged stretch: a positive `correction` entry and an
 * event with negative differences. `loss` sets (does not add to) the operator's loss of n.
 */
export type MoneyAct =
  | { readonly act: "hold"; readonly n: number; readonly amountNanoUsd: number }
  | { readonly act: "resize"; readonly n: number; readonly amountNanoUsd: number }
  | ({ readonly act: "charge" } & Booked)
  | { readonly act: "release"; readonly n: number }
  | ({ readonly act: "correct" } & Booked)
  | { readonly act: "loss"; readonly n: number; readonly costNanoUsd: number; readonly estimated: boolean };

/** Events for the operator's log. Tenants see the `storage.*` events too. */
type EventAct =
  | { readonly act: "event"; readonly event: "stop_overdue" | "instance_unpaid"; readonly sinceMs: number }
  | { readonly act: "event"; readonly event: "late_orphan" | "ended_runs" | "resumed_late" | "extended_twice" }
  | {
      readonly act: "event";
      readonly event: "compute_cost_differs";
      readonly expectedNanoUsd: number;
      readonly shownNanoUsd: number;
    }
  /** `sinceMs`: the start of the first unpaid day. */
  | { readonly act: "event"; readonly event: "storage.suspended"; readonly sinceMs: number }
  | { readonly act: "event"; readonly event: "storage.deleting"; readonly deletesAtMs: number };
export type Act = MoneyAct | EventAct;

/** The contract's `termination_reason`. */
export const END_REASONS = ["user", "duration_expired", "credit_depleted", "preempted", "failed", "admin"] as const;
export type EndReason = (typeof END_REASONS)[number];

/** The money of an instance or cluster. */
export interface MachineRental {
  readonly kind: "machine";
  readonly rate: Rate;
  /** How many hours were bought; null: by the hour, without an end. */
  readonly hours: number | null;
  /** The number of the newest period; 0 before the first. */
  readonly n: number;
  /** The amount of hold n; null if it is not open. */
  readonly heldNanoUsd: number | null;
  readonly phase: MachinePhase;
  /** Charged stretches that may have to be refunded: those after it was last seen running. */
  readonly recent: readonly Period[];
}

/**
 * `waiting`: held, not seen running. `running`: period n began at `fromMs`; hold n pays until `paidUntilMs`, and should
 * pay until `goalMs` (for a fixed run both are its end). `preempted`: nothing is charged; `leftMs` remain of a fixed
 * run. `ending`: nothing is charged from `endMs` on, and upstream has not shown the end; with `fromMs` null it never
 * started, or what it ran is booked.
 */
type MachinePhase =
  | { readonly at: "waiting" }
  | {
      readonly at: "running";
      readonly fromMs: number;
      readonly paidUntilMs: number;
      readonly goalMs: number;
      /** When it last tried to get money for the rest. */
      readonly triedMs: number;
    }
  | { readonly at: "preempted"; readonly sinceMs: number; readonly leftMs: number | null }
  | {
      readonly at: "ending";
      readonly fromMs: number | null;
      readonly endMs: number;
      /** When the end was requested. The bookings wait up to ten minutes from here for upstream. */
      readonly askedMs: number;
      readonly overdueMs: number;
      readonly lossHours: number;
      /** Null: it runs, and has run all the time since `endMs`. */
      readonly idle: Idle | null;
    }
  | { readonly at: "ended"; readonly endMs: number };
/** When an ending machine does not run upstream: that is no loss, and its stop is not overdue. */
export interface Idle {
  /** Since when it does not run; null: it runs again. */
  readonly sinceMs: number | null;
  /** How long it did not run before, after the end that was asked for. */
  readonly ms: number;
  /** False: it never ran. */
  readonly begun: boolean;
}

export type Phase<At extends MachinePhase["at"]> = Extract<MachinePhase, { at: At }>;

/** The money of a drive or filesystem. Day k begins `k - 1` days after `createdAtMs`; its period has the number k. */
export interface StorageRental {
  readonly kind: "storage";
  readonly rate: Rate;
  /** Upstream's creation, once it is known. */
  readonly createdAtMs: number;
  /** The newest day that was added, paid or not; 0 before the first. */
  readonly n: number;
  /** The hold of day 1; null if it is not open. */
  readonly heldNanoUsd: number | null;
  /** `waiting`: not seen available. `ended`: no more days; unpaid ones are still retried until the grace is over. */
  readonly phase: "waiting" | "kept" | "ended";
  /** Days that begin at or after this are not charged. */
  readonly endMs: number | null;
  /** Days without payment, oldest first. */
  readonly unpaid: readonly number[];
  /** When the tenant was warned, three days and one day before the deletion. */
  readonly warnedMs: readonly number[];
  /** When it was first seen unpaid and not mounted; null: it is paid. */
  readonly suspendedMs: number | null;
}

export type Rental = MachineRental | StorageRental;

/** What a turn needs to know besides the rental. */
export interface TurnFacts extends Lengths {
  /**
   * What money and budgets leave for one more hold, nano-USD, after this rental's own hold. Infinite without a limit.
   * For storage, money alone. May be negative.
   */
  readonly roomNanoUsd: number;
  /** For storage: days from the first unpaid one until deletion; null: never. */
  readonly graceDays: number | null;
  /** For storage: whether a running machine has it mounted. */
  readonly mounted: boolean;
}

/** The rental after a step and what to book. `stop`: its resource must be stopped or deleted, for this reason. */
export interface Step<R extends Rental = Rental> {
  readonly rental: R;
  readonly acts: readonly Act[];
  readonly stop: EndReason | null;
}
export const unchanged = <R extends Rental>(rental: R): Step<R> => ({ rental, acts: [], stop: null });

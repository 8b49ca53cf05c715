/**
 * The money of drives and filesystems. Day 1 is held at the create and charged when upstream shows it available. Each
 * later day is charged at its start. A day that cannot be paid stays owed and is retried at every turn, oldest first.
 * After the grace the resource is deleted, with two warnings before.
 */
import {
  type Act,
  type Lengths,
  type MoneyAct,
  type Rate,
  type Step,
  type StorageRental,
  type TurnFacts,
  unchanged,
} from "./rental.ts";

/** The tenant is warned this many days before a deletion. */
const WARNED_DAYS = [3, 1] as const;
/** The most days that one turn adds; later turns add the rest. */
const MOST_DAYS_A_TURN = 400;

type StorageFacts = Pick<TurnFacts, "graceDays" | keyof Lengths>;

/** The rental of a create. Its days count from `createdAtMs` until upstream's creation is known. */
export function openStorage(rate: Rate, createdAtMs: number): Step<StorageRental> {
  const amountNanoUsd = rate.priceNanoUsd;
  const rental: StorageRental = {
    kind: "storage",
    rate,
    createdAtMs,
    n: 1,
    heldNanoUsd: amountNanoUsd,
    phase: "waiting",
    endMs: null,
    unpaid: [],
    warnedMs: [],
    suspendedMs: null,
  };
  return { rental, acts: [{ act: "hold", n: 1, amountNanoUsd }], stop: null };
}

/** Charges day 1 when the storage was seen available. */
export function beginStorage(rental: StorageRental, { dayMs }: Lengths): Step<StorageRental> {
  if (rental.phase !== "waiting") return unchanged(rental);
  const after: StorageRental = { ...rental, phase: "kept", heldNanoUsd: null };
  return { rental: after, acts: [chargeDay(rental, 1, dayMs)], stop: null };
}

/**
 * Days that begin after `atMs` are not charged. One that begins in that very millisecond is: a day is charged at its
 * start, and the service bills until the boundary that comes after the delete.
 */
export function askStorageEnd(rental: StorageRental, atMs: number): Step<StorageRental> {
  const endMs = Math.min(rental.endMs ?? Number.POSITIVE_INFINITY, atMs + 1);
  return unchanged(rental.phase === "ended" ? rental : { ...rental, endMs });
}

/** Until when upstream kept it, which is what upstream bills; `estimated`: at the latest. Null: it never existed. */
export type Kept = { readonly untilMs: number; readonly estimated: boolean } | null;

/**
 * Closes the rental when upstream shows it deleted, lost or never created. Days that had begun at `endMs` stay owed;
 * days that upstream kept it beyond those are the operator's loss.
 */
export function closeStorage(
  rental: StorageRental,
  endMs: number,
  kept: Kept,
  { dayMs }: Lengths,
): Step<StorageRental> {
  if (rental.phase === "ended") return unchanged(rental);
  const asked = askStorageEnd(rental, endMs).rental;
  const isHeld = asked.heldNanoUsd !== null;
  const acts: Act[] = isHeld ? [{ act: "release", n: 1 }] : [];
  const begun = isHeld ? { ...asked, n: 0 } : takeUpDays(asked, endMs, dayMs);
  const closed: StorageRental = { ...begun, heldNanoUsd: null, phase: "ended" };
  return { rental: closed, acts: [...acts, ...lossBeyond(closed, kept, dayMs)], stop: null };
}

/** Sets the loss of the days that upstream kept it beyond those that the tenant was charged or owes. */
export function lossBeyond(rental: StorageRental, kept: Kept, dayMs: number): MoneyAct[] {
  if (kept === null) return [];
  const days = Math.floor((kept.untilMs - rental.createdAtMs) / dayMs) + 1 - rental.n;
  const costNanoUsd = rental.rate.costNanoUsd * days;
  return days > 0 ? [{ act: "loss", n: rental.n + 1, costNanoUsd, estimated: kept.estimated }] : [];
}

/** Counts its days from upstream's creation, so that ours and those that upstream bills begin together. */
export function createdUpstream(rental: StorageRental, createdAtMs: number): StorageRental {
  return rental.n <= 1 && rental.unpaid.length === 0 ? { ...rental, createdAtMs } : rental;
}

/** Brings a storage rental's days up to now. */
export function turnStorage(rental: StorageRental, nowMs: number, facts: TurnFacts): Step<StorageRental> {
  if (rental.phase === "waiting") return unchanged(rental);
  const { dayMs } = facts;
  const begun = rental.phase === "kept" ? takeUpDays(rental, nowMs, dayMs) : rental;
  const price = rental.rate.priceNanoUsd;
  const payable =
    price === 0 || facts.roomNanoUsd === Number.POSITIVE_INFINITY
      ? begun.unpaid.length
      : Math.max(0, Math.floor(facts.roomNanoUsd / price));
  const paid = begun.unpaid.slice(0, payable);
  const unpaid = begun.unpaid.slice(payable);
  const acts: Act[] = paid.flatMap((n): MoneyAct[] => [
    { act: "hold", n, amountNanoUsd: price },
    chargeDay(rental, n, dayMs),
  ]);
  if (unpaid.length === 0) {
    const after = paid.length > 0 || begun !== rental ? { ...begun, unpaid, warnedMs: [], suspendedMs: null } : rental;
    return { rental: after, acts, stop: null };
  }
  // A partial payment makes a later day the first unpaid one, so the warnings start again.
  const warnedMs = paid.length > 0 ? [] : begun.warnedMs;
  const owing = suspended({ ...begun, unpaid, warnedMs }, nowMs, facts);
  return overdue(owing.rental, [...acts, ...owing.acts], nowMs, facts);
}

/** Tells once that it is suspended: from the first turn that finds it unpaid and not mounted. */
function suspended(rental: StorageRental, nowMs: number, { mounted, dayMs }: TurnFacts): Step<StorageRental> {
  if (mounted || rental.suspendedMs || rental.phase === "ended" || rental.endMs !== null) return unchanged(rental);
  const sinceMs = startOfDay(rental, rental.unpaid[0] ?? rental.n, dayMs);
  const acts: Act[] = [{ act: "event", event: "storage.suspended", sinceMs }];
  return { rental: { ...rental, suspendedMs: nowMs }, acts, stop: null };
}

/** Adds the days that began since the last turn to the unpaid ones. */
function takeUpDays(rental: StorageRental, nowMs: number, dayMs: number): StorageRental {
  if (rental.phase === "waiting") return rental;
  const untilMs = Math.min(nowMs, (rental.endMs ?? Number.POSITIVE_INFINITY) - 1);
  const begun = Math.floor((untilMs - rental.createdAtMs) / dayMs) + 1;
  const count = Math.min(MOST_DAYS_A_TURN, begun - rental.n);
  if (count <= 0) return rental;
  const days = Array.from({ length: count }, (_, index) => rental.n + 1 + index);
  return { ...rental, n: rental.n + count, unpaid: [...rental.unpaid, ...days] };
}

/** Warns, deletes, or writes unpaid days off as a loss. */
function overdue(
  rental: StorageRental,
  paidActs: readonly Act[],
  nowMs: number,
  facts: TurnFacts,
): Step<StorageRental> {
  const acts = [...paidActs];
  const { graceDays, dayMs } = facts;
  const deletesAtMs = deletionMs(rental, graceDays, dayMs);
  if (deletesAtMs === null || graceDays === null) return { rental, acts, stop: null };
  if (rental.phase === "ended") {
    if (nowMs < graceOverMs(rental, graceDays, dayMs)) return { rental, acts, stop: null };
    return { rental: { ...rental, unpaid: [] }, acts: [...acts, ...lost(rental)], stop: null };
  }
  if (rental.endMs !== null) return { rental, acts, stop: null };
  const next = WARNED_DAYS[rental.warnedMs.length];
  if (next !== undefined) {
    const warnsAtMs = deletesAtMs - next * dayMs;
    if (nowMs < warnsAtMs) return { rental, acts, stop: null };
    const warned = { ...rental, warnedMs: [...rental.warnedMs, nowMs] };
    const movedMs = deletionMs(warned, graceDays, dayMs) ?? deletesAtMs;
    acts.push({ act: "event", event: "storage.deleting", deletesAtMs: movedMs });
    return { rental: warned, acts, stop: null };
  }
  if (nowMs < deletesAtMs || facts.mounted) return { rental, acts, stop: null };
  // This deletion is ours, not the tenant's: a day that starts at this very moment is not owed. Upstream may bill it:
  // then it is a loss when the end is seen.
  const owed = rental.unpaid.filter((day) => startOfDay(rental, day, dayMs) < nowMs);
  const n = rental.n - (rental.unpaid.length - owed.length);
  return { rental: { ...rental, n, unpaid: owed, endMs: nowMs }, acts, stop: "credit_depleted" };
}

const lost = (rental: StorageRental): MoneyAct[] =>
  rental.unpaid.map((n) => ({ act: "loss", n, costNanoUsd: rental.rate.costNanoUsd, estimated: false }));

const startOfDay = (rental: StorageRental, day: number, dayMs: number): number =>
  rental.createdAtMs + (day - 1) * dayMs;

/** When the grace for the first unpaid day is over. */
function graceOverMs(rental: StorageRental, graceDays: number, dayMs: number): number {
  return startOfDay(rental, rental.unpaid[0] ?? rental.n + 1, dayMs) + graceDays * dayMs;
}

/** When it may be deleted: after the grace, and no sooner after a warning than the warning announced. */
function deletionMs(rental: StorageRental, graceDays: number | null, dayMs: number): number | null {
  if (graceDays === null || rental.unpaid.length === 0) return null;
  return Math.max(
    graceOverMs(rental, graceDays, dayMs),
    ...rental.warnedMs.map((atMs, index) => atMs + (WARNED_DAYS[index] ?? 0) * dayMs),
  );
}

/** Whether it shows `suspended` while unmounted, and may not be attached. */
export const isUnpaid = (rental: StorageRental): boolean => rental.unpaid.length > 0;

/** Unpaid days are also retried with every credit. */
export function storageDueMs(rental: StorageRental, { graceDays, dayMs }: StorageFacts): number | null {
  if (rental.phase === "waiting") return null;
  const nextDayMs = startOfDay(rental, rental.n + 1, dayMs);
  const begins =
    rental.phase === "ended" || (rental.endMs !== null && nextDayMs >= rental.endMs)
      ? Number.POSITIVE_INFINITY
      : nextDayMs;
  const deletesAtMs = deletionMs(rental, graceDays, dayMs);
  let dueMs = Number.POSITIVE_INFINITY;
  if (deletesAtMs !== null && graceDays !== null) {
    if (rental.phase === "ended") dueMs = graceOverMs(rental, graceDays, dayMs);
    else if (rental.endMs === null) dueMs = deletesAtMs - (WARNED_DAYS[rental.warnedMs.length] ?? 0) * dayMs;
  }
  const least = Math.min(begins, dueMs);
  return least === Number.POSITIVE_INFINITY ? null : least;
}

function chargeDay(rental: StorageRental, n: number, dayMs: number): MoneyAct {
  const { rate } = rental;
  const fromMs = startOfDay(rental, n, dayMs);
  return {
    act: "charge",
    n,
    fromMs,
    toMs: fromMs + dayMs,
    amountNanoUsd: rate.priceNanoUsd,
    costNanoUsd: rate.costNanoUsd,
    unit: rate.unit,
    quantity: rate.size,
  };
}

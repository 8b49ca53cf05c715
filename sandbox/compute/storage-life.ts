/** How drives and filesystems move from state to state, and their daily charge. */
import { chargeDay } from "./purse.ts";
import { type Account, holdsMounts, isMachine, type Machine, type Storage } from "./records.ts";
import type { World } from "./world.ts";

/** From creation to `available`, and from deletion to `deleted`. */
export const PROVISION_MS = 1_000;
const DELETE_MS = 1_000;

export function storageDueMs(storage: Storage): number {
  const step = storage.stuck ? null : storage.stepMs;
  const day = isKept(storage) ? storage.nextDayMs : null;
  return Math.min(step ?? Number.POSITIVE_INFINITY, day ?? Number.POSITIVE_INFINITY);
}

/** What is due at this time. */
export function storageHappens(world: World, account: Account, storage: Storage, atMs: number): void {
  if (storage.stepMs === atMs && !storage.stuck) {
    storage.stepMs = null;
    storage.updatedMs = atMs;
    if (storage.phase === "pending") storage.phase = "ready";
    else if (storage.phase === "deleting") {
      storage.phase = "deleted";
      storage.deletedMs = atMs;
    }
  } else {
    storage.nextDayMs += world.lengths.dayMs;
    storage.daysOwed += 1;
    payOwed(world, account, storage, atMs);
  }
  world.touch(storage);
}

/** Pays owed days, oldest first, as far as the money goes. */
export function payOwed(world: World, account: Account, storage: Storage, atMs: number): void {
  const owed = storage.daysOwed;
  while (storage.daysOwed > 0 && chargeDay(world, account, storage, atMs)) storage.daysOwed -= 1;
  if (storage.daysOwed !== owed) world.touch(storage);
}

/** The day that has begun stays charged; no other is. */
export function deleteStorage(world: World, storage: Storage, atMs: number): void {
  storage.phase = "deleting";
  storage.stepMs = atMs + DELETE_MS;
  storage.deleteAskedMs = atMs;
  storage.updatedMs = atMs;
  world.touch(storage);
}

const isKept = ({ phase }: Storage): boolean => phase === "pending" || phase === "ready";

/** The machines that have it attached, running or not. */
export function attachedTo(world: World, storage: Storage): Machine[] {
  return [...world.live(storage.account)].filter(
    (one): one is Machine => isMachine(one) && holdsMounts(one) && one.mounts.some(({ id }) => id === storage.id),
  );
}

const MOUNTING: ReadonlySet<Machine["phase"]> = new Set(["running", "rebuilding", "stopping"]);

/** `in_use`: pods that run have it mounted. `suspended`: a day is unpaid and nothing has it mounted. */
export function storageStatus(world: World, storage: Storage): string {
  if (storage.phase !== "ready") return storage.phase;
  if (attachedTo(world, storage).some(({ phase }) => MOUNTING.has(phase))) return "in_use";
  return storage.daysOwed > 0 ? "suspended" : "available";
}

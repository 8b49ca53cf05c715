/** Lets happen what is due, in the order of time. Called before anything is read or changed. */
import { dueMs, happen } from "./lifecycle.ts";
import { type Account, isMachine, isStorage, type Resource } from "./records.ts";
import { payOwed, storageDueMs, storageHappens } from "./storage-life.ts";
import type { World } from "./world.ts";

/** Brings every account to its present. */
export function catchUp(world: World): void {
  for (const account of world.accounts()) catchUpAccount(world, account);
}

function catchUpAccount(world: World, account: Account): void {
  const nowMs = world.now(account);
  for (;;) {
    const next = nextDue(world, account);
    if (!next || next.atMs > nowMs) break;
    const { resource, atMs } = next;
    if (isMachine(resource)) happen(world, account, resource, atMs);
    else if (isStorage(resource)) storageHappens(world, account, resource, atMs);
  }
  for (const one of world.live(account.account)) if (isStorage(one)) payOwed(world, account, one, nowMs);
}

/** A tie goes to the older resource. */
function nextDue(world: World, account: Account): { resource: Resource; atMs: number } | null {
  let next: { resource: Resource; atMs: number } | null = null;
  for (const resource of world.live(account.account)) {
    const atMs = due(resource, world.lengths.hourMs);
    if (Number.isFinite(atMs) && (next === null || atMs < next.atMs)) next = { resource, atMs };
  }
  return next;
}

function due(resource: Resource, hourMs: number): number {
  if (isMachine(resource)) return dueMs(resource, hourMs);
  return isStorage(resource) ? storageDueMs(resource) : Number.POSITIVE_INFINITY;
}

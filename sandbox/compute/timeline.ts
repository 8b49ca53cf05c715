/** Carries out what is due, in the order of time. Called before anything is read or changed. */
import { dueMs, happen } from "./lifecycle.ts";
import { type Account, isMachine, isStorage, type Resource } from "./records.ts";
import { payOwed, storageDueMs, storageHappens } from "./storage-life.ts";
import type { World } from "./world.ts";

/** Brings every account to its present. */
export function catchUp(world: World): void {
  for (const account of world.accounts()) catchUpAccount(world, account);
}

interface Coming {
  readonly resource: Resource;
  atMs: number;
}

/** An event of one resource changes only when that resource's own next event comes. */
function catchUpAccount(world: World, account: Account): void {
  const nowMs = world.now(account);
  const coming = [...world.live(account.account)].map(
    (resource): Coming => ({ resource, atMs: due(resource, world.lengths.hourMs) }),
  );
  for (let next = first(coming); next && next.atMs <= nowMs; next = first(coming)) {
    const { resource, atMs } = next;
    if (isMachine(resource)) happen(world, account, resource, atMs);
    else if (isStorage(resource)) storageHappens(world, account, resource, atMs);
    next.atMs = due(resource, world.lengths.hourMs);
  }
  for (const { resource } of coming) if (isStorage(resource)) payOwed(world, account, resource, nowMs);
}

/** A tie goes to the older resource. */
function first(coming: readonly Coming[]): Coming | undefined {
  let earliest = coming[0];
  for (const one of coming) if (earliest && one.atMs < earliest.atMs) earliest = one;
  return earliest;
}

function due(resource: Resource, hourMs: number): number {
  if (isMachine(resource)) return dueMs(resource, hourMs);
  return isStorage(resource) ? storageDueMs(resource) : Number.POSITIVE_INFINITY;
}

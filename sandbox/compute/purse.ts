/** Moves money of an account: holds it for a machine, charges it, gives it back. */
import { priceOf, roomNanoUsd } from "./money.ts";
import type { Account, Machine, Storage } from "./records.ts";
import type { World } from "./world.ts";

/** Adds to what is held for a machine. False, and nothing held, if there is not enough. */
export function hold(world: World, account: Account, machine: Machine, amountNanoUsd: number): boolean {
  if (amountNanoUsd > roomNanoUsd(account)) return false;
  account.heldNanoUsd += amountNanoUsd;
  machine.heldNanoUsd += amountNanoUsd;
  world.touch(account);
  world.touch(machine);
  return true;
}

/** Charges a part of what is held, never more. */
export function chargeHeld(
  world: World,
  account: Account,
  machine: Machine,
  amountNanoUsd: number,
  atMs: number,
): void {
  const amount = Math.min(amountNanoUsd, machine.heldNanoUsd);
  machine.heldNanoUsd -= amount;
  machine.chargedNanoUsd += amount;
  account.heldNanoUsd -= amount;
  take(world, account, amount, atMs, machine.id, `${machine.kind} ${machine.name ?? machine.id}`);
  world.touch(machine);
}

export function releaseRest(world: World, account: Account, machine: Machine): void {
  account.heldNanoUsd -= machine.heldNanoUsd;
  machine.heldNanoUsd = 0;
  world.touch(account);
  world.touch(machine);
}

/** Charges a day of storage. False if there is not enough. */
export function chargeDay(world: World, account: Account, storage: Storage, atMs: number): boolean {
  if (storage.dayNanoUsd > roomNanoUsd(account)) return false;
  storage.daysCharged += 1;
  take(world, account, storage.dayNanoUsd, atMs, storage.id, `${storage.kind} ${storage.name}`);
  world.touch(storage);
  return true;
}

export function credit(world: World, account: Account, amountNanoUsd: number, description: string): void {
  account.balanceNanoUsd += amountNanoUsd;
  const atMs = world.now(account);
  const { balanceNanoUsd } = account;
  world.book({
    account: account.account,
    atMs,
    kind: "credit",
    amountNanoUsd,
    balanceNanoUsd,
    resource: null,
    description,
  });
  world.touch(account);
}

function take(world: World, account: Account, amount: number, atMs: number, resource: number, description: string) {
  account.balanceNanoUsd -= amount;
  world.touch(account);
  if (amount === 0) return;
  world.book({
    account: account.account,
    atMs,
    kind: "charge",
    amountNanoUsd: -amount,
    balanceNanoUsd: account.balanceNanoUsd,
    resource,
    description,
  });
}

/** How long its pods were billed up to a time. */
export const ranMs = ({ runs }: Machine, untilMs: number): number =>
  runs.reduce((sum, { fromMs, toMs }) => sum + Math.max(0, (toMs ?? untilMs) - fromMs), 0);

/** What is still to be charged of its hold when its billing ends or pauses at a time. */
export function owedNanoUsd(machine: Machine, untilMs: number, hourMs: number): number {
  if (machine.hours !== null)
    return priceOf(machine.rateNanoUsd, ranMs(machine, untilMs), hourMs) - machine.chargedNanoUsd;
  if (machine.paidFromMs === null) return 0;
  return priceOf(machine.rateNanoUsd, Math.max(0, untilMs - machine.paidFromMs), hourMs);
}

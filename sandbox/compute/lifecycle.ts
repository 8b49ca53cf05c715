/**
 * How a machine moves from state to state: by its pods, by its money, by a call, or forced by a test. Every function
 * is given the time at which it happens, which may lie before now: nothing happens until somebody asks.
 */
import { msFor, priceOf, roomNanoUsd } from "./money.ts";
import { chargeHeld, hold, owedNanoUsd, ranMs, releaseRest } from "./purse.ts";
import type { Account, Machine, Reason } from "./records.ts";
import type { World } from "./world.ts";

export const START_MS = 2_000;
export const STOP_MS = 1_000;

/** The pods of these images never come up. */
const BROKEN_IMAGE = /:missing$/;
/** A registry shows these to nobody without a credential. */
const PRIVATE_IMAGE = /\/private\//;

export const isBilled = ({ phase }: Machine): boolean => phase === "running" || phase === "rebuilding";

/** When a fixed run ends; null while it is not running. */
function endsAtMs(machine: Machine, hourMs: number): number | null {
  const last = machine.runs.at(-1);
  if (machine.hours === null || !isBilled(machine) || !last) return null;
  const before = ranMs({ ...machine, runs: machine.runs.slice(0, -1) }, 0);
  return last.fromMs + machine.hours * hourMs - before;
}

/** When something happens to it next by itself. */
export function dueMs(machine: Machine, hourMs: number): number {
  const step = machine.stuck ? null : machine.stepMs;
  const money = isBilled(machine) ? (endsAtMs(machine, hourMs) ?? machine.paidUntilMs) : null;
  return Math.min(step ?? Number.POSITIVE_INFINITY, money ?? Number.POSITIVE_INFINITY);
}

/** What is due at this time. */
export function happen(world: World, account: Account, machine: Machine, atMs: number): void {
  const { hourMs } = world.lengths;
  world.touch(machine);
  if (machine.stepMs === atMs && !machine.stuck) step(world, account, machine, atMs);
  else if (machine.hours !== null) end(world, machine, atMs, "duration_expired");
  else turn(world, account, machine, atMs, hourMs);
}

function step(world: World, account: Account, machine: Machine, atMs: number): void {
  machine.stepMs = null;
  if (machine.phase === "stopping") stop(world, account, machine, atMs);
  else if (BROKEN_IMAGE.test(machine.image) || (PRIVATE_IMAGE.test(machine.image) && !machine.pulledAs)) {
    fail(world, account, machine, atMs);
  } else if (machine.phase === "pending") run(world, machine, atMs);
  else machine.phase = "running";
}

/** The pods run from now on. */
function run(world: World, machine: Machine, atMs: number): void {
  machine.phase = "running";
  machine.startedMs ??= atMs;
  machine.runs.push({ fromMs: atMs, toMs: null });
  if (machine.hours !== null) return;
  machine.paidFromMs = atMs;
  machine.paidUntilMs = atMs + msFor(machine.heldNanoUsd, machine.rateNanoUsd, world.lengths.hourMs);
}

/** The paid period of an hourly machine is over: charge it, then hold the next hour or what is left. */
function turn(world: World, account: Account, machine: Machine, atMs: number, hourMs: number): void {
  chargeHeld(world, account, machine, owedNanoUsd(machine, atMs, hourMs), atMs);
  releaseRest(world, account, machine);
  const hour = priceOf(machine.rateNanoUsd, hourMs, hourMs);
  const got = Math.min(hour, roomNanoUsd(account));
  const lastsMs = msFor(got, machine.rateNanoUsd, hourMs);
  machine.paidFromMs = atMs;
  machine.paidUntilMs = atMs + lastsMs;
  if (lastsMs === 0) end(world, machine, atMs, "credit_depleted");
  else hold(world, account, machine, got);
}

/** Billing ends; the pods stop a moment later. */
export function end(world: World, machine: Machine, atMs: number, reason: Reason): void {
  closeRun(machine, atMs);
  machine.phase = "stopping";
  machine.reason = reason;
  machine.endedMs = atMs;
  machine.stepMs = atMs + STOP_MS;
  world.touch(machine);
}

function stop(world: World, account: Account, machine: Machine, atMs: number): void {
  settle(world, account, machine, atMs);
  machine.phase = "stopped";
  machine.stoppedMs = atMs;
  world.touch(machine);
}

/** Charges what ran and gives the rest of the hold back. */
function settle(world: World, account: Account, machine: Machine, atMs: number): void {
  const untilMs = machine.endedMs ?? atMs;
  chargeHeld(world, account, machine, Math.max(0, owedNanoUsd(machine, untilMs, world.lengths.hourMs)), atMs);
  releaseRest(world, account, machine);
  machine.paidFromMs = null;
  machine.paidUntilMs = null;
}

export function fail(world: World, account: Account, machine: Machine, atMs: number): void {
  vanish(world, account, machine, atMs, "failed", "failed");
}

/** Ends without a stop: its pods are gone at once. */
export function vanish(
  world: World,
  account: Account,
  machine: Machine,
  atMs: number,
  phase: "failed" | "lost" | "stopped",
  reason: Reason | null,
): void {
  closeRun(machine, atMs);
  machine.endedMs ??= atMs;
  settle(world, account, machine, atMs);
  machine.phase = phase;
  machine.reason = reason ?? machine.reason;
  machine.stepMs = null;
  machine.stoppedMs = atMs;
  world.touch(machine);
}

/** The pods are taken away for a while. A fixed run keeps its hold, an hourly one gives the rest of the hour back. */
export function preempt(world: World, account: Account, machine: Machine, atMs: number): void {
  closeRun(machine, atMs);
  if (machine.hours === null) {
    machine.endedMs = atMs;
    settle(world, account, machine, atMs);
    machine.endedMs = null;
  }
  machine.phase = "preempted";
  machine.stepMs = null;
  world.touch(machine);
}

/** The pods are back; an hourly machine holds an hour again, or stops if there is no money. */
export function resume(world: World, account: Account, machine: Machine, atMs: number): void {
  if (machine.hours === null) {
    const hour = priceOf(machine.rateNanoUsd, world.lengths.hourMs, world.lengths.hourMs);
    hold(world, account, machine, Math.min(hour, roomNanoUsd(account)));
  }
  run(world, machine, atMs);
}

/** The pods are made anew from a changed image or command; billing goes on. */
export function rebuild(world: World, machine: Machine, atMs: number): void {
  machine.phase = "rebuilding";
  machine.stepMs = atMs + START_MS;
  world.touch(machine);
}

function closeRun(machine: Machine, atMs: number): void {
  const last = machine.runs.at(-1);
  if (last && last.toMs === null) last.toMs = atMs;
}

/** What tests change by hand: accounts, regions, and states that come over a resource. */
import { z } from "zod";
import { fail, isBilled, preempt, resume, START_MS, STOP_MS, vanish } from "./lifecycle.ts";
import { nanoUsd, roomNanoUsd, usd } from "./money.ts";
import { credit } from "./purse.ts";
import {
  type Account,
  isMachine,
  isOver,
  isStorage,
  KEY_STATES,
  type Key,
  type Machine,
  type Region,
  type Resource,
  ROLES,
  SCOPES,
  type Storage,
} from "./records.ts";
import { ANY_REGION } from "./seed.ts";
import type { World } from "./world.ts";

const KeyRequest = z.strictObject({
  key: z.string().min(1),
  user: z.int().optional(),
  role: z.enum(ROLES).optional(),
  scopes: z.array(z.enum(SCOPES)).optional(),
  state: z.enum(KEY_STATES).optional(),
});

/** Fields that are left out stay as they are. A key that is not named stays, too. */
export const AccountRequest = z.strictObject({
  account: z.string().min(1),
  enabled: z.boolean().optional(),
  bills_monthly: z.boolean().optional(),
  /** What it can spend, holds apart. */
  balance_usd: z.number().optional(),
  credit_usd: z.number().optional(),
  keys: z.array(KeyRequest).optional(),
});
export type AccountRequest = z.output<typeof AccountRequest>;

export function setAccount(world: World, request: AccountRequest): Account {
  const account: Account = world.account(request.account) ?? {
    account: request.account,
    number: world.newAccountNumber(),
    enabled: true,
    billsMonthly: false,
    balanceNanoUsd: 0,
    heldNanoUsd: 0,
    keys: [],
    clockAheadMs: 0,
  };
  account.enabled = request.enabled ?? account.enabled;
  account.billsMonthly = request.bills_monthly ?? account.billsMonthly;
  account.keys = (request.keys ?? []).reduce(withKey, account.keys);
  world.putAccount(account);
  if (request.balance_usd !== undefined) {
    credit(
      world,
      account,
      nanoUsd(request.balance_usd) - (account.balanceNanoUsd - account.heldNanoUsd),
      "balance set",
    );
  }
  if (request.credit_usd !== undefined) credit(world, account, nanoUsd(request.credit_usd), "credit");
  return account;
}

function withKey(keys: readonly Key[], request: z.output<typeof KeyRequest>): readonly Key[] {
  const known = keys.find(({ key }) => key === request.key);
  const made: Key = {
    key: request.key,
    user: request.user ?? known?.user ?? 1,
    role: request.role ?? known?.role ?? "owner",
    scopes: request.scopes ?? known?.scopes ?? ["inference", "compute"],
    state: request.state ?? known?.state ?? "live",
  };
  return known ? keys.map((one) => (one === known ? made : one)) : [...keys, made];
}

export const accountView = (account: Account) => ({
  account: account.account,
  account_id: account.number,
  enabled: account.enabled,
  bills_monthly: account.billsMonthly,
  balance_usd: usd(account.balanceNanoUsd),
  held_usd: usd(account.heldNanoUsd),
  room_usd: usd(roomNanoUsd({ ...account, billsMonthly: false })),
  keys: [...account.keys],
});

/** Without `account` it is public; an id that is there is replaced. */
export const TemplateRequest = z.strictObject({
  id: z.int().min(1),
  account: z.string().nullable().default(null),
  name: z.string().min(1),
  description: z.string().default(""),
  defaults: z.record(z.string(), z.unknown()).default({}),
});

const count = z.int().min(0).optional();
const dollars = z.number().min(0).optional();

/** Fields that are left out stay as they are, or get the usual value in a new region. */
export const RegionRequest = z.strictObject({
  id: z.string().regex(/^[a-z0-9-]{1,60}$/),
  name: z.string().optional(),
  gpu_type: z.string().min(1).optional(),
  display_name: z.string().optional(),
  gpu_per_node: count,
  total_nodes: count,
  node_count: count,
  /** GPUs that others occupy. */
  taken_gpus: count,
  vcpu_per_gpu: count,
  ram_gb_per_gpu: count,
  scratch_disk_gib: count,
  vram_gb: count,
  hourly_rate_usd: dollars,
  interruptible_hourly_rate_usd: z.number().min(0).nullable().optional(),
  drive_gb: count,
  filesystem_gb: count,
  drive_gb_day_usd: dollars,
  filesystem_gb_day_usd: dollars,
});
export type RegionRequest = z.output<typeof RegionRequest>;

export function setRegion(world: World, request: RegionRequest): Region {
  const before = world.region(request.id) ?? {
    ...ANY_REGION,
    id: request.id,
    name: request.id,
    gpuType: "H100 SXM",
    displayName: request.gpu_type ?? "H100 SXM",
  };
  const tier = request.interruptible_hourly_rate_usd;
  const rate = (value: number | undefined, or: number) => (value === undefined ? or : nanoUsd(value));
  const region: Region = {
    id: request.id,
    name: request.name ?? before.name,
    gpuType: request.gpu_type ?? before.gpuType,
    displayName: request.display_name ?? before.displayName,
    gpusPerNode: request.gpu_per_node ?? before.gpusPerNode,
    totalNodes: request.total_nodes ?? Math.max(before.totalNodes, request.node_count ?? 0),
    nodes: request.node_count ?? request.total_nodes ?? before.nodes,
    takenGpus: request.taken_gpus ?? before.takenGpus,
    vcpuPerGpu: request.vcpu_per_gpu ?? before.vcpuPerGpu,
    ramGbPerGpu: request.ram_gb_per_gpu ?? before.ramGbPerGpu,
    scratchDiskGib: request.scratch_disk_gib ?? before.scratchDiskGib,
    vramGb: request.vram_gb ?? before.vramGb,
    rateNanoUsd: rate(request.hourly_rate_usd, before.rateNanoUsd),
    interruptibleRateNanoUsd:
      tier === undefined ? before.interruptibleRateNanoUsd : tier === null ? null : nanoUsd(tier),
    driveGb: request.drive_gb ?? before.driveGb,
    filesystemGb: request.filesystem_gb ?? before.filesystemGb,
    driveDayNanoUsd: rate(request.drive_gb_day_usd, before.driveDayNanoUsd),
    filesystemDayNanoUsd: rate(request.filesystem_gb_day_usd, before.filesystemDayNanoUsd),
  };
  world.putRegion(region);
  return region;
}

/**
 * `lost` takes a machine away without a trace; `stuck` lets its pods, or a storage, never take their next step, and
 * `unstuck` lets them take it again. `degraded` and `healthy` are for clusters.
 */
const FORCES = [
  "preempted",
  "resumed",
  "failed",
  "lost",
  "stuck",
  "unstuck",
  "terminated",
  "degraded",
  "healthy",
] as const;
export const ResourceRequest = z.strictObject({ force: z.enum(FORCES) });
export type ResourceRequest = z.output<typeof ResourceRequest>;

/** Null, or why it cannot be. */
export function forceResource(world: World, id: number, { force }: ResourceRequest): string | null {
  const resource = world.resource(id);
  const account = resource && world.account(resource.account);
  if (!resource || !account) return `There is no resource ${id}.`;
  if (isOver(resource)) return `Resource ${id} is over.`;
  const nowMs = world.now(account);
  world.touch(resource);
  if (isMachine(resource)) return forceMachine(world, account, resource, force, nowMs);
  return isStorage(resource) ? forceStorage(world, resource, force, nowMs) : notFor(force, resource);
}

function forceMachine(
  world: World,
  account: Account,
  machine: Machine,
  force: ResourceRequest["force"],
  nowMs: number,
): string | null {
  switch (force) {
    case "preempted":
      if (!isBilled(machine)) return `Machine ${machine.id} does not run.`;
      preempt(world, account, machine, nowMs);
      return null;
    case "resumed":
      if (machine.phase !== "preempted") return `Machine ${machine.id} is not preempted.`;
      resume(world, account, machine, nowMs);
      return null;
    case "failed":
      fail(world, account, machine, nowMs);
      return null;
    case "lost":
      vanish(world, account, machine, nowMs, "lost", null);
      return null;
    case "terminated":
      vanish(world, account, machine, nowMs, "stopped", machine.phase === "preempted" ? "preempted" : "admin");
      return null;
    case "stuck":
      machine.stuck = true;
      return null;
    case "unstuck":
      machine.stuck = false;
      if (machine.stepMs !== null) machine.stepMs = nowMs + (machine.phase === "stopping" ? STOP_MS : START_MS);
      return null;
    case "degraded":
    case "healthy":
      if (machine.kind === "instance") return notFor(force, machine);
      machine.degraded = force === "degraded";
      return null;
  }
}

function forceStorage(world: World, storage: Storage, force: ResourceRequest["force"], nowMs: number): string | null {
  storage.updatedMs = nowMs;
  if (force === "lost") storage.phase = "lost";
  else if (force === "stuck") storage.stuck = true;
  else if (force === "unstuck") {
    storage.stuck = false;
    if (storage.stepMs !== null) storage.stepMs = nowMs + STOP_MS;
  } else return notFor(force, storage);
  world.touch(storage);
  return null;
}

const notFor = (force: string, { kind }: Resource): string => `A resource of kind ${kind} cannot be ${force}.`;

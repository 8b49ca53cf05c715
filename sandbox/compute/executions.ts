/** What really ran: one row for each machine, drive and filesystem, whatever the API says of it. */
import { usd } from "./money.ts";
import { ranMs } from "./purse.ts";
import { isMachine, isStorage, type Machine, type Storage } from "./records.ts";
import type { World } from "./world.ts";

export interface MachineExecution {
  readonly id: number;
  readonly kind: "instance" | "cluster";
  readonly account: string;
  readonly user: number;
  readonly name: string | null;
  readonly region_id: string;
  readonly gpu_type: string;
  /** Of the whole machine, as launched. */
  readonly gpus: number;
  readonly replicas: number;
  readonly interruptible: boolean;
  readonly hours: number | null;
  readonly state: string;
  readonly reason: string | null;
  readonly created_ms: number;
  readonly started_ms: number | null;
  /** When a call asked for its end. */
  readonly end_asked_ms: number | null;
  /** When its billing ended. */
  readonly ended_ms: number | null;
  /** When its pods were gone. */
  readonly stopped_ms: number | null;
  /** Billed time; grows while it runs. */
  readonly ms: number;
  /** Time in which its pods ran, to their stop. */
  readonly pod_ms: number;
  readonly runs: readonly { readonly from_ms: number; readonly to_ms: number | null }[];
  readonly hourly_rate_usd: number;
  readonly held_usd: number;
  readonly charged_usd: number;
  readonly image: string;
  /** The credential that pulled the image: its user and a fingerprint of its secret. */
  readonly pulled_as: { readonly username: string; readonly secret: string } | null;
  readonly ssh_public_key: string | null;
  readonly mounts: readonly { readonly id: number; readonly mount_path: string }[];
}

export interface StorageExecution {
  readonly id: number;
  readonly kind: "drive" | "filesystem";
  readonly account: string;
  readonly name: string;
  readonly region_id: string;
  readonly size_gb: number;
  readonly mount_path: string | null;
  readonly state: string;
  readonly created_ms: number;
  readonly end_asked_ms: number | null;
  readonly stopped_ms: number | null;
  readonly days_charged: number;
  readonly days_owed: number;
  readonly charged_usd: number;
}

export type ComputeExecution = MachineExecution | StorageExecution;

/** Oldest first. */
export function executions(world: World, account: string | null): ComputeExecution[] {
  return world.all().flatMap((one): ComputeExecution[] => {
    if (account !== null && one.account !== account) return [];
    if (isMachine(one)) return [machineRow(world, one)];
    return isStorage(one) ? [storageRow(one)] : [];
  });
}

function machineRow(world: World, one: Machine): MachineExecution {
  const nowMs = world.now(world.account(one.account) ?? null);
  const ms = ranMs(one, nowMs);
  const stopping = one.runs.length > 0 && one.endedMs !== null ? (one.stoppedMs ?? nowMs) - one.endedMs : 0;
  return {
    id: one.id,
    kind: one.kind,
    account: one.account,
    user: one.user,
    name: one.name,
    region_id: one.regionId,
    gpu_type: one.gpuType,
    gpus: one.gpus * one.launchedReplicas,
    replicas: one.replicas,
    interruptible: one.interruptible,
    hours: one.hours,
    state: one.stuck ? `${one.phase} (stuck)` : one.phase,
    reason: one.reason,
    created_ms: one.createdMs,
    started_ms: one.startedMs,
    end_asked_ms: one.endAskedMs,
    ended_ms: one.endedMs,
    stopped_ms: one.stoppedMs,
    ms,
    pod_ms: ms + stopping,
    runs: one.runs.map(({ fromMs, toMs }) => ({ from_ms: fromMs, to_ms: toMs })),
    hourly_rate_usd: usd(one.rateNanoUsd),
    held_usd: usd(one.heldNanoUsd),
    charged_usd: usd(one.chargedNanoUsd),
    image: one.image,
    pulled_as: one.pulledAs,
    ssh_public_key: one.ssh.publicKey,
    mounts: one.mounts.map(({ id, mountPath }) => ({ id, mount_path: mountPath })),
  };
}

const storageRow = (one: Storage): StorageExecution => ({
  id: one.id,
  kind: one.kind,
  account: one.account,
  name: one.name,
  region_id: one.regionId,
  size_gb: one.sizeGb,
  mount_path: one.mountPath,
  state: one.stuck ? `${one.phase} (stuck)` : one.phase,
  created_ms: one.createdMs,
  end_asked_ms: one.deleteAskedMs,
  stopped_ms: one.deletedMs,
  days_charged: one.daysCharged,
  days_owed: one.daysOwed,
  charged_usd: usd(one.daysCharged * one.dayNanoUsd),
});

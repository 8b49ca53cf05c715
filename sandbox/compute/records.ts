/** What the compute service keeps: accounts, regions and the resources of an account. Money is in nano-USD. */

export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];

/** Compute access needs the scope `compute`; keys without it serve models only. */
export const SCOPES = ["inference", "compute"] as const;
type Scope = (typeof SCOPES)[number];

/** `not_member`: its user was removed from the account, but the key was not yet revoked. */
export const KEY_STATES = ["live", "revoked", "expired", "not_member"] as const;
type KeyState = (typeof KEY_STATES)[number];

export interface Key {
  readonly key: string;
  readonly user: number;
  readonly role: Role;
  readonly scopes: readonly Scope[];
  readonly state: KeyState;
}

export interface Account {
  readonly account: string;
  /** The `account_id` of the balance. */
  readonly number: number;
  enabled: boolean;
  billsMonthly: boolean;
  balanceNanoUsd: number;
  /** What is set aside, already part of the balance. */
  heldNanoUsd: number;
  keys: readonly Key[];
  /** How far this account's clock is ahead of the sandbox's. */
  clockAheadMs: number;
}

/** One region sells one GPU type. */
export interface Region {
  readonly id: string;
  readonly name: string;
  readonly gpuType: string;
  readonly displayName: string;
  readonly gpusPerNode: number;
  readonly totalNodes: number;
  /** Nodes that are up. */
  readonly nodes: number;
  /** GPUs that other customers of the service occupy. */
  readonly takenGpus: number;
  readonly vcpuPerGpu: number;
  readonly ramGbPerGpu: number;
  readonly scratchDiskGib: number;
  readonly vramGb: number;
  /** For one GPU and hour. */
  readonly rateNanoUsd: number;
  /** Null: the interruptible tier is not sold. */
  readonly interruptibleRateNanoUsd: number | null;
  readonly driveGb: number;
  readonly filesystemGb: number;
  /** For one GB and day. */
  readonly driveDayNanoUsd: number;
  readonly filesystemDayNanoUsd: number;
}

export type Reason = "user" | "duration_expired" | "credit_depleted" | "preempted" | "failed" | "admin";

interface Common {
  readonly id: number;
  readonly account: string;
  readonly createdMs: number;
}

export interface Mount {
  readonly id: number;
  readonly mountPath: string;
}

/** A time in which the pods ran and were billed; `toMs` null: still. */
interface Run {
  readonly fromMs: number;
  toMs: number | null;
}

/**
 * An instance or a cluster.
 *
 * `rebuilding` is a running machine whose image changes: it shows `pending`, and its billing goes on. `stopping` is no
 * longer billed. `lost` is gone without a trace: its id answers 404.
 */
type Phase = "pending" | "running" | "rebuilding" | "preempted" | "stopping" | "stopped" | "failed" | "lost";

export interface Machine extends Common {
  readonly kind: "instance" | "cluster";
  readonly user: number;
  readonly name: string | null;
  readonly regionId: string;
  readonly gpuType: string;
  /** Of one pod. */
  readonly gpus: number;
  readonly launchedReplicas: number;
  replicas: number;
  image: string;
  startupCommand: string | null;
  initScript: string | null;
  servicePort: number | null;
  readonly interruptible: boolean;
  /** Null: no end time, billed by the hour. */
  hours: number | null;
  readonly ssh: { readonly enabled: boolean; readonly publicKey: string | null };
  readonly mounts: readonly Mount[];
  /** User of the credential that pulled the image, and a fingerprint of its secret; null: pulled anonymously. */
  pulledAs: { readonly username: string; readonly secret: string } | null;

  phase: Phase;
  /** Forced: the next step of the pods never comes. */
  stuck: boolean;
  /** Forced: some replicas are down. */
  degraded: boolean;
  /** When the pods take their next step: start, have been rebuilt, stop. */
  stepMs: number | null;
  reason: Reason | null;
  hidden: boolean;
  startedMs: number | null;
  endAskedMs: number | null;
  /** Billing ended. */
  endedMs: number | null;
  /** The pods are gone. */
  stoppedMs: number | null;
  readonly runs: Run[];
  /** Replicas from this one on were added by a scale and are up at this time. */
  scaling: { readonly fromReplica: number; readonly upMs: number } | null;

  /** For the whole machine and hour, as launched. */
  readonly rateNanoUsd: number;
  heldNanoUsd: number;
  chargedNanoUsd: number;
  /** Hourly: where the period that is held begins and ends. */
  paidFromMs: number | null;
  paidUntilMs: number | null;
}

/** A cloud drive or a shared filesystem. Each day is charged at its start, counted from its creation. */
export interface Storage extends Common {
  readonly kind: "drive" | "filesystem";
  readonly name: string;
  readonly regionId: string;
  readonly sizeGb: number;
  /** Null for drives. */
  readonly mountPath: string | null;
  phase: "pending" | "ready" | "deleting" | "deleted" | "lost";
  stuck: boolean;
  stepMs: number | null;
  updatedMs: number;
  deleteAskedMs: number | null;
  deletedMs: number | null;
  readonly dayNanoUsd: number;
  nextDayMs: number;
  daysCharged: number;
  daysOwed: number;
}

export interface Image extends Common {
  readonly kind: "image";
  name: string;
  registryUrl: string;
  /** `host`: the registry that the credential was given for; no other is shown it. */
  credential: { readonly username: string; readonly secret: string; readonly host: string } | null;
  removed: boolean;
}

export interface SshKey extends Common {
  readonly kind: "ssh_key";
  readonly name: string;
  readonly publicKey: string;
  readonly fingerprint: string;
  removed: boolean;
}

/** What a resource of each kind is kept as. */
interface ByKind {
  readonly instance: Machine;
  readonly cluster: Machine;
  readonly drive: Storage;
  readonly filesystem: Storage;
  readonly image: Image;
  readonly ssh_key: SshKey;
}
export type Kind = keyof ByKind;
export type OfKind<K extends Kind> = ByKind[K];
export type Resource = OfKind<Kind>;

export interface Template {
  readonly id: number;
  /** Null: public. */
  readonly account: string | null;
  readonly name: string;
  readonly description: string;
  /** Defaults of a launch's fields, in the words of the API. */
  readonly defaults: Readonly<Record<string, unknown>>;
}

export const isMachine = (resource: Resource): resource is Machine =>
  resource.kind === "instance" || resource.kind === "cluster";
export const isStorage = (resource: Resource): resource is Storage =>
  resource.kind === "drive" || resource.kind === "filesystem";

/** Its pods occupy GPUs. */
export const occupiesGpus = ({ phase }: Machine): boolean =>
  phase === "pending" || phase === "running" || phase === "rebuilding" || phase === "stopping";

/** Nothing about it changes any more, by itself or by a call. */
export function isOver(resource: Resource): boolean {
  if (isMachine(resource)) return ["stopped", "failed", "lost"].includes(resource.phase);
  if (isStorage(resource)) return resource.phase === "deleted" || resource.phase === "lost";
  return resource.removed;
}

/** It keeps what it mounts: until its pods are gone. */
export const holdsMounts = (machine: Machine): boolean => !isOver(machine);

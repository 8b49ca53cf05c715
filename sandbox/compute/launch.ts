/**
 * Launches instances and clusters. Refusals come in this order: what the body says, ids that are not the account's, too
 * many launches, states and capacity, money. A refused launch leaves nothing behind.
 */
import { z } from "zod";
import { pullCredential } from "./images.ts";
import { START_MS } from "./lifecycle.ts";
import { priceOf, rateOf, roomNanoUsd } from "./money.ts";
import { hold } from "./purse.ts";
import type { Machine, Mount, Region, Storage } from "./records.ts";
import { type Answer, type Call, type Checked, fine, NAMES, no, refuse } from "./route.ts";
import { NOT_A_KEY, saveKey } from "./ssh-keys.ts";
import { attachedTo, storageStatus } from "./storage-life.ts";
import {
  firstDayNanoUsd,
  MountPath,
  make,
  type NewStorage,
  refusalOf,
  SizeGb,
  type StorageKind,
  StorageName,
} from "./storage-routes.ts";

const Port = z.int().min(1).max(65_535);
const Existing = z.array(z.object({ id: z.int(), mount_path: MountPath })).default([]);
const Made = z.array(z.object({ name: StorageName, size_gb: SizeGb, mount_path: MountPath })).default([]);

/** What both kinds take. */
const common = {
  region_id: z.string(),
  container_image: z.string().min(1),
  name: z.string().nullable().default(null),
  startup_command: z.string().nullable().default(null),
  service_port: Port.nullable().default(null),
  interruptible: z.boolean().default(false),
  template_id: z.int().optional(),
  shared_filesystems: Existing,
  new_shared_filesystems: Made,
};

export const InstanceLaunch = z.object({
  ...common,
  gpu_type: z.string(),
  gpu_count: z.int().min(1).max(8),
  estimated_duration_hours: z.int().min(0).max(72).default(0),
  init_script: z.string().nullable().default(null),
  ssh_enabled: z.boolean().default(false),
  ssh_public_key: z.string().nullable().default(null),
  cloud_drives: Existing,
  new_cloud_drives: Made,
});

export const ClusterLaunch = z.object({
  ...common,
  gpu_count: z.literal([1, 2, 4, 8]),
  replicas: z.int().min(2).max(8),
  estimated_duration_hours: z.int().min(1).max(72),
});

/** Fields that a rebuild can change. */
export const Rebuild = z
  .object({
    container_image: z.string().min(1),
    startup_command: z.string().nullable(),
    init_script: z.string().nullable(),
    service_port: Port.nullable(),
  })
  .partial()
  .refine((body) => Object.keys(body).length > 0, "Send at least one field to change.");

type InstanceBody = z.output<typeof InstanceLaunch>;
type ClusterBody = z.output<typeof ClusterLaunch>;

/** Both kinds of launch in one form. */
export interface Wanted {
  readonly kind: Machine["kind"];
  readonly body: ClusterBody | InstanceBody;
  readonly gpuType: string | null;
  readonly replicas: number;
  readonly hours: number | null;
  readonly initScript: string | null;
  readonly ssh: Machine["ssh"];
  readonly drives: InstanceBody["cloud_drives"];
  readonly newDrives: InstanceBody["new_cloud_drives"];
}

export const instanceWanted = (body: InstanceBody): Wanted => ({
  kind: "instance",
  body,
  gpuType: body.gpu_type,
  replicas: 1,
  hours: body.estimated_duration_hours || null,
  initScript: body.init_script,
  ssh: { enabled: body.ssh_enabled, publicKey: body.ssh_public_key },
  drives: body.cloud_drives,
  newDrives: body.new_cloud_drives,
});

export const clusterWanted = (body: ClusterBody): Wanted => ({
  kind: "cluster",
  body,
  gpuType: null,
  replicas: body.replicas,
  hours: body.estimated_duration_hours,
  initScript: null,
  ssh: { enabled: false, publicKey: null },
  drives: [],
  newDrives: [],
});

/** A launch whose body is in order. */
interface Plan {
  readonly wanted: Wanted;
  readonly region: Region;
  readonly rateNanoUsd: number;
  /** What is held at once: the first hour, or the whole run. */
  readonly holdNanoUsd: number;
  readonly existing: readonly { readonly storage: Storage; readonly mountPath: string }[];
  readonly made: readonly (NewStorage & { readonly mountAt: string })[];
  readonly pulledAs: Machine["pulledAs"];
}

export function launch(call: Call, wanted: Wanted): Checked<Machine> {
  const planned = plan(call, wanted);
  if (!planned.ok) return planned;
  const tooMany = call.launch();
  if (tooMany) return { ok: false, answer: tooMany };
  const refusal = impossible(call, planned.value) ?? unpaid(call, planned.value);
  return refusal ? { ok: false, answer: refusal } : fine(start(call, planned.value));
}

function plan(call: Call, wanted: Wanted): Checked<Plan> {
  const { world, account } = call;
  const { body, gpuType, replicas, hours } = wanted;
  const region = world.region(body.region_id);
  if (!region) return no(400, `There is no region \`${body.region_id}\`. See /gpu-instances/availability.`);
  if (gpuType !== null && gpuType !== region.gpuType) {
    return no(400, `${region.id} has \`${region.gpuType}\`, not \`${gpuType}\`. See /gpu-instances/availability.`);
  }
  if (body.gpu_count > region.gpusPerNode) {
    return no(400, `\`gpu_count\` is ${body.gpu_count}, and a node of ${region.id} has ${region.gpusPerNode} GPUs.`);
  }
  const rateNanoUsd = rateOf(region, body.interruptible, body.gpu_count * replicas);
  if (rateNanoUsd === null)
    return no(400, `\`${region.gpuType}\` is not sold interruptible. Leave \`interruptible\` out.`);
  if (wanted.ssh.publicKey !== null && call.fingerprint === null) return no(400, NOT_A_KEY);
  const attached = attachments(call, wanted, region);
  if (!attached.ok) return attached;
  const pulledAs = pullCredential(world, account, body.container_image);
  if (!pulledAs.ok) return pulledAs;
  const { hourMs } = world.lengths;
  const holdNanoUsd = priceOf(rateNanoUsd, (hours ?? 1) * hourMs, hourMs);
  return fine({ wanted, region, rateNanoUsd, holdNanoUsd, pulledAs: pulledAs.value, ...attached.value });
}

function attachments(
  { world, account }: Call,
  { body, drives, newDrives }: Wanted,
  region: Region,
): Checked<Pick<Plan, "existing" | "made">> {
  const asked = [
    ...drives.map((one) => ({ ...one, kind: "drive" as StorageKind })),
    ...body.shared_filesystems.map((one) => ({ ...one, kind: "filesystem" as StorageKind })),
  ];
  const made = [
    ...newDrives.map((one) => newStorage("drive", one, region)),
    ...body.new_shared_filesystems.map((one) => newStorage("filesystem", one, region)),
  ];
  const paths = [...asked.map(({ mount_path }) => mount_path), ...made.map(({ mountAt }) => mountAt)];
  if (new Set(paths).size < paths.length) return no(400, "Two mount paths of this launch are the same.");
  if (new Set(asked.map(({ id }) => id)).size < asked.length) return no(400, "The same storage is attached twice.");
  const existing: { storage: Storage; mountPath: string }[] = [];
  for (const { kind, id, mount_path } of asked) {
    const storage = world.find(account, kind, id);
    if (!storage || storage.phase === "deleted") return no(404, `There is no ${NAMES[kind]} ${id} on this account.`);
    if (storage.regionId !== region.id) {
      return no(400, `The ${NAMES[kind]} ${id} is in ${storage.regionId}. Storage attaches only in its own region.`);
    }
    existing.push({ storage, mountPath: mount_path });
  }
  return fine({ existing, made });
}

const newStorage = (kind: StorageKind, asked: z.output<typeof Made>[number], region: Region) => ({
  kind,
  name: asked.name,
  region,
  sizeGb: asked.size_gb,
  mountPath: kind === "filesystem" ? asked.mount_path : null,
  mountAt: asked.mount_path,
});

/** States and capacity. */
function impossible(call: Call, { wanted, region, existing, made }: Plan): Answer | null {
  const { world } = call;
  for (const { storage } of existing) {
    const status = storageStatus(world, storage);
    const shared = storage.kind === "filesystem" && status === "in_use";
    if (status !== "available" && !shared) {
      return refuse(409, `The ${NAMES[storage.kind]} ${storage.id} is ${status}. Attach one that is available.`);
    }
    if (storage.kind === "drive" && attachedTo(world, storage).length > 0) {
      return refuse(409, `The cloud drive ${storage.id} is currently attached. A drive mounts to one instance.`);
    }
  }
  const refusal = refusalOf(call, made);
  if (refusal) return refusal;
  const gpus = wanted.body.gpu_count * wanted.replicas;
  const free = world.freeGpus(region);
  if (gpus <= free) return null;
  return refuse(
    409,
    `${region.id} has no free capacity: ${free} GPUs are free and ${gpus} are asked for. Try again later.`,
  );
}

function unpaid({ account }: Call, { holdNanoUsd, made }: Plan): Answer | null {
  if (holdNanoUsd + firstDayNanoUsd(made) <= roomNanoUsd(account)) return null;
  return refuse(402, "The balance does not cover the hold of this launch. Add credit or ask for less.");
}

function start(call: Call, { wanted, region, rateNanoUsd, holdNanoUsd, pulledAs, existing, made }: Plan): Machine {
  const { world, account, key, nowMs } = call;
  const { body, ssh } = wanted;
  const mounts: Mount[] = [
    ...existing.map(({ storage, mountPath }) => ({ id: storage.id, mountPath })),
    ...made.map((one) => ({ id: make(call, one).id, mountPath: one.mountAt })),
  ];
  if (ssh.publicKey !== null && call.fingerprint !== null) {
    saveKey(call, body.name ?? "launch", ssh.publicKey, call.fingerprint);
  }
  const machine: Machine = {
    ...NOTHING_YET,
    kind: wanted.kind,
    id: world.newId(),
    account: account.account,
    createdMs: nowMs,
    user: key.user,
    name: body.name,
    regionId: region.id,
    gpuType: region.gpuType,
    gpus: body.gpu_count,
    launchedReplicas: wanted.replicas,
    replicas: wanted.replicas,
    image: body.container_image,
    startupCommand: body.startup_command,
    initScript: wanted.initScript,
    servicePort: body.service_port,
    interruptible: body.interruptible,
    hours: wanted.hours,
    ssh,
    mounts,
    pulledAs,
    stepMs: nowMs + START_MS,
    runs: [],
    rateNanoUsd,
  };
  world.add(machine);
  hold(world, account, machine, holdNanoUsd);
  return machine;
}

const NOTHING_YET = {
  phase: "pending",
  stuck: false,
  degraded: false,
  reason: null,
  hidden: false,
  startedMs: null,
  endAskedMs: null,
  endedMs: null,
  stoppedMs: null,
  scaling: null,
  heldNanoUsd: 0,
  chargedNanoUsd: 0,
  paidFromMs: null,
  paidUntilMs: null,
} as const;

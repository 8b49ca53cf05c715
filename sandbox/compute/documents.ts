/** The objects of the contract, made of what is kept. */
import { usd } from "./money.ts";
import { type Image, isOver, type Machine, type Region, type SshKey, type Storage } from "./records.ts";
import { storageStatus } from "./storage-life.ts";
import type { World } from "./world.ts";

/** SSH answers this long after the pods run. */
const SSH_READY_MS = 2_000;
/** Images of the platform have OpenSSH, most others do not. */
const HAS_OPENSSH = /^platform\/|ssh/;

const iso = (ms: number): string => new Date(ms).toISOString();
const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms));

function instanceStatus({ phase, reason }: Machine): string {
  if (phase === "rebuilding") return "pending";
  if (phase === "stopping") return reason === "credit_depleted" ? "terminating_low_balance" : "terminating_requested";
  return phase === "stopped" ? "terminated" : phase;
}

function sshOf(world: World, machine: Machine, nowMs: number) {
  const { phase, runs, ssh, image, id, regionId } = machine;
  const since = runs.at(-1)?.fromMs ?? nowMs;
  const wanted = ssh.enabled && ssh.publicKey !== null && HAS_OPENSSH.test(image);
  const ready = wanted && phase === "running" && nowMs - since >= SSH_READY_MS;
  const port = 20_000 + (id % 40_000);
  const host = `ssh.${world.region(regionId)?.id ?? regionId}.sandbox.example`;
  return {
    ssh_enabled: ssh.enabled,
    ssh_tunnel_host: ssh.enabled ? host : null,
    ssh_tunnel_port: ssh.enabled ? port : null,
    ssh_ready: ready,
    ...(ready && { ssh_command: `ssh -p ${port} root@${host}` }),
  };
}

export function instanceDocument(world: World, machine: Machine, nowMs: number) {
  return {
    id: machine.id,
    name: machine.name,
    status: instanceStatus(machine),
    region_id: machine.regionId,
    gpu_type: machine.gpuType,
    gpu_count: machine.gpus,
    container_image: machine.image,
    startup_command: machine.startupCommand,
    init_script: machine.initScript,
    service_port: machine.servicePort,
    hourly_rate_usd: usd(machine.rateNanoUsd),
    interruptible: machine.interruptible,
    estimated_duration_hours: machine.hours,
    ...sshOf(world, machine, nowMs),
    jupyter_url: machine.image.startsWith("platform/jupyter")
      ? `https://jupyter-${machine.id}.sandbox.example/lab`
      : null,
    created_at: iso(machine.createdMs),
    started_at: isoOrNull(machine.startedMs),
    terminated_at: isoOrNull(isOver(machine) ? machine.endedMs : null),
    termination_reason: machine.reason,
    created_by_user_id: machine.user,
  };
}

export function wrappedInstance(world: World, machine: Machine, nowMs: number) {
  const mounted = machine.mounts.flatMap(({ id, mountPath }) => {
    const storage = world.resource(id);
    return storage?.kind === "drive" || storage?.kind === "filesystem" ? [{ storage, mountPath }] : [];
  });
  const of = (kind: Storage["kind"]) =>
    mounted
      .filter(({ storage }) => storage.kind === kind)
      .map(({ storage, mountPath }) => ({ ...storageDocument(world, storage), mount_path: mountPath }));
  return {
    instance: instanceDocument(world, machine, nowMs),
    held_amount: usd(machine.heldNanoUsd),
    cloud_drives: of("drive"),
    shared_filesystems: of("filesystem"),
  };
}

/** A cluster that stops is `running` until its pods are gone: it has no state for that. */
function clusterStatus({ phase, degraded }: Machine): string {
  if (phase === "pending" || phase === "failed" || phase === "stopped") return phase;
  return degraded || phase === "preempted" ? "degraded" : "running";
}

export function clusterDocument(machine: Machine, origin: string) {
  return {
    id: machine.id,
    name: machine.name,
    region_id: machine.regionId,
    gpu_type: machine.gpuType,
    gpu_count: machine.gpus,
    replicas: machine.replicas,
    container_image: machine.image,
    startup_command: machine.startupCommand,
    service_port: machine.servicePort,
    status: clusterStatus(machine),
    hourly_rate_usd: usd(machine.rateNanoUsd),
    interruptible: machine.interruptible,
    estimated_duration_hours: machine.hours,
    endpoint_url: machine.servicePort === null ? null : `${origin}/gpu-clusters/${machine.id}/service/`,
    created_at: iso(machine.createdMs),
    started_at: isoOrNull(machine.startedMs),
    terminated_at: isoOrNull(isOver(machine) ? machine.endedMs : null),
  };
}

/** One pod each; those of a stopped cluster are gone. */
export function replicaDocuments(machine: Machine, nowMs: number) {
  if (machine.stoppedMs !== null || machine.phase === "preempted") return [];
  return Array.from({ length: machine.replicas }, (_, index) => {
    const added = machine.scaling !== null && index >= machine.scaling.fromReplica && nowMs < machine.scaling.upMs;
    const down = machine.degraded && index === machine.replicas - 1;
    const status = machine.phase === "pending" || added ? "Pending" : down ? "CrashLoopBackOff" : "Running";
    return { name: podName(machine, index), status, node: `${machine.regionId}-node-${index + 1}` };
  });
}

export const podName = (machine: Machine, index: number): string =>
  machine.kind === "cluster" ? `cluster-${machine.id}-${index}` : `instance-${machine.id}`;

export function storageDocument(world: World, storage: Storage) {
  return {
    id: storage.id,
    name: storage.name,
    region_id: storage.regionId,
    size_gb: storage.sizeGb,
    ...(storage.mountPath !== null && { mount_path: storage.mountPath }),
    status: storageStatus(world, storage),
    created_at: iso(storage.createdMs),
    updated_at: iso(storage.updatedMs),
  };
}

export function imageDocument({ id, name, registryUrl, credential, createdMs }: Image) {
  return {
    id,
    name,
    registry_url: registryUrl,
    ...(credential && { registry_username: credential.username }),
    has_credentials: credential !== null,
    created_at: iso(createdMs),
  };
}

export const sshKeyDocument = ({ id, name, fingerprint, publicKey, createdMs }: SshKey) => ({
  id,
  name,
  fingerprint,
  public_key: publicKey,
  created_at: iso(createdMs),
});

export const availabilityRow = (world: World, region: Region) => ({
  id: region.id,
  name: region.name,
  gpu_type: region.gpuType,
  gpu_per_node: region.gpusPerNode,
  total_nodes: region.totalNodes,
  node_count: region.nodes,
  available: world.freeGpus(region),
  vcpu_per_gpu: region.vcpuPerGpu,
  ram_gb_per_gpu: region.ramGbPerGpu,
  scratch_disk_gib: region.scratchDiskGib,
});

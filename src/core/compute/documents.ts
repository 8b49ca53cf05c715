/**
 * What tenants see of their instances and clusters, made from rows: our ids and names, what was launched, our rate, the
 * last seen state. No id, name or cost of upstream. URLs under upstream's root are rewritten to ours; other addresses
 * from upstream (SSH, Jupyter) pass.
 */
import { toUsd } from "../pricing/money.ts";
import { clusterStatus, instanceStatus, type MachineKind, type MachineRow } from "./resource.ts";

/** The root URLs of both sides, without a trailing slash. */
export interface Roots {
  readonly ours: string;
  readonly upstream: string;
}

/** The contract's instance object. */
export function instanceDocument(row: MachineRow, roots: Roots) {
  const { launched, wants, seen } = row;
  const ssh = seen.state === "running" || seen.state === "degraded" ? seen.ssh : null;
  return {
    id: row.id,
    name: launched.name,
    status: instanceStatus(row),
    ...setupOf(row),
    gpu_count: launched.gpuCount,
    init_script: wants.setup.initScript,
    hourly_rate_usd: toUsd(row.rental.rate.priceNanoUsd),
    interruptible: launched.interruptible,
    estimated_duration_hours: row.rental.hours,
    ssh_enabled: launched.sshEnabled,
    ssh_tunnel_host: ssh?.host ?? null,
    ssh_tunnel_port: ssh?.port ?? null,
    ssh_ready: ssh?.ready ?? false,
    ...(ssh?.ready && ssh.command !== null && { ssh_command: ssh.command }),
    jupyter_url: ssh || seen.jupyterUrl ? ourUrl(seen.jupyterUrl, row, roots) : null,
    endpoint_url: endpointUrl(row, roots),
    ...timesOf(row),
    termination_reason: seen.state === "ended" ? seen.reason : null,
    created_by_user_id: row.by.user,
  };
}

/** The contract's cluster object. */
export function clusterDocument(row: MachineRow, roots: Roots) {
  const { launched, wants } = row;
  return {
    id: row.id,
    name: launched.name,
    status: clusterStatus(row),
    ...setupOf(row),
    gpu_count: launched.gpuCount,
    replicas: wants.replicas,
    hourly_rate_usd: toUsd(row.rental.rate.priceNanoUsd),
    interruptible: launched.interruptible,
    estimated_duration_hours: row.rental.hours,
    endpoint_url: endpointUrl(row, roots),
    ...timesOf(row),
  };
}

const setupOf = ({ launched, wants: { setup } }: MachineRow) => ({
  region_id: launched.regionId,
  gpu_type: launched.gpuType,
  container_image: setup.containerImage,
  startup_command: setup.startupCommand,
  service_port: setup.servicePort,
});

/** Upstream's times, limited to the time that is charged. */
function timesOf({ createdAtMs, seen, rental }: MachineRow) {
  const first = rental.phase.at === "running" && rental.n === 1 ? rental.phase.fromMs : null;
  const startedAtMs = first ?? (seen.startedAtMs === null ? null : Math.max(seen.startedAtMs, createdAtMs));
  return { created_at: iso(createdAtMs), started_at: iso(startedAtMs), terminated_at: iso(seen.endedAtMs) };
}

const iso = (atMs: number | null): string | null => (atMs === null ? null : new Date(atMs).toISOString());

const PATHS: Readonly<Record<MachineKind, string>> = { instance: "gpu-instances", cluster: "gpu-clusters" };

function endpointUrl({ kind, id, wants }: MachineRow, { ours }: Roots): string | null {
  return wants.setup.servicePort === null ? null : `${ours}/${PATHS[kind]}/${id}/service/`;
}

/** Rewrites an address under upstream's root to ours. Other paths there are left out. */
function ourUrl(url: string | null, { kind, id, upstreamId }: MachineRow, { ours, upstream }: Roots): string | null {
  if (url === null || !(url === upstream || url.startsWith(`${upstream}/`))) return url;
  const its = `${upstream}/${PATHS[kind]}/${upstreamId}/`;
  return url.startsWith(its) ? `${ours}/${PATHS[kind]}/${id}/${url.slice(its.length)}` : null;
}

/**
 * Builds the request to upstream for a row's call: route and body by the row's kind, from stored parts only. Upstream
 * gets our tag in place of the tenant's name.
 */
import type { ControlCall } from "./control.ts";
import type { AnyCall } from "./facts.ts";
import { type ImageCall, isImageCall } from "./image-life.ts";
import type { LaunchKey } from "./launch-key.ts";
import {
  type Attachment,
  isMachine,
  isStorage,
  type MachineRow,
  type ResourceRow,
  type Setup,
  type StorageRow,
} from "./resource.ts";
import type { RowCall } from "./wants.ts";

/** What the broker needs besides account and call id. */
export type ControlRequest = Pick<ControlCall, "cls" | "method" | "path" | "body" | "needsNanoUsd">;

/** The SSH key that a launch brings. */
export function launchKeyOf(row: ResourceRow, { verb }: AnyCall): LaunchKey | null {
  if (verb !== "create" || !isMachine(row)) return null;
  const { sshPublicKey: line, sshFingerprint: fingerprint } = row.launched;
  return line === null || fingerprint === null ? null : { line, fingerprint };
}

const PATHS = { instance: "/gpu-instances", cluster: "/gpu-clusters" } as const;

export function controlOf(row: ResourceRow, call: AnyCall): ControlRequest {
  if (isImageCall(call)) return imageCall(row, call);
  if (isMachine(row)) return machineCall(row, call);
  if (isStorage(row)) return storageCall(row, call);
  throw new Error(`nothing is sent for a row of kind ${row.kind}`);
}

const STORAGE_PATHS = { drive: "/cloud-drives", filesystem: "/shared-filesystems" } as const;

function storageCall({ kind, id, tag, asked, upstreamId, rental }: StorageRow, { verb }: RowCall): ControlRequest {
  const path = STORAGE_PATHS[kind];
  if (verb !== "create") return request("stop", "DELETE", `${path}/${upstreamId ?? 0}`);
  const body = { name: tag, region_id: asked.regionId, size_gb: asked.sizeGb };
  // Upstream's own paths are unique by our ids; each attachment names the tenant's.
  const whole = kind === "filesystem" ? { ...body, mount_path: `/mnt/${id}` } : body;
  return request("call", "POST", path, whole, rental.rate.costNanoUsd);
}

const IMAGES = "/container-images";

function imageCall({ tag, upstreamId }: ResourceRow, call: ImageCall): ControlRequest {
  const path = `${IMAGES}/${upstreamId ?? 0}`;
  switch (call.verb) {
    case "register":
      return request("call", "POST", IMAGES, { name: tag, ...call.image });
    case "change":
      return request("call", "PUT", path, call.image);
    case "find":
      return request("call", "GET", IMAGES);
    case "remove":
      return request("stop", "DELETE", path);
  }
}

function machineCall(row: MachineRow, call: RowCall): ControlRequest {
  const { rate, hours } = row.rental;
  if (call.verb === "create") {
    const body = row.kind === "instance" ? instanceBody(row) : clusterBody(row);
    return request("create", "POST", PATHS[row.kind], body, rate.costNanoUsd * (hours ?? 1) + newCost(row));
  }
  const path = `${PATHS[row.kind]}/${row.upstreamId ?? 0}`;
  switch (call.verb) {
    case "read":
      return request("call", "GET", path);
    case "stop":
      return row.kind === "instance" ? request("stop", "POST", `${path}/terminate`) : request("stop", "DELETE", path);
    case "extend":
      return request("call", "POST", `${path}/extend`, { hours: call.hours }, rate.costNanoUsd * call.hours);
    case "scale":
      return request("call", "POST", `${path}/scale`, { replicas: call.replicas });
    case "patch":
      return request("call", "PATCH", path, setupBody(call.setup));
  }
}

function request(
  cls: ControlRequest["cls"],
  method: ControlRequest["method"],
  path: string,
  body: object | null = null,
  needsNanoUsd: number | null = null,
): ControlRequest {
  return { cls, method, path, body: body && JSON.stringify(body), needsNanoUsd };
}

const setupBody = ({ containerImage, startupCommand, initScript, servicePort }: Setup) => ({
  container_image: containerImage,
  startup_command: startupCommand,
  init_script: initScript,
  service_port: servicePort,
});

/** A launch leaves out fields without a value. */
const given = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== false));

/** The first day of the storage that a launch makes. */
const newCost = ({ launched: { drives, filesystems } }: MachineRow): number =>
  [...drives, ...filesystems].reduce(
    (sum, { upstream }) => sum + (upstream.kind === "new" ? upstream.costNanoUsd : 0),
    0,
  );

/** The fields that attach existing storage and make new; those without an item are left out. */
function attachedBody(old: string, made: string, attachments: readonly Attachment[]): object {
  const items = attachments.map(({ mountPath: mount_path, upstream }) =>
    upstream.kind === "existing"
      ? ([old, { id: upstream.id, mount_path }] as const)
      : ([made, { name: upstream.tag, size_gb: upstream.sizeGb, mount_path }] as const),
  );
  const of = (field: string) => items.filter(([name]) => name === field).map(([, item]) => item);
  return Object.fromEntries([old, made].flatMap((field) => (of(field).length > 0 ? [[field, of(field)]] : [])));
}

const filesystemsBody = ({ filesystems }: MachineRow["launched"]): object =>
  attachedBody("shared_filesystems", "new_shared_filesystems", filesystems);

function instanceBody({ tag, launched, wants, rental }: MachineRow): object {
  return given({
    name: tag,
    region_id: launched.regionId,
    gpu_type: launched.gpuType,
    gpu_count: launched.gpuCount,
    estimated_duration_hours: rental.hours,
    interruptible: launched.interruptible,
    ssh_enabled: launched.sshEnabled,
    ssh_public_key: launched.sshPublicKey,
    ...setupBody(wants.setup),
    ...attachedBody("cloud_drives", "new_cloud_drives", launched.drives),
    ...filesystemsBody(launched),
  });
}

function clusterBody({ tag, launched, wants, rental }: MachineRow): object {
  const { init_script: _, ...setup } = setupBody(wants.setup);
  return given({
    name: tag,
    region_id: launched.regionId,
    gpu_count: launched.gpuCount,
    replicas: wants.replicas,
    estimated_duration_hours: rental.hours,
    interruptible: launched.interruptible,
    ...setup,
    ...filesystemsBody(launched),
  });
}

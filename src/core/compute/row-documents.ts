/** What tenants see of a row of any kind. documents.ts writes instances and clusters. */

import { asObject } from "../formats/json-fields.ts";
import { toUsd } from "../pricing/money.ts";
import { clusterDocument, instanceDocument, type Roots } from "./documents.ts";
import type { ImageRow, KeyRow, MachineRow, ResourceRow, StorageKind, StorageRow } from "./resource.ts";
import { type StorageStatus, storageStatus } from "./storage-life.ts";
import { scrubbed } from "./upstream-text.ts";

/** `mounted`: whether a running machine has it mounted. */
export function documentOf(row: ResourceRow, roots: Roots, mounted: boolean): object {
  switch (row.kind) {
    case "instance":
      return instanceDocument(row, roots);
    case "cluster":
      return clusterDocument(row, roots);
    case "drive":
    case "filesystem":
      return storageDocument(row, storageStatus(row, mounted));
    case "image":
      return imageDocument(row);
    case "ssh_key":
      return keyDocument(row);
  }
}

/** `GET /gpu-instances/{id}`. `storage`: the rows that it has attached. */
export function wrappedInstance(
  row: MachineRow,
  storage: readonly StorageRow[],
  roots: Roots,
  mounted: readonly number[],
) {
  return {
    instance: instanceDocument(row, roots),
    held_amount: toUsd(row.rental.heldNanoUsd ?? 0),
    cloud_drives: attachedDocuments("drive", row, storage, mounted),
    shared_filesystems: attachedDocuments("filesystem", row, storage, mounted),
  };
}

const MOST_REPLICAS = 64;

/**
 * The contract's replica items. Upstream names pods by its own ids and our tags; tenants see ours. Undefined for what
 * is no list.
 */
export function replicaDocuments(body: string, row: MachineRow): object[] | undefined {
  const pods = listOf(body);
  if (!pods) return undefined;
  return pods.slice(0, MOST_REPLICAS).map((pod, index) => {
    const { status, node } = asObject(pod) ?? {};
    return {
      name: `cluster-${row.id}-${index}`,
      status: typeof status === "string" ? scrubbed(status.slice(0, 200), row) : "Unknown",
      node: typeof node === "string" ? scrubbed(node.slice(0, 200), row) : "",
    };
  });
}

function listOf(body: string): unknown[] | undefined {
  try {
    const parsed: unknown = JSON.parse(body);
    return Array.isArray(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** Attached storage, each at the path where this machine mounts it. */
export function attachedDocuments(
  kind: StorageKind,
  { launched }: MachineRow,
  storage: readonly StorageRow[],
  mounted: readonly number[],
): object[] {
  const attachments = kind === "drive" ? launched.drives : launched.filesystems;
  return attachments.flatMap(({ id, mountPath }) => {
    const row = storage.find((one) => one.kind === kind && one.id === id);
    if (!row || row.create === "refused") return [];
    return [{ ...storageDocument(row, storageStatus(row, mounted.includes(id))), mount_path: mountPath }];
  });
}

/** The contract's cloud drive or shared filesystem. */
function storageDocument(row: StorageRow, status: StorageStatus) {
  const { asked, seen, wants, createdAtMs } = row;
  const updatedAtMs = seen.endedAtMs ?? wants.end?.askedMs ?? seen.sinceMs ?? createdAtMs;
  return {
    id: row.id,
    name: asked.name,
    region_id: asked.regionId,
    size_gb: asked.sizeGb,
    ...(asked.mountPath !== null && { mount_path: asked.mountPath }),
    status,
    created_at: iso(createdAtMs),
    updated_at: iso(updatedAtMs),
  };
}

/** The contract's container image: without the secret, which is nowhere stored. */
const imageDocument = ({ id, name, registryUrl, registryUsername, hasCredentials, createdAtMs }: ImageRow) => ({
  id,
  name,
  registry_url: registryUrl,
  ...(registryUsername !== null && { registry_username: registryUsername }),
  has_credentials: hasCredentials,
  created_at: iso(createdAtMs),
});

/** The contract's SSH key. */
const keyDocument = ({ id, name, fingerprint, publicKey, createdAtMs }: KeyRow) => ({
  id,
  name,
  fingerprint,
  public_key: publicKey,
  created_at: iso(createdAtMs),
});

const iso = (atMs: number): string => new Date(atMs).toISOString();

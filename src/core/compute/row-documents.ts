/** What tenants see of a row of any kind. documents.ts writes instances and clusters. */
import { clusterDocument, instanceDocument, type Roots } from "./documents.ts";
import type { ImageRow, KeyRow, ResourceRow, StorageRow } from "./resource.ts";
import { type StorageStatus, storageStatus } from "./storage-life.ts";

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

/** What a launch asks of drives and filesystems: existing ones by id, and new ones that it makes. */
import type * as z from "zod/mini";
import type { Refused } from "../outcome.ts";
import type { ClusterLaunch, InstanceLaunch, QuoteBody } from "./bodies.ts";
import { type Change, type Facts, findRow, invalid, refuse } from "./facts.ts";
import { type Attachment, isMachine, type StorageAsked, type StorageKind, type StorageRow } from "./resource.ts";
import { attachedTo } from "./storage-life.ts";
import { isUnpaid } from "./storage-rental.ts";
import { defaultMountPath, newStorage, notOffered, placeRefusal, samePlace, storageRate } from "./storage-rules.ts";

type LaunchBody = z.output<typeof InstanceLaunch> | z.output<typeof ClusterLaunch>;

export interface Attached {
  readonly drives: readonly Attachment[];
  readonly filesystems: readonly Attachment[];
  /** Rows of the new ones, with the hold of a day each. */
  readonly made: readonly Change[];
  readonly holdNanoUsd: number;
  /** 409, said after `max_gpus`. */
  readonly conflict: Refused | undefined;
}

interface Existing {
  readonly row: StorageRow;
  readonly mountPath: string;
}

interface New {
  readonly change: Change & { readonly row: StorageRow };
  readonly mountPath: string;
}

/** `id`: of the machine that is launched; new storage has the ids after it. */
export function attachmentsOf(facts: Facts, body: LaunchBody, id: number): Attached | Refused {
  const drives = "gpu_type" in body ? { old: body.cloud_drives ?? [], made: body.new_cloud_drives ?? [] } : NONE;
  const systems = { old: body.shared_filesystems ?? [], made: body.new_shared_filesystems ?? [] };
  const asked = [...drives.old, ...drives.made, ...systems.old, ...systems.made];
  if (asked.length === 0) return { drives: [], filesystems: [], made: [], holdNanoUsd: 0, conflict: undefined };
  const shared = notOffered(facts);
  if (shared) return shared;
  const made: New[] = [];
  for (const [kind, wanted] of [["drive", drives.made] as const, ["filesystem", systems.made] as const]) {
    for (const one of wanted) {
      const next = newOne(facts, kind, one, body.region_id, id, id + 1 + made.length);
      if ("ok" in next) return next;
      made.push(next);
    }
  }
  const existing: Existing[] = [];
  for (const [kind, wanted] of [["drive", drives.old] as const, ["filesystem", systems.old] as const]) {
    for (const one of wanted) {
      const found = existingOne(facts, kind, one, body.region_id);
      if ("ok" in found) return found;
      existing.push(found);
    }
  }
  const clash = clashOf(existing, made);
  if (clash) return clash;
  return {
    drives: attachmentsOfKind("drive", existing, made),
    filesystems: attachmentsOfKind("filesystem", existing, made),
    made: made.map(({ change }) => change),
    holdNanoUsd: made.reduce((sum, { change }) => sum + change.row.rental.rate.priceNanoUsd, 0),
    conflict: conflictOf(facts, existing, made),
  };
}

const NONE = { old: [], made: [] } as const;

type NewBody = NonNullable<LaunchBody["new_shared_filesystems"]>[number];

function newOne(
  facts: Facts,
  kind: StorageKind,
  { name, size_gb: sizeGb, mount_path }: NewBody,
  regionId: string,
  launch: number,
  id: number,
): New | Refused {
  const rate = storageRate(facts, kind, sizeGb, FIELDS[kind]);
  if ("ok" in rate) return rate;
  const mountPath = mount_path ?? defaultMountPath(id);
  const asked: StorageAsked = { name, regionId, sizeGb, mountPath: kind === "filesystem" ? mountPath : null };
  return { change: newStorage(facts, kind, id, asked, rate, launch), mountPath };
}

type OldBody = NonNullable<LaunchBody["shared_filesystems"]>[number];

/** Unknown, deleted, another account's, of another kind: one 404. */
function existingOne(
  facts: Facts,
  kind: StorageKind,
  { id, mount_path }: OldBody,
  regionId: string,
): Existing | Refused {
  const row = findRow(facts, kind, id);
  if (!row || row.seen.state === "ended") return refuse({ kind: "not_found", what: kind });
  if (row.asked.regionId !== regionId) {
    const field = kind === "drive" ? "cloud_drives" : "shared_filesystems";
    return invalid(field, "names storage of another region. Storage attaches only to compute in its own region");
  }
  return { row, mountPath: mount_path ?? row.asked.mountPath ?? defaultMountPath(id) };
}

/** What no order of things makes right: the same one twice, or two at one path. */
function clashOf(existing: readonly Existing[], made: readonly New[]): Refused | undefined {
  const ids = existing.map(({ row }) => row.id);
  if (new Set(ids).size < ids.length) {
    return refuse({ kind: "invalid", message: "The same storage is attached twice.", param: null });
  }
  return pathClash([...existing, ...made].map(({ mountPath }) => mountPath));
}

/** Two at one path. */
function pathClash(mountPaths: readonly string[]): Refused | undefined {
  const paths = mountPaths.map(samePlace);
  if (new Set(paths).size === paths.length) return undefined;
  return invalid("mount_path", "must differ between the drives and filesystems of a launch");
}

type NewOnes = Pick<z.output<typeof QuoteBody>, "new_cloud_drives" | "new_shared_filesystems">;

/** What a day of the new storage of a launch costs, which its launch holds. */
export function newStorageDay(
  facts: Pick<Facts, "shared" | "storagePrices">,
  { new_cloud_drives, new_shared_filesystems }: NewOnes,
): { readonly holdNanoUsd: number } | Refused {
  const kinds = [["drive", new_cloud_drives ?? []] as const, ["filesystem", new_shared_filesystems ?? []] as const];
  const made = kinds.flatMap(([, ones]) => ones);
  const refusal = made.length > 0 ? notOffered(facts) : undefined;
  if (refusal) return refusal;
  let holdNanoUsd = 0;
  for (const [kind, ones] of kinds) {
    for (const { size_gb } of ones) {
      const rate = storageRate(facts, kind, size_gb, FIELDS[kind]);
      if ("ok" in rate) return rate;
      holdNanoUsd += rate.priceNanoUsd;
    }
  }
  return pathClash(made.flatMap(({ mount_path }) => mount_path ?? [])) ?? { holdNanoUsd };
}

/** The field of a launch that makes storage of a kind. */
const FIELDS: Readonly<Record<StorageKind, string>> = {
  drive: "new_cloud_drives",
  filesystem: "new_shared_filesystems",
};

function conflictOf(facts: Facts, existing: readonly Existing[], made: readonly New[]): Refused | undefined {
  for (const { row } of existing) {
    const what = row.kind;
    if (row.wants.end || row.seen.state !== "available") return refuse({ kind: "state", what, why: "not_available" });
    if (isUnpaid(row.rental)) return refuse({ kind: "state", what, why: "unpaid" });
    const taken = what === "drive" && facts.rows.some((one) => isMachine(one) && attachedTo(one, row.id));
    if (taken) return refuse({ kind: "state", what, why: "attached_elsewhere" });
  }
  const asked = (kind: StorageKind) =>
    made.map(({ change }) => change.row).flatMap((row) => (row.kind === kind ? [row.asked] : []));
  return placeRefusal(facts, "drive", asked("drive")) ?? placeRefusal(facts, "filesystem", asked("filesystem"));
}

function attachmentsOfKind(kind: StorageKind, existing: readonly Existing[], made: readonly New[]): Attachment[] {
  const old = existing.flatMap(({ row, mountPath }): Attachment[] =>
    row.kind === kind && row.upstreamId !== null
      ? [{ id: row.id, mountPath, upstream: { kind: "existing", id: row.upstreamId } }]
      : [],
  );
  const own = made.flatMap(({ change: { row }, mountPath }): Attachment[] => {
    if (row.kind !== kind) return [];
    const { tag, asked, rental } = row;
    const upstream = { kind: "new", tag, sizeGb: asked.sizeGb, costNanoUsd: rental.rate.costNanoUsd } as const;
    return [{ id: row.id, mountPath, upstream }];
  });
  return [...old, ...own];
}

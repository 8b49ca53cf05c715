/**
 * Resources: the rows that an account keeps of its instances, clusters, drives, filesystems, images and SSH keys. A row
 * is durable before anything is sent upstream, so everything that exists there has a row here. It stores the wanted
 * state (`wants`), what upstream last showed (`seen`) and the money (`rental`). Ids are unique within the account,
 * across all kinds.
 */
import type { KeyId, TeamId } from "../ids.ts";
import type { EndReason, MachineRental, Rental, StorageRental } from "./rental.ts";

export type MachineKind = "instance" | "cluster";
export type StorageKind = "drive" | "filesystem";
export type ResourceKind = MachineKind | StorageKind | "image" | "ssh_key";

/** The key that made it. */
export interface MadeBy {
  readonly keyId: KeyId;
  readonly teamId: TeamId | null;
  readonly user: number | null;
}

/** An attached drive or filesystem, by our id. `upstream`: what the launch names there, or has made there. */
export interface Attachment {
  readonly id: number;
  readonly mountPath: string;
  readonly upstream:
    | { readonly kind: "existing"; readonly id: number }
    | { readonly kind: "new"; readonly tag: string; readonly sizeGb: number; readonly costNanoUsd: number };
}

/** What a PATCH may change. */
export interface Setup {
  readonly containerImage: string;
  readonly startupCommand: string | null;
  readonly initScript: string | null;
  readonly servicePort: number | null;
}

/** What was launched; never changes. */
export interface Launched {
  readonly name: string;
  readonly regionId: string;
  readonly gpuType: string;
  /** Per replica. */
  readonly gpuCount: number;
  readonly interruptible: boolean;
  readonly sshEnabled: boolean;
  readonly sshPublicKey: string | null;
  readonly sshFingerprint: string | null;
  readonly templateId: number | null;
  readonly drives: readonly Attachment[];
  readonly filesystems: readonly Attachment[];
}

/** A requested end. */
interface WantedEnd {
  readonly reason: EndReason;
  readonly askedMs: number;
}

/** The requested state. The requested length of a fixed run is its rental's `hours`. */
interface MachineWants {
  readonly end: WantedEnd | null;
  /** 1 for an instance. */
  readonly replicas: number;
  readonly setup: Setup;
  /** A PATCH whose effect is not seen yet; `answeredMs`: when upstream accepted it. */
  readonly rebuild: { readonly answeredMs: number | null } | null;
}

/** `none`: not seen yet. `stopping`: upstream is ending it. `ended`: proven and final. */
export type MachineState = "none" | "pending" | "running" | "degraded" | "preempted" | "stopping" | "ended";

/** What upstream last showed. */
export interface MachineSeen {
  readonly state: MachineState;
  /** Set with `ended`. */
  readonly reason: EndReason | null;
  readonly endedAtMs: number | null;
  readonly startedAtMs: number | null;
  /** When it was first and last seen running (or rebuilding). */
  readonly firstRunningMs: number | null;
  readonly lastRunningMs: number | null;
  /** When the document behind this was requested; older documents are ignored. */
  readonly askedAtMs: number;
  readonly hours: number | null;
  readonly replicas: number | null;
  /** True once upstream's cost was compared with the price book's. */
  readonly priced: boolean;
  readonly ssh: SshAccess | null;
  readonly jupyterUrl: string | null;
  readonly missing: Missing | null;
  /** True while an ended row still runs upstream. It is stopped at the operator's cost. */
  readonly haunts: boolean;
}

/** As upstream shows it. */
export interface SshAccess {
  readonly host: string | null;
  readonly port: number | null;
  readonly ready: boolean;
  readonly command: string | null;
}

/**
 * Evidence that it is missing. `lists`: how many lists lack a create without an answer. `notFoundMs`: the time of the
 * first 404 on a read by id.
 */
export interface Missing {
  readonly lists: number;
  readonly notFoundMs: number | null;
  /** When a read was sent last. */
  readonly triedMs?: number;
}

/**
 * The result of the create, which is sent once. `unknown`: no answer. `refused`: certainly not executed; tenants do not
 * see the row. `lost`: no answer, and not found for long enough.
 */
type CreateState = "unknown" | "done" | "refused" | "lost";

/** A call that was sent and whose effect was not seen yet. */
export interface Sending {
  readonly verb: "stop" | "extend" | "scale" | "patch";
  readonly tries: number;
  readonly lastMs: number;
  /** What to restore if upstream certainly did not execute it. */
  readonly former: { readonly replicas: number; readonly setup: Setup; readonly hours: number | null };
}

interface RowBase {
  readonly id: number;
  /** Its name upstream. */
  readonly tag: string;
  readonly by: MadeBy;
  readonly createdAtMs: number;
  /** When one of our calls last changed the row; documents requested before are ignored. */
  readonly changedAtMs: number;
  readonly upstreamId: number | null;
  readonly create: CreateState;
  readonly hiddenAtMs: number | null;
}

export interface MachineRow extends RowBase {
  readonly kind: MachineKind;
  readonly launched: Launched;
  readonly wants: MachineWants;
  readonly seen: MachineSeen;
  readonly sending: Sending | null;
  readonly rental: MachineRental;
}

/** What was asked for; never changes. */
export interface StorageAsked {
  readonly name: string;
  readonly regionId: string;
  readonly sizeGb: number;
  /** Where a filesystem is mounted if an attachment says nothing else; null for a drive. */
  readonly mountPath: string | null;
}

/** `none`: not seen yet. `ended`: proven and final. */
type StorageState = "none" | "pending" | "available" | "deleting" | "ended";

export interface StorageSeen {
  readonly state: StorageState;
  /** When it was first seen in this state. */
  readonly sinceMs: number | null;
  /** With `ended`: it was not deleted, but lost or never made. */
  readonly lost: boolean;
  readonly endedAtMs: number | null;
  readonly askedAtMs: number;
  readonly missing: Missing | null;
  /** True while an ended row still exists upstream. It is deleted at the operator's cost. */
  readonly haunts: boolean;
}

export interface StorageRow extends RowBase {
  readonly kind: StorageKind;
  readonly asked: StorageAsked;
  /** The machine whose launch makes it; null: its own call. */
  readonly launch: number | null;
  readonly wants: { readonly end: WantedEnd | null };
  readonly seen: StorageSeen;
  /** The delete that was sent. */
  readonly sending: { readonly tries: number; readonly lastMs: number } | null;
  readonly rental: StorageRental;
}

export interface ImageRow extends RowBase {
  readonly kind: "image";
  readonly name: string;
  readonly registryUrl: string;
  /** Null without a stored credential. The secret itself is never stored here. */
  readonly registryUsername: string | null;
  readonly hasCredentials: boolean;
  /** Upstream is known to hold what the row says. False while a change is under way, and after its answer was lost. */
  readonly settled: boolean;
  readonly changingSinceMs: number | null;
  readonly deletedAtMs: number | null;
  /** The delete that was sent; `answered`: upstream accepted it. */
  readonly sending: { readonly tries: number; readonly lastMs: number; readonly answered: boolean } | null;
  /** Proven not to be upstream. */
  readonly gone: boolean;
  /** Lists that lack a registration without an answer, and when the last of them was asked for. */
  readonly missing: { readonly lists: number; readonly askedAtMs: number };
}

export interface KeyRow extends RowBase {
  readonly kind: "ssh_key";
  readonly name: string;
  readonly publicKey: string;
  readonly fingerprint: string;
  readonly deletedAtMs: number | null;
}

export type RentedRow = MachineRow | StorageRow;
export type ResourceRow = RentedRow | ImageRow | KeyRow;
export type RowOf<Kind extends ResourceKind> = Kind extends MachineKind
  ? MachineRow
  : Kind extends StorageKind
    ? StorageRow
    : Kind extends "image"
      ? ImageRow
      : KeyRow;

export const isMachine = (row: ResourceRow): row is MachineRow => row.kind === "instance" || row.kind === "cluster";
export const isStorage = (row: ResourceRow): row is StorageRow => row.kind === "drive" || row.kind === "filesystem";

/** The money of a row; null for what costs nothing. */
export const rentalOf = (row: ResourceRow): Rental | null => ("rental" in row ? row.rental : null);

/** Whether it runs or may start to: it counts against `max_gpus`, and its attachments are in use. */
export const isLive = (row: MachineRow): boolean => row.seen.state !== "ended" && row.create !== "refused";

/** GPUs that count against `max_gpus`: those of machines that run or may start to. */
export const gpusOf = (row: MachineRow): number => (isLive(row) ? row.launched.gpuCount * row.wants.replicas : 0);

/** Whether it shows as running, which the contract's `terminate` requires. */
export const showsRunning = ({ seen, wants }: MachineRow): boolean =>
  (seen.state === "running" || seen.state === "degraded") && wants.rebuild === null;

export const NOTHING_SEEN: MachineSeen = {
  state: "none",
  reason: null,
  endedAtMs: null,
  startedAtMs: null,
  firstRunningMs: null,
  lastRunningMs: null,
  askedAtMs: 0,
  hours: null,
  replicas: null,
  priced: false,
  ssh: null,
  jupyterUrl: null,
  missing: null,
  haunts: false,
};

export type InstanceStatus =
  | "pending"
  | "running"
  | "terminating_requested"
  | "terminated"
  | "preempted"
  | "terminating_low_balance"
  | "failed";
export type ClusterStatus = "pending" | "running" | "stopped" | "degraded" | "failed";

/** The contract's status of an instance. */
export function instanceStatus(row: MachineRow): InstanceStatus {
  const { wants, seen } = row;
  if (seen.state === "ended") return seen.reason === "failed" ? "failed" : "terminated";
  if (wants.end) return wants.end.reason === "credit_depleted" ? "terminating_low_balance" : "terminating_requested";
  if (seen.state === "stopping") return "terminating_requested";
  if (seen.state === "preempted") return "preempted";
  return showsRunning(row) ? "running" : "pending";
}

/** The contract's status of a cluster. It has none for an end that is in progress. */
export function clusterStatus({ seen }: MachineRow): ClusterStatus {
  switch (seen.state) {
    case "ended":
      return seen.reason === "failed" ? "failed" : "stopped";
    case "running":
    case "stopping":
      return "running";
    case "degraded":
    case "preempted":
      return "degraded";
    default:
      return "pending";
  }
}

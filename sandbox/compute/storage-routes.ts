/** Cloud drives and shared filesystems: create, list, delete; and what a launch asks of them. */
import { z } from "zod";
import { storageDocument } from "./documents.ts";
import { roomNanoUsd } from "./money.ts";
import { chargeDay } from "./purse.ts";
import { isOver, type Region, type Storage } from "./records.ts";
import { type Answer, answer, type Call, NAMES, type Route, refuse, route } from "./route.ts";
import { attachedTo, deleteStorage, PROVISION_MS, storageStatus } from "./storage-life.ts";

const SIZES_GB: readonly number[] = [50, 100, 200, 300, 400, 500];
const MOST_OF_A_KIND = 8;
/** For how many days storage that ended stays in the lists. */
export const LISTED_DAYS = 7;

export type StorageKind = Storage["kind"];

export const StorageName = z.string().min(1);
export const SizeGb = z.int().refine((size) => SIZES_GB.includes(size), `must be one of ${SIZES_GB.join(", ")}`);
export const MountPath = z.string().regex(/^\/[^\s]+$/, "must be an absolute path");

/** A drive or filesystem that is to be made. */
export interface NewStorage {
  readonly kind: StorageKind;
  readonly name: string;
  readonly region: Region;
  readonly sizeGb: number;
  readonly mountPath: string | null;
}

const dayNanoUsd = ({ kind, region, sizeGb }: NewStorage): number =>
  sizeGb * (kind === "drive" ? region.driveDayNanoUsd : region.filesystemDayNanoUsd);

/** What the first day of all of them costs. */
export const firstDayNanoUsd = (made: readonly NewStorage[]): number =>
  made.reduce((sum, one) => sum + dayNanoUsd(one), 0);

/** Why they cannot be made together: names, mount paths, the most of a kind, room in the region. */
export function refusalOf({ world, account }: Call, made: readonly NewStorage[]): Answer | null {
  for (const kind of ["drive", "filesystem"] as const) {
    const wanted = made.filter((one) => one.kind === kind);
    const active = world.list(account, kind).filter((one) => !isOver(one));
    const names = [...active, ...wanted].map(({ name }) => name);
    const paths = [...active, ...wanted].flatMap(({ mountPath }) => mountPath ?? []);
    if (wanted.length === 0) continue;
    if (names.length > MOST_OF_A_KIND) {
      return refuse(409, `An account has up to ${MOST_OF_A_KIND} of a kind. Delete a ${NAMES[kind]} first.`);
    }
    const twice = wanted.find(({ name }) => names.indexOf(name) !== names.lastIndexOf(name));
    if (twice) return refuse(409, `There is already a ${NAMES[kind]} named \`${twice.name}\`. Choose another name.`);
    const clash = wanted.find(
      ({ mountPath }) => mountPath && paths.indexOf(mountPath) !== paths.lastIndexOf(mountPath),
    );
    if (clash) return refuse(409, `There is already a ${NAMES[kind]} at \`${clash.mountPath}\`. Choose another path.`);
    const gb = wanted.reduce((sum, { sizeGb }) => sum + sizeGb, 0);
    const region = wanted[0]?.region;
    if (region && gb > world.freeStorageGb(region, kind)) {
      return refuse(
        409,
        `There is no free capacity for ${gb} GB in ${region.id}. Choose another region or a smaller size.`,
      );
    }
  }
  return null;
}

/** Makes it and charges its first day, for which there must be money. */
export function make(call: Call, made: NewStorage): Storage {
  const { world, account, nowMs } = call;
  const storage: Storage = {
    kind: made.kind,
    id: world.newId(),
    account: account.account,
    createdMs: nowMs,
    name: made.name,
    regionId: made.region.id,
    sizeGb: made.sizeGb,
    mountPath: made.mountPath,
    phase: "pending",
    stuck: false,
    stepMs: nowMs + PROVISION_MS,
    updatedMs: nowMs,
    deleteAskedMs: null,
    deletedMs: null,
    dayNanoUsd: dayNanoUsd(made),
    nextDayMs: nowMs + world.lengths.dayMs,
    daysCharged: 0,
    daysOwed: 0,
  };
  world.add(storage);
  chargeDay(world, account, storage, nowMs);
  return storage;
}

const Create = z.object({ name: StorageName, region_id: z.string(), size_gb: SizeGb });
const CreateFilesystem = Create.extend({ mount_path: MountPath.optional() });

/** Filesystems are mounted here if nothing else is said. */
const defaultPath = (name: string): string => `/mnt/${name}`;

function create(call: Call, kind: StorageKind, body: z.output<typeof CreateFilesystem>): Answer {
  const region = call.world.region(body.region_id);
  if (!region) return refuse(400, `There is no region \`${body.region_id}\`. See /storage/availability.`);
  const mountPath = kind === "filesystem" ? (body.mount_path ?? defaultPath(body.name)) : null;
  const wanted: NewStorage = { kind, name: body.name, region, sizeGb: body.size_gb, mountPath };
  const refusal = refusalOf(call, [wanted]);
  if (refusal) return refusal;
  if (firstDayNanoUsd([wanted]) > roomNanoUsd(call.account)) {
    return refuse(402, "The balance does not cover the first day of storage. Add credit.");
  }
  const storage = make(call, wanted);
  return answer(202, storageDocument(call.world, storage), storage.id);
}

function remove({ world, nowMs }: Call, storage: Storage): Answer {
  if (attachedTo(world, storage).length > 0) {
    return refuse(409, `The ${NAMES[storage.kind]} is currently attached. Terminate what has it mounted first.`);
  }
  const status = storageStatus(world, storage);
  if (status !== "available" && status !== "suspended") {
    return refuse(409, `The ${NAMES[storage.kind]} is ${status}. Only one that is available can be deleted.`);
  }
  deleteStorage(world, storage, nowMs);
  return answer(202, storageDocument(world, storage), storage.id);
}

function list({ world, account, nowMs }: Call, kind: StorageKind): Answer {
  const since = nowMs - LISTED_DAYS * world.lengths.dayMs;
  const listed = world.list(account, kind).filter(({ deletedMs }) => deletedMs === null || deletedMs > since);
  return answer(
    200,
    listed.map((storage) => storageDocument(world, storage)),
  );
}

export const STORAGE: readonly Route[] = [
  route("GET /cloud-drives", { lists: true, serve: (call) => list(call, "drive") }),
  route("POST /cloud-drives", { body: Create, serve: (call, body) => create(call, "drive", body) }),
  route("DELETE /cloud-drives/:id", { on: "drive", serve: (call, _, drive) => remove(call, drive) }),
  route("GET /shared-filesystems", { lists: true, serve: (call) => list(call, "filesystem") }),
  route("POST /shared-filesystems", {
    body: CreateFilesystem,
    serve: (call, body) => create(call, "filesystem", body),
  }),
  route("DELETE /shared-filesystems/:id", {
    on: "filesystem",
    roles: ["owner", "admin"],
    serve: (call, _, filesystem) => remove(call, filesystem),
  }),
];

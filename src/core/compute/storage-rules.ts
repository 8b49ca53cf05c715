/** The rules that make and delete drives and filesystems. attachments.ts has what a launch asks of them. */
import type * as z from "zod/mini";
import type { Refused } from "../outcome.ts";
import type { NewFilesystem } from "./bodies.ts";
import { type Change, type Decision, type Facts, findRow, invalid, moneyRefusal, refuse } from "./facts.ts";
import { storageModel } from "./market.ts";
import type { Rate } from "./rental.ts";
import { isMachine, isStorage, type StorageAsked, type StorageKind, type StorageRow } from "./resource.ts";
import { attachedTo, NO_STORAGE_SEEN, storageSent, wantStorageEnd } from "./storage-life.ts";
import { openStorage } from "./storage-rental.ts";
import { formatTag } from "./tag.ts";
import type { RowCall } from "./wants.ts";

/** The service allows this many of each kind on one account. */
const MOST_OF_A_KIND = 8;

/** POST of a drive or filesystem: its first day is held. */
export function createStorage(facts: Facts, kind: StorageKind, body: z.output<typeof NewFilesystem>): Decision {
  const refusal = notOffered(facts) ?? regionRefusal(facts, body.region_id);
  if (refusal) return refusal;
  const rate = storageRate(facts, kind, body.size_gb, "size_gb");
  if ("ok" in rate) return rate;
  const { nextId: id } = facts;
  const mountPath = kind === "filesystem" ? (body.mount_path ?? defaultMountPath(id)) : null;
  const asked: StorageAsked = { name: body.name, regionId: body.region_id, sizeGb: body.size_gb, mountPath };
  const limited = placeRefusal(facts, kind, [asked]) ?? moneyRefusal(facts, rate.priceNanoUsd);
  if (limited) return limited;
  return { ok: true, ...newStorage(facts, kind, id, asked, rate, null), call: { verb: "create" } };
}

/** DELETE of a drive or filesystem. Days that begin after now are not charged. */
export function deleteStorage(facts: Facts, kind: StorageKind, id: number): Decision {
  const row = findRow(facts, kind, id);
  if (!row) return refuse({ kind: "not_found", what: kind });
  if (row.seen.state === "ended" || row.wants.end) return refuse({ kind: "state", what: kind, why: "deleted" });
  if (facts.rows.some((one) => isMachine(one) && attachedTo(one, id))) {
    return refuse({ kind: "state", what: kind, why: "attached" });
  }
  if (row.seen.state !== "available") return refuse({ kind: "state", what: kind, why: "not_available" });
  const call: RowCall = { verb: "stop" };
  return { ok: true, row: storageSent(wantStorageEnd(row, "user", facts.nowMs), call, facts.nowMs), acts: [], call };
}

/** The operator's end of a drive or filesystem, attached or not: it is repeated until upstream executes it. */
export function endStorage(
  row: StorageRow,
  nowMs: number,
): { readonly row: StorageRow; readonly call: RowCall | null } {
  const wanted = wantStorageEnd(row, "admin", nowMs);
  if (wanted === row || wanted.upstreamId === null) return { row: wanted, call: null };
  const call: RowCall = { verb: "stop" };
  return { row: storageSent(wanted, call, nowMs), call };
}

/** An upstream account's storage is 8 and 8 in all, so a shared one offers none. */
export function notOffered({ shared }: Pick<Facts, "shared">): Refused | undefined {
  if (!shared) return undefined;
  const message = "Cloud drives and shared filesystems are not offered on this account.";
  return refuse({ kind: "invalid", message, param: null });
}

function regionRefusal({ storageRegions }: Facts, regionId: string): Refused | undefined {
  if (storageRegions.includes(regionId)) return undefined;
  return invalid("region_id", "is not a region that offers storage. GET /storage/availability lists them");
}

/** Price and cost of a day. */
export function storageRate(
  facts: Pick<Facts, "storagePrices">,
  kind: StorageKind,
  sizeGb: number,
  param: string,
): Rate | Refused {
  const prices = facts.storagePrices.get(kind);
  const price = prices?.price.storage_gb_days ?? 0;
  if (price === 0) return invalid(param, `has no price yet: ${storageModel(kind)} is not sold`);
  const cost = prices?.cost.storage_gb_days ?? 0;
  return {
    unit: "storage_gb_days",
    size: sizeGb,
    priceNanoUsd: price * sizeGb,
    costNanoUsd: cost * sizeGb,
  };
}

/** Where a filesystem is mounted that names no path of its own. Unique, as ids are. */
export const defaultMountPath = (id: number): string => `/mnt/${id}`;

/** Two paths that are one place. */
export const samePlace = (path: string): string => path.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");

/** Why they cannot stand beside what the account has: 8 of a kind, unique names, unique mount paths of filesystems. */
export function placeRefusal({ rows }: Facts, kind: StorageKind, wanted: readonly StorageAsked[]): Refused | undefined {
  const taken = rows
    .filter(isStorage)
    .filter((row) => row.kind === kind && row.create !== "refused" && row.seen.state !== "ended")
    .map(({ asked }) => asked);
  if (wanted.length > 0 && taken.length + wanted.length > MOST_OF_A_KIND) {
    return refuse({ kind: "too_many", what: kind, most: MOST_OF_A_KIND });
  }
  for (const [index, { name, mountPath }] of wanted.entries()) {
    const others = [...taken, ...wanted.slice(0, index)];
    if (others.some((one) => one.name === name)) return refuse({ kind: "duplicate", what: kind, field: "name" });
    const clash = (one: StorageAsked) =>
      mountPath !== null && one.mountPath !== null && samePlace(one.mountPath) === samePlace(mountPath);
    if (others.some(clash)) return refuse({ kind: "duplicate", what: kind, field: "mount_path" });
  }
  return undefined;
}

/** `launch`: the machine whose launch makes it; null: a call of its own. */
export function newStorage(
  { account, deployment, random, by, nowMs }: Facts,
  kind: StorageKind,
  id: number,
  asked: StorageAsked,
  rate: Rate,
  launch: number | null,
): Change & { readonly row: StorageRow } {
  const opened = openStorage(rate, nowMs);
  const row: StorageRow = {
    kind,
    id,
    tag: formatTag({ deployment, account, id, random }),
    by,
    createdAtMs: nowMs,
    changedAtMs: nowMs,
    upstreamId: null,
    create: "unknown",
    hiddenAtMs: null,
    asked,
    launch,
    wants: { end: null },
    seen: NO_STORAGE_SEEN,
    sending: null,
    rental: opened.rental,
  };
  return { row, acts: opened.acts };
}

/**
 * What tenants are shown of upstream's market: the contract's fields alone, and only what has a price for the account.
 * Upstream's documents are read with tolerance; what cannot be read is not offered.
 */
import { asObject } from "../formats/json-fields.ts";
import { toUsd } from "../pricing/money.ts";
import type { ModelRow, UnitPrices } from "../pricing/prices.ts";
import type { GpuPrices, Region } from "./facts.ts";
import { isMachine, type RentedRow, type StorageKind } from "./resource.ts";

const TEXTS = ["id", "name", "gpu_type"] as const;
const COUNTS = [
  "gpu_per_node",
  "total_nodes",
  "node_count",
  "available",
  "vcpu_per_gpu",
  "ram_gb_per_gpu",
  "scratch_disk_gib",
] as const;

type RegionDocument = Record<(typeof TEXTS)[number], string> & Record<(typeof COUNTS)[number], number>;

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** The regions that upstream offers. Undefined for what is no list. */
function regionDocuments(body: string): RegionDocument[] | undefined {
  const parsed = parse(body);
  if (!Array.isArray(parsed)) return undefined;
  return parsed.flatMap((item: unknown) => {
    const fields = asObject(item);
    if (typeof fields?.id !== "string" || typeof fields.gpu_type !== "string") return [];
    const texts = TEXTS.map((name) => [name, typeof fields[name] === "string" ? fields[name] : fields.id]);
    const counts = COUNTS.map((name) => [name, isCount(fields[name]) ? fields[name] : 0]);
    return [Object.fromEntries([...texts, ...counts]) as RegionDocument];
  });
}

export const readRegions = (body: string): Region[] | undefined =>
  regionDocuments(body)?.map(({ id, gpu_type, gpu_per_node }) => ({
    id,
    gpuType: gpu_type,
    gpusPerNode: gpu_per_node,
  }));

/** Regions whose GPUs are sold to the account. */
export function shownRegions(body: string, prices: ReadonlyMap<string, GpuPrices>): RegionDocument[] | undefined {
  return regionDocuments(body)?.filter(({ gpu_type }) => (prices.get(gpu_type)?.price.gpu_hours ?? 0) > 0);
}

/** Storage by region: two numbers each; nothing is free of a kind that the account is not offered. */
export function shownStorage(body: string, kinds: readonly StorageKind[]): Record<string, object> | undefined {
  const regions = asObject(parse(body));
  if (!regions) return undefined;
  return Object.fromEntries(
    Object.entries(regions).flatMap(([id, value]) => {
      const { block_available_gb, fs_available_gb } = asObject(value) ?? {};
      if (!isCount(block_available_gb) || !isCount(fs_available_gb)) return [];
      if (kinds.length === 0) return [];
      const block = kinds.includes("drive") ? block_available_gb : 0;
      return [[id, { block_available_gb: block, fs_available_gb: kinds.includes("filesystem") ? fs_available_gb : 0 }]];
    }),
  );
}

/** The contract's price rows, by GPU type. What has no price by the hour is not sold. */
export function priceDocuments(rows: readonly ModelRow[], priceOf: (row: ModelRow) => UnitPrices): object[] {
  return rows.flatMap((row) => {
    const price = priceOf(row);
    if (!price.gpu_hours) return [];
    const gpuType = gpuTypeOf(row.model);
    return [
      {
        gpu_type: gpuType,
        display_name: row.displayName ?? gpuType,
        hourly_rate_usd: toUsd(price.gpu_hours),
        interruptible_hourly_rate_usd: price.interruptible_gpu_hours ? toUsd(price.interruptible_gpu_hours) : null,
        vram_gb: row.vramGb ?? 0,
      },
    ];
  });
}

/** The price book row of a GPU type. Types may have spaces, so they are encoded. */
export const gpuModel = (gpuType: string): string => `gpu/${encodeURIComponent(gpuType)}`;

/** The price book row of drives or filesystems. */
export const storageModel = (kind: StorageKind): string => `storage/${kind}`;

/** The price book row that a resource is charged by. */
export const modelOf = (row: RentedRow): string =>
  isMachine(row) ? gpuModel(row.launched.gpuType) : storageModel(row.kind);

export function gpuTypeOf(model: string): string {
  const encoded = model.slice("gpu/".length);
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

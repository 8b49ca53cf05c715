/**
 * The demo's compute: prices for all that the sandbox rents out, with a margin of a quarter, and the command that
 * launches an instance. The demo account lives on the upstream `sandbox`, where it is the only one.
 */
import type { NewModel } from "../client/operator.ts";
import { at } from "./demo-prices.ts";

const gpu = (display_name: string, vram_gb: number, costs: Record<string, number>): NewModel => ({
  kind: "gpu",
  display_name,
  vram_gb,
  prices: at(costs),
});
const storage = (cost: number): NewModel => ({ kind: "storage", prices: at({ storage_gb_days: cost }) });

/** Bodies of `PUT /admin/models/{model}`: GPUs by the hour, storage by GB and day. */
export const DEMO_RENTALS: Readonly<Record<string, NewModel>> = {
  "gpu/H100%20SXM": gpu("NVIDIA H100 80 GB SXM", 80, { gpu_hours: 2.5, interruptible_gpu_hours: 1.25 }),
  "gpu/A100": gpu("NVIDIA A100 80 GB", 80, { gpu_hours: 1.6, interruptible_gpu_hours: 0.8 }),
  "gpu/RTX%204090": gpu("NVIDIA GeForce RTX 4090", 24, { gpu_hours: 0.4 }),
  "storage/drive": storage(0.003),
  "storage/filesystem": storage(0.005),
};

/** What `welcome` launches: the cheapest GPU, for an hour at most. */
export const DEMO_LAUNCH = {
  region_id: "eu-north-1",
  gpu_type: "RTX 4090",
  gpu_count: 1,
  container_image: "platform/pytorch:2.9",
  service_port: 8000,
  estimated_duration_hours: 1,
};

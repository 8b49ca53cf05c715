/** What exists at the first start: regions, templates, and the accounts of the two keys of the sandbox. */
import { nanoUsd } from "./money.ts";
import type { Account, Key, Region, Template } from "./records.ts";

/** What a region has if nothing else is said. */
export const ANY_REGION: Omit<Region, "id" | "name" | "gpuType" | "displayName"> = {
  gpusPerNode: 8,
  totalNodes: 4,
  nodes: 4,
  takenGpus: 0,
  vcpuPerGpu: 16,
  ramGbPerGpu: 128,
  scratchDiskGib: 500,
  vramGb: 80,
  rateNanoUsd: nanoUsd(2.5),
  interruptibleRateNanoUsd: nanoUsd(1.25),
  driveGb: 20_000,
  filesystemGb: 20_000,
  driveDayNanoUsd: nanoUsd(0.003),
  filesystemDayNanoUsd: nanoUsd(0.005),
};

export const FIRST_REGIONS: readonly Region[] = [
  { ...ANY_REGION, id: "us-east-1", name: "US East", gpuType: "H100 SXM", displayName: "NVIDIA H100 80 GB SXM" },
  {
    ...ANY_REGION,
    id: "eu-west-1",
    name: "EU West",
    gpuType: "A100",
    displayName: "NVIDIA A100 80 GB",
    rateNanoUsd: nanoUsd(1.6),
    interruptibleRateNanoUsd: nanoUsd(0.8),
  },
  {
    ...ANY_REGION,
    id: "eu-north-1",
    name: "EU North",
    gpuType: "RTX 4090",
    displayName: "NVIDIA GeForce RTX 4090",
    gpusPerNode: 4,
    vramGb: 24,
    rateNanoUsd: nanoUsd(0.4),
    interruptibleRateNanoUsd: null,
  },
];

export const FIRST_TEMPLATES: readonly Template[] = [
  {
    id: 1,
    account: null,
    name: "PyTorch",
    description: "PyTorch with SSH",
    defaults: { container_image: "platform/pytorch:2.9", ssh_enabled: true },
  },
  {
    id: 2,
    account: null,
    name: "Jupyter",
    description: "JupyterLab",
    defaults: { container_image: "platform/jupyter:4", service_port: 8888 },
  },
];

const key = (name: string, user: number, role: Key["role"]): Key => ({
  key: name,
  user,
  role,
  scopes: ["inference", "compute"],
  state: "live",
});

const account = (id: string, number: number, enabled: boolean, keys: readonly Key[]): Account => ({
  account: id,
  number,
  enabled,
  billsMonthly: false,
  balanceNanoUsd: enabled ? nanoUsd(10_000) : 0,
  heldNanoUsd: 0,
  keys,
  clockAheadMs: 0,
});

/** `operator` may use compute and has a second key for service paths; `other` may not. */
export const firstAccounts = (): Account[] => [
  account("operator", 7_001, true, [key("sandbox-key", 1, "owner"), key("sandbox-service-key", 2, "member")]),
  account("other", 7_002, false, [key("sandbox-other-key", 1, "owner")]),
];

/**
 * The order of test files: those that take longest begin first, so that no worker ends with one of them while the other
 * has nothing left. Vitest knows durations only from earlier runs, and a fresh clone has had none.
 */
import type { TestSpecification } from "vitest/node";
import { BaseSequencer } from "vitest/node";

/** Files that take some 8 s or more, about longest first. */
const SLOWEST = [
  "failure/kill-points",
  "money/video",
  "money/compute",
  "input/uploads",
  "console/pages",
  "input/body-memory",
  "failure/region-down",
  "console/trouble",
  "input/compute-limits",
  "clients/cli",
  "clients/commands",
  "money/leavers",
  "money/storage",
  "failure/archive-kills",
  "isolation/resale-leaks",
  "failure/rental-kills",
  "failure/storage-kills",
  "failure/restore",
  "failure/native-pipe",
  "failure/broken-streams",
  "money/endpoints-charges",
  "money/quick-leavers",
  "failure/crash",
  "process/start",
  "console/tenant-way",
  "console/operator-way",
  "process/day-by-day",
  "failure/service-streams",
  "process/alerts",
  "input/endpoints-input",
  "failure/retry-storm",
  "money/teams",
  "isolation/ids",
  "input/storage-limits",
  "isolation/service-paths",
  "money/longest-call",
  "money/templates",
  "input/hostile",
  "isolation/two-seats",
  "failure/relay",
  "failure/large-answers",
  "failure/black-hole",
  "console/console",
  "isolation/compute-images",
  "clients/openai",
  "console/keyboard",
  "input/smuggled-forms",
  "failure/failover",
  "clients/langchain",
  "money/limits",
  "console/newcomer",
  "clients/cli-apply",
  "isolation/keys",
  "input/compute-rows",
  "process/export",
  "money/resale",
  "money/books",
  "money/instances-by-the-hour",
  "clients/vercel",
  "clients/agents",
  "failure/fault-matrix",
  "worker/compute-outages",
  "worker/compute-lies",
  "worker/compute-late",
  "worker/compute-away",
  "worker/compute-counts",
  "worker/video-jobs",
  "worker/revocation",
  "worker/statements",
  "worker/account-clock",
  "worker/free-calls",
  "worker/archive-calls",
  "worker/archive-year",
  "worker/compute-seats",
  "worker/archive-reading",
  "worker/authority",
  "worker/account-sizes",
  "worker/directory",
  "worker/archive-ledger",
  "worker/hourly-instances",
  "worker/compute-histories",
  "worker/account-alarm",
  "worker/operators",
  "worker/admin-routing",
  "worker/counts",
  "worker/leases",
  "worker/direct",
  "worker/admin-words",
  "worker/storage-histories",
  "worker/shared-seats",
  "worker/lease-ends",
  "worker/account-limits",
  "worker/video-histories",
  "gateway/answers",
  "gateway/http/upload-slot",
  "formats/json",
  "gateway/audio",
] as const;

function rank({ moduleId }: TestSpecification): number {
  const at = SLOWEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
  return at < 0 ? SLOWEST.length : at;
}

export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    // Only among files of one project: projects run one after another.
    return sorted
      .map((file, at) => ({ file, at }))
      .sort((a, b) => (a.file.project === b.file.project ? rank(a.file) - rank(b.file) : 0) || a.at - b.at)
      .map(({ file }) => file);
  }
}

/**
 * The order of test files: those that take longest begin first, so that no worker ends with one of them while the other
 * has nothing left. Vitest knows durations only from earlier runs, and a fresh clone has had none.
 */
import type { TestSpecification } from "vitest/node";
import { BaseSequencer } from "vitest/node";

/** Files that take 10 s or more, about longest first; between those that compute stand those that wait. */
const SLOWEST = [
  "money/video",
  "console/pages",
  "money/compute",
  "console/trouble",
  "failure/kill-points",
  "console/operator-way",
  "console/tenant-way",
  "process/start",
  "input/body-memory",
  "clients/commands",
  "failure/region-down",
  "input/uploads",
  "money/storage",
  "clients/cli",
  "clients/cli-apply",
  "money/endpoints-charges",
  "failure/native-pipe",
  "money/leavers",
  "failure/broken-streams",
  "money/books-at-scale",
  "process/alerts",
  "failure/storage-kills",
  "money/teams",
  "failure/archive-kills",
  "failure/crash",
  "failure/fault-matrix",
  "failure/retry-storm",
  "failure/service-streams",
  "failure/large-answers",
  "money/longest-call",
  "failure/rental-kills",
  "isolation/two-seats",
  "input/hostile-bodies",
  "clients/vercel",
  "console/newcomer",
  "process/day-by-day",
  "console/console",
  "money/instances-by-the-hour",
  "clients/openai",
  "money/templates",
  "clients/conversation",
  "input/hostile-json",
  "input/smuggled-forms",
  "input/endpoints-input",
  "failure/lying-engines",
  "failure/black-hole",
  "failure/relay",
  "input/hostile",
  "isolation/resale-leaks",
  "input/compute-limits",
  "input/compute-rows",
  "input/storage-limits",
  "money/quick-leavers",
  "clients/langchain",
  "isolation/compute-keys",
  "worker/compute-outages",
  "worker/compute-late",
  "worker/hourly-instances",
  "worker/compute-away",
  "worker/shared-seats",
  "worker/account-limits",
  "worker/compute-seats",
  "worker/directory",
  "worker/video-jobs",
  "worker/account-clock",
  "worker/statements",
  "worker/account-alarm",
  "worker/free-calls",
  "worker/account-sizes",
  "worker/revocation",
  "worker/authority",
  "worker/operators",
  "worker/admin-routing",
  "worker/direct",
  "worker/compute-histories",
  "worker/video-histories",
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

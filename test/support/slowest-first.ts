/**
 * The order of test files: those that take longest begin first, so that no worker ends with one of them while the other
 * has nothing left. Vitest knows durations only from earlier runs, and a fresh clone has had none.
 */
import type { TestSpecification } from "vitest/node";
import { BaseSequencer } from "vitest/node";

/** Files of test/e2e and test/worker that take 10 s or more, longest first, as `npm test` tells them. */
const SLOWEST = [
  "console/pages",
  "console/trouble",
  "money/video",
  "clients/commands",
  "process/start",
  "money/compute",
  "clients/cli-apply",
  "failure/fault-matrix",
  "input/uploads",
  "clients/cli",
  "money/teams",
  "money/books-at-scale",
  "money/endpoints-charges",
  "money/storage",
  "input/hostile-bodies",
  "clients/vercel",
  "failure/crash",
  "failure/kill-points",
  "money/instances-by-the-hour",
  "input/body-memory",
  "failure/region-down",
  "failure/rental-kills",
  "process/day-by-day",
  "clients/openai",
  "money/leavers",
  "failure/storage-kills",
  "input/hostile-json",
  "input/smuggled-forms",
  "clients/conversation",
  "money/longest-call",
  "failure/black-hole",
  "failure/service-streams",
  "console/console",
  "input/hostile",
  "isolation/resale-leaks",
  "failure/broken-streams",
  "input/compute-limits",
  "failure/retry-storm",
  "input/endpoints-input",
  "input/compute-rows",
  "failure/native-pipe",
  "input/storage-limits",
  "money/templates",
  "clients/langchain",
  "money/limits",
  "isolation/compute-keys",
  "failure/failover",
  "money/holds",
  "clients/agents",
  "failure/relay",
  "clients/responses-stream",
  "failure/large-answers",
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

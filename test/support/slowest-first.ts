/**
 * The order of test files: those that take longest begin first, so that no worker ends with one of them while the other
 * has nothing left. Vitest knows durations only from earlier runs, and a fresh clone has had none.
 */
import type { TestSpecification } from "vitest/node";
import { BaseSequencer } from "vitest/node";

/** Files of test/e2e and test/worker that take 10 s or more, longest first, as `npm test` tells them. */
const SLOWEST = [
  "money/video",
  "failure/region-down",
  "input/body-memory",
  "input/uploads",
  "money/compute",
  "failure/kill-points",
  "failure/native-pipe",
  "process/start",
  "failure/fault-matrix",
  "input/endpoints-input",
  "money/leavers",
  "money/quick-leavers",
  "failure/relay",
  "money/endpoints-charges",
  "isolation/resale-leaks",
  "money/storage",
  "input/compute-limits",
  "failure/broken-streams",
  "money/teams",
  "money/books-at-scale",
  "money/limits",
  "failure/crash",
  "isolation/service-paths",
  "isolation/secrecy",
  "failure/service-streams",
  "failure/large-answers",
  "failure/retry-storm",
  "worker/compute-away",
  "worker/compute-outages",
  "worker/account-sizes",
  "worker/video-histories",
  "worker/account-clock",
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

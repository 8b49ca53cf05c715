import { defineConfig } from "vitest/config";

/** Few, since they are run for each mutant: what a property finds it mostly finds soon. */
process.env.FC_NUM_RUNS ??= "30";

/** The tests that have to tell a mutant of a decision from the decision: those that stand beside it, and are quick. */
export default defineConfig({
  test: {
    include: ["test/core/{account,pricing,routing}/**/*.test.ts", "test/core/formats/sse.test.ts"],
    setupFiles: ["test/support/property-runs.ts"],
    isolate: false,
    testTimeout: 60_000,
  },
});

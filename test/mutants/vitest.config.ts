import { defineConfig } from "vitest/config";

/** The tests that have to tell a mutant of a decision from the decision: those that stand beside it. */
export default defineConfig({
  test: { include: ["test/core/{account,formats,pricing,routing}/**/*.test.ts"], testTimeout: 60_000 },
});

import { defineConfig } from "vitest/config";

/** The tests that have to tell a mutant of the core from the core. */
export default defineConfig({ test: { include: ["test/core/**/*.test.ts"] } });

import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { makeAssets } from "./scripts/assets.ts";
import { SlowestFirst } from "./test/support/slowest-first.ts";

// Wrangler would warn of secrets that the tests bring themselves.
process.env.WRANGLER_LOG ??= "error";

/** Secrets of the tests; nothing outside the tests knows them. */
const TEST_SECRETS = {
  ADMIN_TOKEN: "test-admin-token-0123456789abcdef",
  KEY_PEPPER: "test-key-pepper-0123456789abcdef",
  MASTER_KEY: "dGVzdC1tYXN0ZXIta2V5LTAxMjM0NTY3ODlhYmNkZWY=",
};

/** How much of what `npm test` does in short is done in full. */
const PROOF = {
  RENTAL_HISTORIES: process.env.RENTAL_HISTORIES ?? "",
  STORAGE_HISTORIES: process.env.STORAGE_HISTORIES ?? "",
  PROOF: process.env.PROOF ?? "",
  ARCHIVE_DAYS: process.env.ARCHIVE_DAYS ?? "",
};

/** For a machine that is slow or shared: a test that hangs is ended, and none is judged by it. */
const PATIENCE_MS = 120_000;
/** Where clocks and processes are real, a machine that others slow down may miss a deadline once. */
const RETRIES = process.env.CI ? 1 : 0;

/** Tests against real processes. */
const E2E = {
  // As with the core's: what a file starts, fakes or listens to, it ends.
  isolate: false,
  retry: RETRIES,
  globalSetup: ["test/support/shared.ts"],
  // For a machine that others use too: what a test awaits has limits of its own.
  testTimeout: 180_000,
  hookTimeout: 180_000,
  expect: { poll: { timeout: 20_000 } },
};

export default defineConfig({
  test: {
    // What a test makes the Worker log is shown where the test fails.
    silent: "passed-only",
    sequence: { sequencer: SlowestFirst },
    projects: [
      {
        test: {
          name: "core",
          // Files share a process and the modules it has loaded: a start of its own takes longer than most of them.
          isolate: false,
          include: ["test/{core,gateway,cli,tidy}/**/*.test.ts"],
          setupFiles: ["test/support/property-runs.ts"],
          testTimeout: PATIENCE_MS,
        },
      },
      {
        plugins: [
          cloudflareTest(async () => {
            await makeAssets();
            return {
              wrangler: { configPath: "./wrangler.toml" },
              miniflare: {
                bindings: {
                  ...TEST_SECRETS,
                  ...PROOF,
                  TEST_MIGRATIONS: await readD1Migrations("./migrations"),
                  TEST_HISTORIES: Number(process.env.HISTORIES ?? 6),
                  // Tests of leases turn them on: a call that waits for its report would wait for a clock that stands still.
                  LEASES: process.env.LEASES ?? "off",
                },
                // Bound under another name: a test that wants an archive says so (test/support/worker/archive.ts).
                r2Buckets: ["TEST_ARCHIVE"],
                queueConsumers: {
                  "tollgate-usage": { maxBatchTimeout: 0.05 },
                  "tollgate-webhooks": { maxBatchTimeout: 0.05 },
                },
              },
            };
          }),
        ],
        test: {
          name: "worker",
          // Files share a workerd, which setup.ts empties before each: to start one takes seconds.
          isolate: false,
          testTimeout: PATIENCE_MS,
          hookTimeout: PATIENCE_MS,
          retry: RETRIES,
          include: ["test/worker/**/*.test.ts"],
          setupFiles: ["test/support/worker/setup.ts"],
        },
      },
      {
        plugins: [cloudflareTest({ wrangler: { configPath: "./sandbox/wrangler.toml" } })],
        test: {
          name: "sandbox",
          isolate: false,
          testTimeout: PATIENCE_MS,
          hookTimeout: PATIENCE_MS,
          retry: RETRIES,
          include: ["test/sandbox/**/*.test.ts"],
          setupFiles: ["test/support/worker/sandbox-setup.ts"],
        },
      },
      { test: { ...E2E, name: "e2e", include: ["test/e2e/**/*.test.ts", "test/clients/*.test.ts"] } },
      {
        // Money and limits once more, on a process that asks the account's object about each call.
        test: {
          ...E2E,
          name: "e2e-no-leases",
          include: ["test/e2e/money/{limits,holds,books}.test.ts"],
          env: { LEASES: "off" },
        },
      },
      {
        // Not part of `npm test`: scripts/clients.ts installs what these need.
        test: {
          name: "clients",
          include: ["test/clients/heavy/*.test.ts"],
          globalSetup: ["test/support/shared.ts"],
          hookTimeout: 60_000,
        },
      },
    ],
  },
});

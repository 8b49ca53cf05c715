/**
 * `npm run proof`: in full what `npm test` does in short. Each property of the core 5,000 times, 300 random histories
 * of an account, of video jobs and of reports, reports over ten million calls, ten long histories of rented machines
 * and five of storage, a thousand machines for three days, a year of an archive, an export of ten million calls, kills
 * at each point, the console's first page, real processes without leases and workerd with them, the memory of all large
 * bodies, the mutants of the core's decisions, and two soaks of ten minutes with kills, with leases and without. Takes
 * hours; ends at the first step that fails.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const node = process.execPath;
const vitest = join(root, "node_modules/vitest/vitest.mjs");

const TABLES_OF_INPUT = ["input/hostile.test", "hostile-json", "input/uploads", "input/compute-rows", "cli-apply"];
const TABLES_OF_TENANTS = ["resale-leaks", "isolation/ids", "books-at-scale", "money/teams"];
const COMPUTE_ANSWERS = ["compute-late", "compute-lies", "compute-counts", "hourly-instances"];
const CLOCKS_AND_SIZES = ["compute-away", "compute-outages", "account-clock", "account-sizes"];
const STEPS: readonly { what: string; args: string[]; env?: Record<string, string> }[] = [
  {
    what: "properties",
    args: [vitest, "run", "--project", "core", "--testTimeout", "600000", "--reporter", "dot"],
    env: { FC_NUM_RUNS: "5000" },
  },
  {
    what: "histories",
    args: [
      vitest,
      "run",
      "--project",
      "worker",
      "account-histories",
      "video-histories",
      "worker/leases",
      "usage-days",
      "statements",
    ],
    env: { HISTORIES: "300" },
  },
  {
    what: "histories of rented machines and of storage",
    args: [vitest, "run", "--project", "worker", "compute-histories", "storage-histories"],
    env: { RENTAL_HISTORIES: "10 300", STORAGE_HISTORIES: "5 120" },
  },
  {
    what: "reports over ten million calls",
    args: [vitest, "run", "--project", "core", "test/core/reports-at-scale.test.ts", "--hookTimeout", "1200000"],
    env: { EVENTS: "10000000" },
  },
  {
    what: "late and lost answers of each verb of compute, a thousand machines for three days, hours away, clocks set back, 200 large keys",
    args: [vitest, "run", "--project", "worker", ...COMPUTE_ANSWERS, ...CLOCKS_AND_SIZES],
    env: { PROOF: "1" },
  },
  {
    what: "a year of eleven accounts with an archive",
    args: [vitest, "run", "--project", "worker", "archive-year"],
    env: { ARCHIVE_DAYS: "365" },
  },
  {
    what: "an export of ten million calls",
    args: [vitest, "run", "--project", "e2e", "test/e2e/process/export.test.ts"],
    env: { PROOF: "1" },
  },
  {
    what: "memory of large bodies",
    args: [vitest, "run", "--project", "e2e", "test/e2e/input/body-memory.test.ts"],
    env: { ALL_BODIES: "1" },
  },
  {
    what: "storms, signals and kills of rented machines, of storage and of the archive",
    args: [
      vitest,
      "run",
      "--project",
      "e2e",
      "retry-storm",
      "process/start",
      "rental-kills",
      "storage-kills",
      "archive-kills",
      "failure/restore",
    ],
    env: { PROOF: "1" },
  },
  {
    what: "whole tables of faults, leaks, naughty strings and killed commands, a thousand calls, streams of 40 s",
    args: [
      vitest,
      "run",
      "--project",
      "e2e",
      "region-down",
      "fault-matrix",
      "endpoints-charges",
      "relay",
      "test/clients/",
      ...TABLES_OF_INPUT,
      ...TABLES_OF_TENANTS,
    ],
    env: { PROOF: "1" },
  },
  {
    // Alone: other browsers would take its time.
    what: "the console's first page takes input within 300 ms, the median of seven loads",
    args: [vitest, "run", "--project", "e2e", "console/operator-way", "-t", "the first page comes"],
    env: { PROOF: "1" },
  },
  {
    what: "each head of each table of the console; each page of a gateway that is down",
    args: [vitest, "run", "--project", "e2e", "console/pages", "console/trouble"],
    env: { PROOF: "1" },
  },
  {
    what: "everything against real processes, without leases",
    args: [vitest, "run", "--project", "e2e", "--maxWorkers", "3"],
    env: { LEASES: "off" },
  },
  {
    what: "everything inside workerd, with leases",
    args: [vitest, "run", "--project", "worker", "--maxWorkers", "3"],
    env: { LEASES: "on" },
  },
  {
    what: "kills at each point, and a hundred under load with leases",
    args: [vitest, "run", "--project", "e2e", "kill-points"],
    env: { PROOF: "1" },
  },
  {
    what: "a thousand revocations under leases",
    args: [vitest, "run", "--project", "worker", "test/worker/leases.test.ts", "-t", "no isolate admits a call"],
    env: { HISTORIES: "1000" },
  },
  {
    what: "keys that are revoked while four gateways use them",
    args: [vitest, "run", "--project", "e2e", "four-gateways"],
    env: { PROOF: "1" },
  },
  { what: "one account as fast as the machine can", args: [join(root, "bench/one-account.ts")] },
  { what: "mutants", args: [join(root, "scripts/mutants.ts")] },
  { what: "soak", args: [join(root, "test/soak/soak.ts"), "--minutes", "10"] },
  { what: "soak without leases", args: [join(root, "test/soak/soak.ts"), "--minutes", "10", "--no-leases"] },
];

for (const { what, args, env } of STEPS) {
  process.stdout.write(`\n${what}\n`);
  const { status } = spawnSync(node, args, { cwd: root, stdio: "inherit", env: { ...process.env, ...env } });
  if (status !== 0) {
    process.stderr.write(`${what} failed\n`);
    process.exit(status ?? 1);
  }
}

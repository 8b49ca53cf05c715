/** The end of a test run, with a Chromium and without one, and what `.ci/run` makes of it. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { chromiumPath, NO_CHROMIUM } from "../../scripts/chromium.ts";
import { failuresOf, isOfTheRuntime, lastLines, type Report, secondTriesOf, totals } from "../../scripts/totals.ts";

const root = join(import.meta.dirname, "../..");
const dir = mkdtempSync(join(tmpdir(), "tollgate-totals-"));
afterAll(() => rmSync(dir, { recursive: true }));

const COUNTS = [
  { what: "tests", passed: 7, failed: 0, seconds: 1 },
  { what: "e2e", passed: 4, failed: 0, seconds: 2 },
];

test("the Chromium that CHROMIUM names is the one, or there is none", () => {
  expect(chromiumPath(process.execPath)).toBe(process.execPath);
  expect(chromiumPath(join(dir, "none"))).toBeUndefined();
});

test("without a Chromium the run says so in one line with what to do, and ends with the same totals", () => {
  const [without, found] = [totals(COUNTS, undefined), totals(COUNTS, "/usr/bin/chromium")];
  expect(without.split("\n").filter((line) => line.includes("Chromium"))).toEqual([NO_CHROMIUM]);
  expect(NO_CHROMIUM).toContain("apt-get install chromium");
  expect(found).not.toContain("Chromium");
  for (const text of [without, found]) expect(text.trimEnd().split("\n").at(-1)).toBe("11 passed, 0 failed");
});

test("what failed stands at the end: the file and the name of each test, a file that does not load, a check", () => {
  const passed = { status: "passed", fullName: "sums", failureMessages: [] };
  const failed = { status: "failed", fullName: "room rule", failureMessages: ["expected 1 to be 2\n    at a.ts:3"] };
  const failures = failuresOf(
    [
      { name: "/p/test/a.test.ts", status: "failed", message: "", assertionResults: [passed, failed] },
      { name: "/p/test/b.test.ts", status: "failed", message: "SyntaxError", assertionResults: [] },
      { name: "/p/test/c.test.ts", status: "passed", message: "", assertionResults: [passed] },
    ],
    "/p",
  );
  expect(failures).toEqual([
    "test/a.test.ts > room rule\nexpected 1 to be 2\n    at a.ts:3",
    "test/b.test.ts\nSyntaxError",
  ]);
  const lint = {
    what: "lint",
    passed: 0,
    failed: 1,
    seconds: 1,
    failures: [`lint\n${lastLines("a\nb\n".repeat(20))}`],
  };
  const text = totals([{ what: "tests", passed: 2, failed: 2, seconds: 1, failures }, lint], "/usr/bin/chromium");
  for (const failure of [...failures, `lint\n${"a\nb\n".repeat(6).trim()}`]) expect(text).toContain(`\n${failure}\n`);
  expect(text.endsWith("\n2 passed, 3 failed\n")).toBe(true);
  expect(totals(COUNTS, "/usr/bin/chromium")).not.toContain("Failed");
});

test("what passed on a second try only is named at the end with what failed first, and counts as passed", () => {
  const file = join(dir, "flaky.test.ts");
  writeFileSync(
    file,
    `import { expect, it } from "vitest";
let tries = 0;
it("is flaky", { retry: 1 }, () => expect(++tries).toBe(2));
it("is not", { retry: 1 }, () => expect(1).toBe(1));`,
  );
  symlinkSync(join(root, "node_modules"), join(dir, "node_modules"));
  const report = join(dir, "report.json");
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  execFileSync(process.execPath, [vitest, "run", "--root", dir, "--reporter=json", `--outputFile.json=${report}`], {
    cwd: dir,
    stdio: "ignore",
  });
  const { numPassedTests: passed, testResults } = JSON.parse(readFileSync(report, "utf8")) as Report;
  const secondTries = secondTriesOf(testResults, dir);
  expect(secondTries).toHaveLength(1);
  expect(secondTries[0]).toMatch(/^flaky\.test\.ts > is flaky\nAssertionError: expected 1 to be 2/);
  expect(failuresOf(testResults, dir)).toEqual([]);
  const text = totals([{ what: "e2e", passed, failed: 0, seconds: 1, secondTries }], "/usr/bin/chromium");
  expect(text).toContain("\nPassed on a second try:\n\nflaky.test.ts > is flaky\nAssertionError: ");
  expect(text.endsWith("\n2 passed, 0 failed\n")).toBe(true);
  expect(totals(COUNTS, "/usr/bin/chromium")).not.toContain("second try");
});

test("what the runtime says of streams that tests break is left out; what tests and vitest say is not", () => {
  const runtimes = [
    "uncaught exception; source = Uncaught (in promise); stack = Error: internal error; reference = 0h77",
    "exception = workerd/jsg/value.h:1535: failed: jsg.Error: internal error",
    "e = rust/worker/ffi.rs:110: failed: failed to lookup address information: Name or service not known",
    "stack: /p/node_modules/@cloudflare/workerd-linux-64/bin/workerd@3a4d9d0",
    "Socket proxy disconnected abruptly; e = rust/worker/ffi.rs:119: failed: Name or service not known",
    "NOSENTRY SQLite alarm overdue, running despite AlarmManager mismatch; scheduledTime = 1.367s",
    "console warning; message = Called .text() on an HTTP body which does not appear to be text.",
    'Sourcemap for "/p/node_modules/a/dist/index.js" points to missing source files',
  ];
  const ours = [
    " \u2713  core  test/core/ids.test.ts (3 tests) 5ms",
    "Error: uncaught exception; in a test of ours",
    "AssertionError: expected 1 to be 2",
    "stack: of a test of ours",
    "console: 52.4 KB gzipped in 23 answers",
  ];
  expect([...runtimes, ...ours].filter((line) => !isOfTheRuntime(line))).toEqual(ours);
});

/** Where nothing is installed but what a shell script needs; npm prints what a run without a Chromium does. */
function ciRun(printed: string, code: number): { output: string; status: number } {
  const bin = join(dir, `bin-${code}`);
  mkdirSync(bin);
  for (const tool of ["bash", "env", "mktemp", "rm", "dirname", "tee", "grep", "tail", "cat"]) {
    symlinkSync(execFileSync("sh", ["-c", `command -v ${tool}`], { encoding: "utf8" }).trim(), join(bin, tool));
  }
  writeFileSync(join(dir, "printed"), printed);
  const npm = `#!/bin/sh\n[ "$1" = ci ] && exit 0\ncat ${join(dir, "printed")}\nexit ${code}\n`;
  writeFileSync(join(bin, "npm"), npm.replace("/bin/sh", join(bin, "bash")), { mode: 0o755 });
  writeFileSync(join(bin, "id"), `#!${join(bin, "bash")}\necho 1000\n`, { mode: 0o755 });
  try {
    return { output: execFileSync(join(root, ".ci/run"), { env: { PATH: bin }, encoding: "utf8" }), status: 0 };
  } catch (error) {
    const { stdout, status } = error as { stdout: string; status: number };
    return { output: stdout, status };
  }
}

test(".ci/run without a Chromium passes what there is, and shows the line", () => {
  const { output, status } = ciRun(totals(COUNTS, undefined), 0);
  expect(status).toBe(0);
  expect(output).toContain(NO_CHROMIUM);
  expect(output.endsWith("\n11 passed, 0 failed\n")).toBe(true);
});

test(".ci/run fails where npm test fails", () => {
  const { output, status } = ciRun(totals([{ what: "tests", passed: 6, failed: 1, seconds: 1 }], undefined), 1);
  expect(status).toBe(1);
  expect(output.endsWith("\n6 passed, 1 failed\n")).toBe(true);
});

/**
 * How `npm test` ends: what failed, what passed only on a second try, what was left out, each part, and the totals on
 * the last line, where `.ci/run` looks for them.
 */
import { NO_CHROMIUM } from "./chromium.ts";

export interface Count {
  readonly what: string;
  readonly passed: number;
  readonly failed: number;
  readonly seconds: number;
  /** Of each failed test its file and name, then how it failed; of a failed check its last lines. */
  readonly failures?: readonly string[];
  /** Of each test that failed first and passed when it was tried again its file and name, then how it failed. */
  readonly secondTries?: readonly string[];
}
/** Of vitest's JSON report what matters here. */
export interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly Test[];
  }[];
}

interface Test {
  readonly status: string;
  readonly fullName: string;
  readonly failureMessages: readonly string[];
}

const MOST_LINES = 12;

/** `chromium`: where the browser tests found one. */
export function totals(counts: readonly Count[], chromium: string | undefined): string {
  const sum = (side: "passed" | "failed") => counts.reduce((total, count) => total + count[side], 0);
  const lines = counts.map(
    ({ what, passed, failed, seconds }) =>
      `${what.padEnd(10)} ${String(passed).padStart(5)} passed ${String(failed).padStart(4)} failed ${seconds.toFixed(1).padStart(7)} s`,
  );
  const missing = chromium === undefined ? `\n${NO_CHROMIUM}\n` : "";
  const failures = counts.flatMap((count) => count.failures ?? []).map((failure) => `\n${failure}\n`);
  const failed = failures.length > 0 ? `\nFailed:\n${failures.join("")}` : "";
  const tries = counts.flatMap((count) => count.secondTries ?? []);
  const again = tries.length > 0 ? `\nPassed on a second try:\n${tries.map((tried) => `\n${tried}\n`).join("")}` : "";
  return `${failed}${again}${missing}\n${lines.join("\n")}\n\n${sum("passed")} passed, ${sum("failed")} failed\n`;
}

/** `root`: what file names are shown without. */
export function failuresOf(testResults: Report["testResults"], root: string): string[] {
  return testResults.flatMap(({ name, status, message, assertionResults }) => {
    const file = name.replace(`${root}/`, "");
    const failed = assertionResults.filter((test) => test.status === "failed");
    if (status === "failed" && failed.length === 0) return [`${file}\n${firstLines(message)}`];
    return failed.map((test) => headed(name, test, root));
  });
}

/** Tests that failed and were tried again (vitest.config.ts): vitest keeps what the first try failed with. */
export function secondTriesOf(testResults: Report["testResults"], root: string): string[] {
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter((test) => test.status === "passed" && test.failureMessages.length > 0)
      .map((test) => headed(name, test, root)),
  );
}

function headed(file: string, test: Test, root: string): string {
  return `${file.replace(`${root}/`, "")} > ${test.fullName}\n${firstLines(test.failureMessages.join("\n"))}`;
}

const OF_THE_RUNTIME = new RegExp(
  [
    ...["uncaught exception; ", "exception = ", "e = rust/", "stack: \\S*workerd@", "Socket proxy disconnected "],
    ...["NOSENTRY ", "console warning; message = Called \\.text\\(\\) ", 'Sourcemap for "'],
  ]
    .map((begin) => `^${begin}`)
    .join("|"),
);
/**
 * What workerd and the bundler say by themselves, most of it of connections and streams that a test breaks on purpose:
 * it looks like an error to a newcomer. What matters of it, the test asserts.
 */
export const isOfTheRuntime = (line: string): boolean => OF_THE_RUNTIME.test(line);

const firstLines = (text: string): string => text.trim().split("\n").slice(0, MOST_LINES).join("\n");
/** What a failed check printed last: that is where checkers say what is wrong. */
export const lastLines = (text: string): string => text.trim().split("\n").slice(-MOST_LINES).join("\n");

/** How `npm test` ends: what was left out, each part, and the totals on the last line, where `.ci/run` looks for them. */
import { NO_CHROMIUM } from "./chromium.ts";

export interface Count {
  readonly what: string;
  readonly passed: number;
  readonly failed: number;
  readonly seconds: number;
}

/** `chromium`: where the browser tests found one. */
export function totals(counts: readonly Count[], chromium: string | undefined): string {
  const sum = (side: "passed" | "failed") => counts.reduce((total, count) => total + count[side], 0);
  const lines = counts.map(
    ({ what, passed, failed, seconds }) =>
      `${what.padEnd(10)} ${String(passed).padStart(5)} passed ${String(failed).padStart(4)} failed ${seconds.toFixed(1).padStart(7)} s`,
  );
  const missing = chromium === undefined ? `\n${NO_CHROMIUM}\n` : "";
  return `${missing}\n${lines.join("\n")}\n\n${sum("passed")} passed, ${sum("failed")} failed\n`;
}

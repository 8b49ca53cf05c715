/**
 * The operator's log: one JSON object a line. Secrets and tenant content are kept out by the code that builds the line.
 */
import type { LogLine } from "../gateway/ports.ts";

export function log(line: LogLine): void {
  // biome-ignore lint/suspicious/noConsole: the one place where the Worker writes its log
  console.log(JSON.stringify(line));
}

/** The operator's log: one JSON object a line. What must never stand in it is kept out where the line is made. */
import type { LogLine } from "../gateway/ports.ts";

export function log(line: LogLine): void {
  // biome-ignore lint/suspicious/noConsole: the one place where the Worker writes its log
  console.log(JSON.stringify(line));
}

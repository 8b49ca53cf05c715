/**
 * Ends the Workers' processes when this process is gone, however it went. workerd outlives a parent that is killed with
 * -9, keeps its port and writes its state; so a small shell holds the other end of a pipe and, when the pipe closes,
 * ends every process whose id stands in the run directory.
 */
import { spawn } from "node:child_process";

const SCRIPT = `trap '' INT TERM HUP
cat > /dev/null
for file in "$1"/*.pid; do
  [ -f "$file" ] && kill -9 "$(cat "$file")"
done`;

/** From now on the ids in `runDir/*.pid` end with this process. */
export function keepTogether(runDir: string): void {
  const keeper = spawn("/bin/sh", ["-c", SCRIPT, "keeper", runDir], { stdio: ["pipe", "ignore", "ignore"] });
  // The pipe must stay open for as long as this process lives, and not hold it.
  keeper.unref();
  (keeper.stdin as unknown as { unref(): void }).unref();
}

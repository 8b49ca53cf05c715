/**
 * Ends the Workers' processes when this process is gone, for whatever reason. workerd survives a parent that is killed
 * with -9, keeps its port and writes its state. So a small shell holds the other end of a pipe; when the pipe closes,
 * it ends every process whose id is in the run directory.
 */
import { spawn } from "node:child_process";

const SCRIPT = `trap '' INT TERM HUP
cat > /dev/null
for file in "$1"/*.pid; do
  [ -f "$file" ] && kill -9 "$(cat "$file")"
done`;

/** From now on the processes in `runDir/*.pid` end with this process. */
export function startReaper(runDir: string): void {
  const reaper = spawn("/bin/sh", ["-c", SCRIPT, "reaper", runDir], { stdio: ["pipe", "ignore", "ignore"] });
  // The pipe must stay open as long as this process lives, but must not keep it alive.
  reaper.unref();
  (reaper.stdin as unknown as { unref(): void }).unref();
}

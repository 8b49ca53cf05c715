import { spawnSync } from "node:child_process";

/** The commit of the code in `root`; empty where git cannot tell, as in an archive without its history. */
export function commitOf(root: string): string {
  const { status, stdout } = spawnSync("git", ["rev-parse", "HEAD"], { cwd: root, encoding: "utf8" });
  return status === 0 ? stdout.trim() : "";
}
